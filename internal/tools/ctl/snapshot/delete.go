package snapshot

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/view"
)

func remove(a *app.App) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "delete NUMBER", Short: "Delete a snapshot", Args: app.Args(1, 1, "the number of a snapshot"),
		Long: "delete removes a snapshot from the list of the cluster. What no other snapshot needs is deleted from the store within a day.\n" +
			"snapshot.keep and snapshot.keep.days delete old snapshots without it.",
		Example: "  chronikctl snapshot delete 17",
		RunE: a.Both(func(ctx context.Context, _ *kadm.Client, cl *kgo.Client, args []string) error {
			n, err := number(args[0])
			if err != nil {
				return err
			}
			name := fmt.Sprintf("snapshot %d", n)
			if dryRun {
				return show(ctx, a, cl, n)
			}
			if _, err := find(ctx, cl, n); err != nil {
				return err
			}
			if err := a.Confirm("delete "+name, "It cannot be restored afterwards.", nil); err != nil {
				return err
			}
			if _, err := carryOut(ctx, cl, "delete "+name, view.SnapshotAsk{Action: view.DeleteSnapshot, Number: n}); err != nil {
				return err
			}
			var out app.Outcomes
			out.Done(name, "deleted")
			return a.PrintOutcomes(&out)
		}),
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only show the snapshot")
	return c
}
