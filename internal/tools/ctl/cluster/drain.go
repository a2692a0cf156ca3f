package cluster

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/move"
)

func drainBroker(a *app.App) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "drain ID", Short: "Move all replicas of a broker to other brokers", Args: app.Args(1, 1, "one broker's id"),
		ValidArgsFunction: a.Brokers(1),
		Long: "drain moves all replicas of a broker to the brokers that have the fewest, for example before it is unregistered. The broker may\n" +
			"be stopped if others have copies. They copy the logs in the background; broker list shows how many replicas are left.\n" +
			"New topics may still be placed on the broker while it runs.",
		Example: "  chronikctl broker drain 4 --dry-run\n  chronikctl broker drain 4",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := brokerID(args[0])
			if err != nil {
				return err
			}
			return a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
				return drain(ctx, a, adm, id, dryRun)
			})(cmd, args)
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only list what would be moved")
	return c
}

func drain(ctx context.Context, a *app.App, adm *kadm.Client, id int32, dryRun bool) error {
	plan, m, err := move.Read(ctx, adm)
	if err != nil {
		return err
	}
	for _, t := range m.Topics.Sorted() {
		if err := plan.Leave(t, id); err != nil {
			return app.WithCode(app.ExitFailed, err)
		}
	}
	var out app.Outcomes
	switch {
	case len(plan.List()) == 0:
		out.Done("broker "+text.Numbers([]int32{id}), "has no replicas")
	case dryRun:
		for _, line := range plan.List() {
			out.Done(line, "would be moved")
		}
	default:
		plan.Request(ctx, adm, &out)
	}
	return a.PrintOutcomes(&out)
}
