package logs

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

func verifyCommand(a *app.App) *cobra.Command {
	var w dirFlags
	c := &cobra.Command{
		Use: "verify", Short: "Find damage, and report what the broker would do about it at startup",
		Args: app.Args(0, 0, "no argument; --dir says where"),
		Long: "verify reads everything: identities, checkpoint, journal, every batch of every segment, indexes, metadata. It\n" +
			"lists all damage with its place, what the broker would do about it at startup, where each partition would end,\n" +
			"and which acknowledged records would be missing. It changes nothing, but no broker can start on the directory\n" +
			"while it runs. It also lists the damage that the broker repairs at startup, which is no reason for concern. It\n" +
			"exits with 4 if it finds anything else.",
		Example: "  chronikctl log verify --dir /var/lib/chronik\n  chronikctl log verify --config /etc/chronik/chronikd.yaml -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := w.find(cmd, "")
			if err != nil {
				return err
			}
			r, err := runVerify(cmd, a, o)
			if err != nil {
				return err
			}
			return show(a, r, w.repair("--dry-run"))
		},
	}
	w.flags(c)
	return c
}

// runVerify verifies, with a progress bar on a terminal.
func runVerify(cmd *cobra.Command, a *app.App, o inspect.Options) (*inspect.Inspection, error) {
	bar := output.NewBar(a.Err, cli.IsTerminal(a.Err), "reading", inspect.Size(o))
	defer bar.End()
	o.Progress = bar.Add
	r, err := inspect.Verify(cmd.Context(), o)
	if err != nil {
		return nil, explained("verify", err)
	}
	return r, nil
}

// verification is the answer of verify.
type verification struct {
	Clean   bool   `json:"clean"`
	Refused bool   `json:"startRefused"`
	Summary string `json:"summary"`
	*inspect.Inspection
	Missing []inspect.Loss `json:"missing"`
}

func show(a *app.App, r *inspect.Inspection, dryRun string) error {
	v := verification{Clean: r.Clean(), Refused: r.Refused(), Inspection: r, Missing: r.Missing(), Summary: summary(r)}
	if v.Missing == nil {
		v.Missing = []inspect.Loss{}
	}
	tables := []*output.Table{{Title: v.Summary}}
	if len(r.Findings) > 0 {
		tables = append(tables, findings(r, a.Format() == output.Wide))
	}
	if t := partitions(r, a.Format() == output.Wide); len(t.Rows) > 0 {
		tables = append(tables, t)
	}
	if err := a.Print(v, tables...); err != nil {
		return err
	}
	if v.Clean {
		return nil
	}
	n, remedy := 0, ""
	for i := range r.Findings {
		f := &r.Findings[i]
		if !f.Healing() {
			n++
		}
		if !f.Healing() && f.Repairable() {
			remedy = dryRun + " shows what a repair would do"
		}
	}
	if remedy != "" {
		if err := r.Replicated(); err != nil { // a repair would be refused for this reason
			remedy = err.Error() + " (docs/replication.md, A damaged replica)"
		}
		remedy = "; " + remedy
	}
	return app.WithCode(app.ExitUnhealthy, fmt.Errorf("%s, see above%s", text.Plural(n, "thing is wrong", "things are wrong"), remedy))
}

func findings(r *inspect.Inspection, wide bool) *output.Table {
	t := &output.Table{Columns: []string{"KIND", "A START", "WHERE", "AT#", "PARTITION", "WHAT", "REPAIR", "+LOST"}}
	for _, group := range fold(r.Findings, func(f *inspect.Finding) string { return foldable(wide, f.Topic, f.Kind, f.Effect, f.Dir) }) {
		f, at, lost := group[0], "", ""
		var parts []int32
		for _, x := range group {
			parts = append(parts, x.Partition)
		}
		file := f.File
		switch {
		case len(group) > 1:
			file += " …"
		case f.Position >= 0:
			at = strconv.FormatInt(f.Position, 10)
		}
		for k, l := range f.Lost {
			if k > 0 {
				lost += "; "
			}
			lost += l.String()
		}
		do := f.Repair
		switch {
		case f.Healing() && do == "":
			do = "not needed"
		case do == "":
			do = "none: " + f.Restore
		}
		t.Add(f.Kind, f.Effect, file, at, span(f.Topic, parts), f.Detail, do, lost)
	}
	return t
}

// partitions lists the partitions that are affected, or all.
func partitions(r *inspect.Inspection, all bool) *output.Table {
	t := &output.Table{Columns: []string{"PARTITION", "START#", "+IN SEGMENTS#", "END#", "+FRAMES#", "+BATCHES#", "STATE", "MISSING"}}
	var shown []inspect.Partition
	for _, p := range r.Partitions {
		if all || p.Effect != "" && p.Effect != inspect.Heals || len(p.Missing) > 0 {
			shown = append(shown, p)
		}
	}
	for _, group := range fold(shown, func(p *inspect.Partition) string { return foldable(all, p.Topic, state(p.Effect)) }) {
		var parts []int32
		var missing []string
		for _, p := range group {
			parts, missing = append(parts, p.Partition), append(missing, offsetsOf(p.Missing))
		}
		if p := group[0]; len(group) == 1 {
			t.Add(span(p.Topic, parts), p.Start, p.Stored, p.End, p.Frames, p.Batches, state(p.Effect), missing[0])
		} else {
			t.Add(span(p.Topic, parts), "", "", "", "", "", state(p.Effect), common(missing))
		}
	}
	return t
}

func offsetsOf(list []inspect.Loss) string {
	var texts []string
	for _, l := range list {
		texts = append(texts, l.Offsets())
	}
	return strings.Join(texts, ", ")
}

// state returns the state of a partition after startup.
func state(e inspect.Effect) string {
	switch e {
	case inspect.Offline:
		return "offline"
	case inspect.Refuses:
		return "start refused"
	case inspect.Serves:
		return "damaged"
	case inspect.Aside:
		return "ready, some data quarantined"
	}
	return "ready"
}

// summary describes the result of a startup in one line.
func summary(r *inspect.Inspection) string {
	frames, ready := 0, 0
	for _, d := range r.Directories {
		frames += d.Frames
	}
	for _, p := range r.Partitions {
		if p.Effect != inspect.Offline && p.Effect != inspect.Refuses {
			ready++
		}
	}
	summary := fmt.Sprintf("%s, %s, %s in the journal: ", text.Plural(len(r.Directories), "log directory", "log directories"),
		text.Plural(len(r.Partitions), "partition", "partitions"), text.Plural(frames, "frame", "frames"))
	var n int64
	unknown := false
	for _, l := range r.Missing() {
		if l.To == inspect.Unknown {
			unknown = true
			continue
		}
		n += l.To - l.From
	}
	switch {
	case r.Clean():
		return summary + "a start would come up with everything that was acknowledged" + before(r)
	case r.Refused():
		summary += "a start would be refused"
	case ready < len(r.Partitions):
		summary += fmt.Sprintf("a start would come up with %d of %s online", ready,
			text.Plural(len(r.Partitions), "partition", "partitions"))
	default:
		summary += "a start would come up"
	}
	switch {
	case unknown && n > 0:
		return summary + fmt.Sprintf("; %s missing, and records that came after %s, if there were any%s",
			text.Plural(int(n), "offset is", "offsets are"), since(r), before(r))
	case unknown:
		return summary + "; records that came after " + since(r) + " are missing, if there were any" + before(r)
	case n > 0:
		return summary + fmt.Sprintf("; %s missing%s", text.Plural(int(n), "offset is", "offsets are"), before(r))
	}
	return summary + "; no acknowledged record is lost" + before(r)
}

// before says which logs have lost records already, or may have; "" if none.
func before(r *inspect.Inspection) string {
	var logs []string
	for i := range r.Partitions {
		if p := &r.Partitions[i]; p.Lossy {
			logs = append(logs, fmt.Sprintf("%s-%d", p.Topic, p.Partition))
		}
	}
	if len(logs) == 0 {
		return ""
	}
	return fmt.Sprintf("; before, %s lost records, or may have: %s", text.Plural(len(logs), "partition has", "partitions have"),
		strings.Join(logs[:min(len(logs), 5)], ", "))
}

// since names the oldest checkpoint; nothing is known of what followed it.
func since(r *inspect.Inspection) string {
	var first time.Time
	for _, d := range r.Directories {
		if at := d.CheckpointAt; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		return "the last checkpoint"
	}
	return "the checkpoint of " + first.UTC().Format("2006-01-02 15:04:05 UTC")
}
