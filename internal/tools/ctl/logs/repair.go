package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/vfs"
)

func repairCommand(a *app.App) *cobra.Command {
	var w dirFlags
	var backup string
	var restore []string
	var dryRun, last bool
	c := &cobra.Command{
		Use: "repair", Short: "Repair what a broker does not, after copying every file that it changes",
		Args: app.Args(0, 0, "no argument; --dir says where"),
		Long: "repair verifies the directory and lists each action with exactly what it loses; --dry-run only lists. Then it\n" +
			"asks, and copies every file that it will change or remove to --backup, with a manifest that says how to undo\n" +
			"the repair. It then performs the actions and verifies again. It does not repair damage that the broker repairs\n" +
			"at startup. It may be interrupted at any time: the next start of the broker, or another repair, continues from\n" +
			"there. It exits with 4 if it cannot repair everything.\n\n" +
			"Of partitions with replicas on other brokers it repairs none: start the broker, which replaces a damaged\n" +
			"log by a copy. --last-copy says that no other broker has all records any longer. Each may have some that the\n" +
			"others lack: --restore writes them back to their offsets, from files that log dump --for-repair has made of these\n" +
			"replicas. What is lost nevertheless is listed with the commands that may save it. --dry-run refuses what the\n" +
			"repair would refuse.",
		Example: "  chronikctl log repair --dir /var/lib/chronik --dry-run\n  chronikctl log repair --dir /var/lib/chronik --backup /mnt/other/chronik-before-repair",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if backup == "" && !dryRun {
				return app.Usage(
					"--backup is missing: give a new directory, on another disk if possible, for a copy of every file that repair changes; --dry-run lists them")
			}
			o, err := w.find(cmd, backup)
			if err != nil {
				return err
			}
			if o.Restore, err = inspect.ReadDonor(vfs.OS(), restore); err != nil {
				return app.Usage("--restore %w%s", err, hint(err))
			}
			if dryRun {
				r, err := runVerify(cmd, a, o)
				if err != nil {
					return err
				}
				if err := r.Replicated(); err != nil && !last {
					return explained("repair", err)
				}
				elsewhere(a, r)
				return plan(a, repaired{DryRun: true, Plan: r.Plan(), Loses: r.Plan().Loses()})
			}
			if err := owner(o); err != nil {
				return err
			}
			// The manifest has absolute paths.
			if o, backup, err = absolute(o, backup); err != nil {
				return err
			}
			o.LastCopy = last
			return runRepair(cmd, a, o, backup)
		},
	}
	w.flags(c)
	c.Flags().StringVar(&backup, "backup", "", "new directory for the copies; required unless --dry-run is given")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only list what would be done, and what would be lost")
	c.Flags().BoolVar(&last, "last-copy", false, "repair also partitions with replicas on other brokers: what these have is left out")
	c.Flags().StringArrayVar(&restore, "restore", nil, "file of log dump --for-repair on another broker, with batches to write back; repeatable")
	app.CompleteFlag(c, "backup", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	})
	return c
}

// hint returns what to do about a file that cannot be restored.
func hint(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "; make it on that broker, or leave it out if the broker is gone for good: what only it has is lost then"
	case errors.Is(err, inspect.ErrDonor):
		return "; remove the file, and make it again with the same commands"
	}
	return ""
}

// repaired is the answer of a repair.
type repaired struct {
	DryRun bool `json:"dryRun"`
	*inspect.Plan
	Loses  []inspect.Loss `json:"loses"`
	Backup string         `json:"backup,omitempty"`
	Clean  bool           `json:"clean"` // afterwards; false for a dry run
}

// absolute makes all paths absolute.
func absolute(o inspect.Options, backup string) (inspect.Options, string, error) {
	var first error
	abs := func(p string) string {
		if p == "" {
			return p
		}
		full, err := filepath.Abs(p)
		if err != nil && first == nil {
			first = fmt.Errorf("repair: %w", err)
		}
		return full
	}
	for i := range o.Locations {
		o.Locations[i].Path, o.Locations[i].Journal = abs(o.Locations[i].Path), abs(o.Locations[i].Journal)
	}
	for i := range o.Data {
		o.Data[i] = abs(o.Data[i])
	}
	return o, abs(backup), first
}

// owner refuses to create files as root that the broker's user could not open.
func owner(o inspect.Options) error {
	for _, p := range o.Locations {
		if uid, foreign := cli.Foreign(p.Path); foreign {
			return app.Usage(
				"repair %s: it belongs to user %d, who could not open files that root creates there; run it as that user: sudo -u '#%d' chronikctl log repair …",
				p.Path, uid, uid)
		}
	}
	return nil
}

// wayBack refers to the instructions for undoing a repair.
const wayBack = "The manifest.json there will say how to undo it."

// runRepair asks and repairs.
func runRepair(cmd *cobra.Command, a *app.App, o inspect.Options, backup string) (err error) {
	bar := output.NewBar(a.Err, cli.IsTerminal(a.Err), "reading", inspect.Size(o))
	o.Progress = bar.Add
	r, err := inspect.Begin(cmd.Context(), o, fmt.Sprintf("chronikctl log repair, pid %d", os.Getpid()))
	bar.End()
	if err != nil {
		return explained("repair", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	out := repaired{Plan: r.Plan(), Loses: r.Plan().Loses()}
	if len(out.Acts) > 0 {
		var list []string
		for _, group := range foldActs(out.Acts, false) {
			list = append(list, what(group))
		}
		elsewhere(a, r.Inspection())
		backup = another(a, backup)
		if err := a.Confirm("do "+text.Plural(len(list), "act of repair", "acts of repair")+", after copying what they change to "+backup,
			wayBack, list); err != nil {
			return err
		}
		if err := r.Do(cmd.Context(), backup); err != nil {
			if errors.Is(err, inspect.ErrBackup) {
				return app.Usage("--backup: %w", err)
			}
			return explained("repair", err)
		}
		out.Backup = backup
	}
	out.Clean = r.Inspection().Clean()
	if !out.Clean {
		out.Left = r.Inspection().Plan().Left
	}
	return plan(a, out)
}

// another returns the directory for the copies: the given one, or if that holds those of an earlier
// repair, one next to it.
func another(a *app.App, backup string) string {
	for name, n := backup, 2; ; name, n = fmt.Sprintf("%s.%d", backup, n), n+1 {
		list, err := os.ReadDir(name)
		if err != nil || len(list) == 0 {
			if name != backup {
				a.Note("%s holds the copies of an earlier repair: those of this one go to %s", backup, name)
			}
			return name
		}
		if _, err := os.Stat(filepath.Join(name, inspect.ManifestFile)); err != nil {
			return backup // it holds something else, and is refused
		}
	}
}

// elsewhere says which files of --restore are of no use, and how to save what other brokers may
// have of the records that a repair loses.
func elsewhere(a *app.App, r *inspect.Inspection) {
	for _, name := range r.Unused() {
		a.Note("%s has nothing that belongs into what this repair replaces", name)
	}
	for _, x := range r.Elsewhere() {
		args := []string{"chronikctl", "log", "dump", "--dir", health.UnknownPlace, "--topic", x.Topic,
			"--partition", strconv.Itoa(int(x.Partition)), "--from", strconv.FormatInt(x.From, 10)}
		if x.To != inspect.Unknown {
			args = append(args, "--to", strconv.FormatInt(x.To, 10))
		}
		dump := strings.TrimSuffix(health.Command(append(args, "--for-repair")...), "`")
		say := func(who, name string) {
			file := health.SavedFile(x.Topic, x.Partition, name)
			a.Note("%s may have offsets %s of %s-%d, which this repair would lose. If it was not done yet, run there %s >> %s`, with --dir "+
				"for its data directory and each of its log.dirs, and repair here with --restore %s, too.", who, x.Offsets(), x.Topic,
				x.Partition, dump, file, file)
		}
		for _, id := range x.Brokers {
			say(health.BrokerSubject(id), strconv.Itoa(int(id)))
		}
		if len(x.Brokers) == 0 {
			say("each other broker with a replica", "ID")
		}
	}
}

// foldActs groups equal acts on partitions of an internal topic.
func foldActs(acts []inspect.Act, wide bool) [][]*inspect.Act {
	return fold(acts, func(a *inspect.Act) string { return foldable(wide, a.Topic, a.Dir, a.What) })
}

// partitionsOf names the partitions of folded acts.
func partitionsOf(group []*inspect.Act) string {
	var parts []int32
	for _, a := range group {
		parts = append(parts, a.Partition)
	}
	return span(group[0].Topic, parts)
}

// lossesOf returns what folded acts lose.
func lossesOf(group []*inspect.Act) string {
	var texts []string
	for _, a := range group {
		texts = append(texts, losses(a))
	}
	return common(texts)
}

// what formats an act, or several folded ones, as a line.
func what(group []*inspect.Act) string {
	text := group[0].Dir + ": "
	if parts := partitionsOf(group); parts != "" {
		text += parts + ": "
	}
	return text + group[0].What + "; loses " + lossesOf(group)
}

// losses returns what an act loses: each range of offsets with its maximum number of records, and
// other losses.
func losses(a *inspect.Act) string {
	var texts []string
	for _, l := range a.Loses {
		text := "offsets " + l.Offsets()
		if n := l.To - l.From; l.To != inspect.Unknown && n > 1 {
			text += fmt.Sprintf(" (at most %d records)", n)
		}
		texts = append(texts, text)
	}
	if a.Gone != "" {
		texts = append(texts, a.Gone)
	}
	if len(texts) == 0 {
		return "nothing"
	}
	return strings.Join(texts, ", ")
}

// plan prints what was done, or would be, and what remains.
func plan(a *app.App, out repaired) error {
	if out.Loses == nil {
		out.Loses = []inspect.Loss{}
	}
	head, empty := "DONE", "nothing to repair"
	if out.DryRun {
		head = "WOULD DO"
	}
	if len(out.Left) > 0 {
		empty = "nothing can be repaired"
	}
	acts := &output.Table{Columns: []string{"DIRECTORY", "PARTITION", head, "LOSES", "+FILES"}, Empty: empty}
	for _, group := range foldActs(out.Acts, a.Format() == output.Wide) {
		acts.Add(group[0].Dir, partitionsOf(group), group[0].What, lossesOf(group), strings.Join(group[0].Files, " "))
	}
	tables := []*output.Table{acts}
	if len(out.Left) > 0 {
		left := &output.Table{Title: "not repaired", Columns: []string{"KIND", "A START", "WHERE", "WHAT", "TO DO"}}
		key := func(f *inspect.Finding) string {
			return foldable(a.Format() == output.Wide, f.Topic, f.Kind, f.Effect, f.Dir)
		}
		for _, group := range fold(out.Left, key) {
			f, file := group[0], group[0].File
			if len(group) > 1 {
				file += fmt.Sprintf(" … (%d)", len(group))
			}
			left.Add(f.Kind, f.Effect, file, f.Detail, f.Restore)
		}
		tables = append(tables, left)
	}
	if t := reopened(out.Reopened); t != nil {
		tables = append(tables, t)
	}
	if t := torn(out.Torn); t != nil {
		tables = append(tables, t)
	}
	if out.Backup != "" {
		tables = append(tables, &output.Table{Title: "copies of all changed files are in " + out.Backup +
			"; its manifest.json says how to undo the repair"})
	}
	if err := a.Print(out, tables...); err != nil {
		return err
	}
	if len(out.Left) > 0 {
		return app.WithCode(app.ExitUnhealthy,
			fmt.Errorf("%s not repaired, see above", text.Plural(len(out.Left), "thing is", "things are")))
	}
	return nil
}

// reopened lists the transactions whose markers may be lost, nil if there are none. Only the leader
// of a partition may end one: another replica may have the marker.
func reopened(list []inspect.Transaction) *output.Table {
	if len(list) == 0 {
		return nil
	}
	t := &output.Table{Title: "open transactions whose markers may be lost; readers of committed records wait for their end",
		Columns: []string{"PARTITION", "PRODUCER", "EPOCH", "FIRST OFFSET", "AFTER A START, IF TXN FIND-HANGING SHOWS IT"}}
	for _, x := range list {
		t.Add(fmt.Sprintf("%s-%d", x.Topic, x.Partition), x.Producer, x.Epoch, x.First,
			fmt.Sprintf("chronikctl txn abort --topic %s --partition %d --start-offset %d", x.Topic, x.Partition, x.First))
	}
	return t
}

// torn lists the transactions whose end is lost although they do not stay open, nil if there are
// none.
func torn(list []inspect.Torn) *output.Table {
	if len(list) == 0 {
		return nil
	}
	t := &output.Table{Title: "transactions whose markers may be lost and whose producers ended later ones; readers of committed records " +
		"see these offsets if the later one was committed, whatever the outcome was",
		Columns: []string{"PARTITION", "PRODUCER", "EPOCH", "OFFSETS"}}
	for _, x := range list {
		t.Add(fmt.Sprintf("%s-%d", x.Topic, x.Partition), x.Producer, x.Epoch, inspect.Loss{From: x.First, To: x.Until}.Offsets())
	}
	return t
}
