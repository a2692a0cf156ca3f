package snapshot

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/view"
)

func create(a *app.App) *cobra.Command {
	q := view.SnapshotAsk{Action: view.CreateSnapshot}
	c := &cobra.Command{
		Use: "create", Short: "Take a snapshot now", Args: app.Args(0, 0, "no argument"),
		Long: "create takes a snapshot of the whole cluster at one instant, and waits until all of it is in the object store.\n" +
			"At its beginning, acknowledgements wait for up to half a second. It takes none and exits with code 4\n" +
			"if no broker can read a partition. With --allow-offline it leaves such partitions out, unless they are of an internal topic.",
		Example: "  chronikctl snapshot create\n  chronikctl snapshot create --allow-offline --timeout 10m",
		RunE: a.Both(func(ctx context.Context, _ *kadm.Client, cl *kgo.Client, _ []string) error {
			o, err := carryOut(ctx, cl, "take a snapshot", q)
			if err != nil {
				return err
			}
			return show(ctx, a, cl, o.Number)
		}),
	}
	c.Flags().BoolVar(&q.AllowOffline, "allow-offline", false, "leave out partitions that no broker can read")
	return c
}
