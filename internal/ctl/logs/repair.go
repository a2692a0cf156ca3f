package logs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/ctl/app"
	"github.com/chronik-io/chronik/internal/ctl/output"
	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/text"
)

func repairCommand(a *app.App) *cobra.Command {
	var w where
	var backup string
	var dryRun bool
	c := &cobra.Command{
		Use: "repair", Short: "Repair what a start doesn't, after a copy of every file that is changed", Args: app.Args(0, 0, "no argument; --dir says where"),
		Long: "repair looks as verify does and says each thing that it would do, with exactly what is lost by it; --dry-run ends there. Then it asks,\n" +
			"copies every file that it will change or remove to --backup, with a manifest that names the way back, does it, and looks again. What a\n" +
			"start heals by itself it leaves to the start. It may be interrupted at any moment: a start, or another repair, goes on from there.\n" +
			"It ends with 4 where something is left that it can't repair.",
		Example: "  chronikctl log repair --dir /var/lib/chronik --dry-run\n  chronikctl log repair --dir /var/lib/chronik --backup /mnt/other/chronik-before-repair",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if backup == "" && !dryRun {
				return app.Usage("--backup is missing: a new directory, on another disk if possible, for a copy of every file that is changed; --dry-run says which")
			}
			o, err := w.find(cmd)
			if err != nil {
				return err
			}
			if dryRun {
				r, err := runVerify(cmd, a, o)
				if err != nil {
					return err
				}
				return plan(a, repaired{DryRun: true, Plan: r.Plan(), Loses: r.Plan().Loses()})
			}
			if err := owner(o); err != nil {
				return err
			}
			// The copies say where they came from.
			if o, backup, err = absolute(o, backup); err != nil {
				return err
			}
			return runRepair(cmd, a, o, backup)
		},
	}
	w.flags(c)
	c.Flags().StringVar(&backup, "backup", "", "new directory for the copies; needed, but for --dry-run")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be done, and what that loses")
	app.CompleteFlag(c, "backup", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	})
	return c
}

// repaired is what programs see of a repair.
type repaired struct {
	DryRun bool `json:"dryRun"`
	*inspect.Plan
	Loses  []inspect.Loss `json:"loses"`
	Backup string         `json:"backup,omitempty"`
	Clean  bool           `json:"clean"` // afterwards; of a dry run: nothing was done
}

// absolute makes all paths independent of the working directory.
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
	for i := range o.Places {
		o.Places[i].Path, o.Places[i].Journal = abs(o.Places[i].Path), abs(o.Places[i].Journal)
	}
	for i := range o.Data {
		o.Data[i] = abs(o.Data[i])
	}
	return o, abs(backup), first
}

// owner refuses to make files as root that the broker's user could not open.
func owner(o inspect.Options) error {
	for _, p := range o.Places {
		in, err := os.Stat(p.Path)
		if err != nil {
			continue // Begin says so
		}
		if st, ok := in.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 && st.Uid != 0 {
			return app.Usage("repair %s: it belongs to user %d, who could not open what root makes there; run it as that user: sudo -u '#%d' chronikctl log repair …", p.Path, st.Uid, st.Uid)
		}
	}
	return nil
}

// wayBack is how a repair is undone.
const wayBack = "The manifest.json there will name the way back."

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
		if err := a.Confirm("do "+text.Plural(len(list), "act of repair", "acts of repair")+", after copying what they change to "+backup, wayBack, list); err != nil {
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
	out.Clean = r.Report().Clean()
	if !out.Clean {
		out.Left = r.Report().Plan().Left
	}
	return plan(a, out)
}

// foldActs groups acts that do the same to partitions of an internal topic.
func foldActs(acts []inspect.Act, wide bool) [][]*inspect.Act {
	return fold(acts, func(a *inspect.Act) string { return foldable(wide, a.Topic, a.Dir, a.What) })
}

// partitionsOf names the partitions of acts that were folded.
func partitionsOf(group []*inspect.Act) string {
	var parts []int32
	for _, a := range group {
		parts = append(parts, a.Partition)
	}
	return span(group[0].Topic, parts)
}

// lossesOf is what acts that were folded lose.
func lossesOf(group []*inspect.Act) string {
	var texts []string
	for _, a := range group {
		texts = append(texts, losses(a))
	}
	return common(texts)
}

// what is an act, or several that were folded, in a line.
func what(group []*inspect.Act) string {
	text := group[0].Dir + ": "
	if parts := partitionsOf(group); parts != "" {
		text += parts + ": "
	}
	return text + group[0].What + "; loses " + lossesOf(group)
}

// losses is what an act loses: each range of offsets, how many records that is at most,
// and what else is gone.
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

// plan shows what was done, or would be, and what is left.
func plan(a *app.App, out repaired) error {
	if out.Loses == nil {
		out.Loses = []inspect.Loss{}
	}
	head, empty := "DONE", "nothing is to be repaired"
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
	if out.Backup != "" {
		tables = append(tables, &output.Table{Title: "what was changed is copied in " + out.Backup + "; its manifest.json names the way back"})
	}
	if err := a.Print(out, tables...); err != nil {
		return err
	}
	if len(out.Left) > 0 {
		return app.WithCode(app.ExitUnhealthy, fmt.Errorf("%s not repaired, see above", text.Plural(len(out.Left), "thing is", "things are")))
	}
	return nil
}
