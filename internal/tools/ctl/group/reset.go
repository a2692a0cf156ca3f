package group

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// move is the reset of one partition.
type move struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      *int64 `json:"committed"` // committed before; nil if none
	To        int64  `json:"new"`
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
	Note      string `json:"note,omitempty"` // why To is not the requested offset
	Error     string `json:"error,omitempty"`
}

func reset(a *app.App) *cobra.Command {
	var w resetFlags
	var dryRun, shared bool
	c := &cobra.Command{
		Use: "reset GROUP", Short: "Set the offsets of a group that has no members", Args: app.Args(1, 1, "one group"),
		ValidArgsFunction: a.Groups(1),
		Long: "reset sets the offsets from which a group continues. It lists the old and the new offsets and asks; --yes confirms,\n" +
			"--dry-run only lists. Without --topic it resets all topics for which the group has offsets. If a new offset is below\n" +
			"the start of its partition, reset uses the start; if it is above the end, reset uses the end. The group must have no\n" +
			"members, because they would commit their own offsets. Of a share group, reset sets the positions, and what members\n" +
			"have done above them is forgotten. If there is no such group, reset creates one; with --share a share group.",
		Example: "  chronikctl group reset audit --to-earliest --dry-run\n  chronikctl group reset audit --topic orders:0,1 --to-offset 1200\n" +
			"  chronikctl group reset audit --topic orders --to-time 2h\n  chronikctl group reset audit --shift-by -100\n  chronikctl group reset audit --from-file offsets.csv",
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := w.check(cmd, names[0]); err != nil {
				return err
			}
			return a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
				return run(ctx, a, adm, names[0], &w, shared, dryRun)
			})(cmd, names)
		},
	}
	w.flags(c, a)
	c.Flags().BoolVar(&dryRun, "dry-run", false, dryRunDoc)
	c.Flags().BoolVar(&shared, "share", false, "the group is a share group; needed for one that does not exist yet")
	return c
}

func run(ctx context.Context, a *app.App, adm *kadm.Client, name string, w *resetFlags, shared, dryRun bool) error {
	d, err := loadOrNew(ctx, a, adm, name)
	switch {
	case err != nil:
		return err
	case shared && d.Type == "":
		d.Type = typeShare
	case shared && d.Type != typeShare:
		return fmt.Errorf("reset group %s: it is a %s group; leave --share out", name, d.Type)
	}
	if len(d.Members) > 0 {
		return app.Refused("reset group "+name, kerr.NonEmptyGroup, fmt.Sprintf("it has %s, which would commit their own offsets",
			text.Count(len(d.Members), "member")))
	}
	moves, err := w.plan(ctx, adm, d)
	if err != nil {
		return fmt.Errorf("reset group %s: %w", name, err)
	}
	if dryRun {
		return printMoves(a, name, "would continue at", moves)
	}
	var changes []string
	for _, m := range moves {
		changes = append(changes, fmt.Sprintf("%s partition %d: %s to %d", m.Topic, m.Partition, known(m.From), m.To))
	}
	if err := a.Confirm(fmt.Sprintf("set %s of group %s", text.Count(len(moves), "offset"), name), exportFirst, changes); err != nil {
		return err
	}
	set := commit
	if d.Type == typeShare {
		set = alter
	}
	result, err := set(ctx, adm, name, moves)
	if err != nil {
		return app.Refused("reset group "+name, app.BrokerError(err), "")
	}
	var out app.Outcomes
	for i := range moves {
		m := &moves[i]
		if refused := result(m); refused != nil {
			m.Error = refused.Error()
			message, err := joined(refused)
			out.Refused(m.Topic, fmt.Sprintf("reset group %s: %s partition %d", name, m.Topic, m.Partition), err, message)
		}
	}
	if err := printMoves(a, name, "continues at", moves); err != nil {
		return err
	}
	return out.Err()
}

// commit sets the committed offsets of a group. result returns why that of a move was refused.
func commit(ctx context.Context, adm *kadm.Client, name string, moves []move) (result func(m *move) error, err error) {
	ask := kadm.Offsets{}
	for _, m := range moves {
		ask.AddOffset(m.Topic, m.Partition, m.To, -1)
	}
	answers, err := adm.CommitOffsets(ctx, name, ask)
	return func(m *move) error {
		if r, ok := answers.Lookup(m.Topic, m.Partition); ok {
			return r.Err
		}
		return kerr.UnknownServerError
	}, err
}

// joined turns the errors with which a broker refuses the offsets of a group with members into
// NON_EMPTY_GROUP: the broker treats a reset as a commit of an unknown member. It returns any other
// error unchanged.
func joined(err error) (message string, refused error) {
	if k := (*kerr.Error)(nil); errors.As(err, &k) && (k == kerr.UnknownMemberID || k == kerr.RebalanceInProgress) {
		return "members have joined it meanwhile (" + k.Message + ")", kerr.NonEmptyGroup
	}
	return "", err
}

func printMoves(a *app.App, name, title string, moves []move) error {
	t := &output.Table{Title: "group " + name + " " + title, Columns: []string{"TOPIC", "PARTITION#", "COMMITTED#", "NEW#", "START#",
		"END#", "NOTE", "+ERROR"}}
	for _, m := range moves {
		t.Add(m.Topic, m.Partition, known(m.From), m.To, m.Start, m.End, m.Note, m.Error)
	}
	return a.Print(moves, t)
}
