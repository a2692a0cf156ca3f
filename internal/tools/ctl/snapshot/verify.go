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

func verify(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "verify NUMBER", Short: "Read a snapshot from the store and compare its checksums",
		Args: app.Args(1, 1, "the number of a snapshot"),
		Long: "verify reads all objects of a snapshot on the broker that leads the metadata, which may take long, and exits with 1 if one is\n" +
			"missing or damaged. The cluster does it on its own with the newest, at intervals of snapshot.verify.interval.ms.",
		Example: "  chronikctl snapshot verify 17 --timeout 1h",
		RunE: a.Both(func(ctx context.Context, _ *kadm.Client, cl *kgo.Client, args []string) error {
			n, err := number(args[0])
			if err != nil {
				return err
			}
			q := view.SnapshotAsk{Action: view.VerifySnapshot, Number: n}
			if _, err := carryOut(ctx, cl, fmt.Sprintf("verify snapshot %d", n), q); err != nil {
				return err
			}
			return show(ctx, a, cl, n)
		}),
	}
}
