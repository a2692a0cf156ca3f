package logs

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/ctl/cli"
	"github.com/chronik-io/chronik/internal/ctl/output"
	"github.com/chronik-io/chronik/internal/ctl/progress"
	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/terminal"
)

func verify(a *cli.App) *cobra.Command {
	var w where
	c := &cobra.Command{
		Use: "verify", Short: "Find what is damaged, what a start would make of it, and what would be missing", Args: cli.Args(0, 0, "no argument; --dir says where"),
		Long: "verify reads everything: identities, checkpoint, journal, every batch of every segment, indexes, metadata. It names each damage with\n" +
			"its place, says what a start would do about it, where each partition would end, and which acknowledged records would be missing.\n" +
			"It changes nothing, and keeps a broker from starting meanwhile. What a start puts right by itself is no reason for concern, and is\n" +
			"listed too. It ends with 4 where something else is found.",
		Example: "  chronikctl log verify --dir /var/lib/chronik\n  chronikctl log verify --config /etc/chronik/chronikd.yaml -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := w.find(cmd)
			if err != nil {
				return err
			}
			r, err := look(cmd, a, o)
			if err != nil {
				return err
			}
			return show(a, r)
		},
	}
	w.flags(c)
	return c
}

// look verifies with a bar on a terminal.
func look(cmd *cobra.Command, a *cli.App, o inspect.Options) (*inspect.Report, error) {
	bar := progress.New(a.Err, terminal.Is(a.Err), "reading", inspect.Size(o))
	defer bar.End()
	o.Progress = bar.Add
	r, err := inspect.Verify(cmd.Context(), o)
	if err != nil {
		return nil, explained("verify", err)
	}
	return r, nil
}

// report is what programs see of a look.
type report struct {
	Clean   bool   `json:"clean"`
	Refused bool   `json:"startRefused"`
	Summary string `json:"summary"`
	*inspect.Report
	Missing []inspect.Loss `json:"missing"`
}

func show(a *cli.App, r *inspect.Report) error {
	v := report{Clean: r.Clean(), Refused: r.Refused(), Report: r, Missing: r.Missing(), Summary: summary(r)}
	if v.Missing == nil {
		v.Missing = []inspect.Loss{}
	}
	tables := []*output.Table{{Title: v.Summary}}
	if len(r.Findings) > 0 {
		tables = append(tables, findings(r))
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
	n := 0
	for i := range r.Findings {
		if !r.Findings[i].Healing() {
			n++
		}
	}
	return cli.WithCode(cli.ExitUnhealthy, fmt.Errorf("%s, see above; chronikctl log repair --dry-run says what a repair would do", plural(n, "thing is wrong", "things are wrong")))
}

func findings(r *inspect.Report) *output.Table {
	t := &output.Table{Columns: []string{"KIND", "A START", "WHERE", "AT#", "PARTITION", "WHAT", "REPAIR", "+LOST"}}
	for i := range r.Findings {
		f := &r.Findings[i]
		at, part, lost := "", "", ""
		if f.Position >= 0 {
			at = strconv.FormatInt(f.Position, 10)
		}
		if f.Topic != "" {
			part = fmt.Sprintf("%s-%d", f.Topic, f.Partition)
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
		t.Add(f.Kind, f.Effect, f.File, at, part, f.Detail, do, lost)
	}
	return t
}

// partitions shows those of which something is to be said, or all.
func partitions(r *inspect.Report, all bool) *output.Table {
	t := &output.Table{Columns: []string{"PARTITION", "START#", "+IN SEGMENTS#", "END#", "+FRAMES#", "+BATCHES#", "STATE", "MISSING"}}
	for i := range r.Partitions {
		p := &r.Partitions[i]
		if !all && (p.Effect == "" || p.Effect == inspect.Heals) && len(p.Missing) == 0 {
			continue
		}
		missing := ""
		for k, l := range p.Missing {
			if k > 0 {
				missing += ", "
			}
			missing += l.Offsets()
		}
		t.Add(fmt.Sprintf("%s-%d", p.Topic, p.Partition), p.Start, p.Stored, p.End, p.Frames, p.Batches, state(p.Effect), missing)
	}
	return t
}

// state is what becomes of a partition at a start.
func state(e inspect.Effect) string {
	switch e {
	case inspect.Offline:
		return "offline"
	case inspect.Refuses:
		return "start refused"
	case inspect.Serves:
		return "damaged"
	case inspect.Aside:
		return "ready, something is set aside"
	}
	return "ready"
}

// summary says in a line what a start would come to.
func summary(r *inspect.Report) string {
	frames, ready := 0, 0
	for _, d := range r.Directories {
		frames += d.Frames
	}
	for _, p := range r.Partitions {
		if p.Effect != inspect.Offline && p.Effect != inspect.Refuses {
			ready++
		}
	}
	text := fmt.Sprintf("%s, %s, %s in the journal: ", plural(len(r.Directories), "log directory", "log directories"),
		plural(len(r.Partitions), "partition", "partitions"), plural(frames, "frame", "frames"))
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
		return text + "a start would come up with everything that was acknowledged"
	case r.Refused():
		text += "a start would be refused"
	case ready < len(r.Partitions):
		text += fmt.Sprintf("a start would come up with %d of %s online", ready, plural(len(r.Partitions), "partition", "partitions"))
	default:
		text += "a start would come up"
	}
	switch {
	case unknown:
		return text + fmt.Sprintf("; at least %s missing, and nothing tells how many more", plural(int(n), "offset is", "offsets are"))
	case n > 0:
		return text + fmt.Sprintf("; %s missing", plural(int(n), "offset is", "offsets are"))
	}
	return text + "; nothing that was acknowledged is lost"
}

func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}
