package snapshot

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/view"
)

func describe(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "describe NUMBER", Short: "Show a snapshot", Args: app.Args(1, 1, "the number of a snapshot"),
		Long:    "describe shows a snapshot, and what was wrong with it when it was verified last.",
		Example: "  chronikctl snapshot describe 17",
		RunE: a.Both(func(ctx context.Context, _ *kadm.Client, cl *kgo.Client, args []string) error {
			n, err := number(args[0])
			if err != nil {
				return err
			}
			return show(ctx, a, cl, n)
		}),
	}
}

// show prints a snapshot.
func show(ctx context.Context, a *app.App, cl *kgo.Client, n int64) error {
	s, err := find(ctx, cl, n)
	if err != nil {
		return err
	}
	t := &output.Table{Title: fmt.Sprintf("snapshot %d  taken %s in %s  %s, %d offline  %s, %s uploaded  verified %s", s.Number,
		at(s.TimeMs), took(s), text.Count(s.Partitions, "partition"), s.Offline, text.Bytes(s.Bytes), text.Bytes(s.UploadedBytes),
		at(s.VerifiedMs))}
	if err := a.Print(s, t); err != nil {
		return err
	}
	if s.Note != "" {
		a.Note("%s", s.Note)
	}
	if s.Damage != "" {
		a.Note("damaged: %s", s.Damage)
	}
	return nil
}

// find returns a snapshot of the list.
func find(ctx context.Context, cl *kgo.Client, n int64) (*view.Snapshot, error) {
	x, err := read(ctx, cl)
	if err != nil {
		return nil, err
	}
	for i := range x.Snapshots {
		if x.Snapshots[i].Number == n {
			return &x.Snapshots[i], nil
		}
	}
	return nil, app.WithCode(app.ExitFailed, fmt.Errorf("there is no snapshot %d; chronikctl snapshot list shows them", n))
}
