package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/move"
)

func drainBroker(a *app.App) *cobra.Command {
	return moving(a, &cobra.Command{
		Use: "drain ID", Short: "Move all replicas of a broker to other brokers", Args: app.Args(1, 1, "one broker's id"),
		ValidArgsFunction: a.Brokers(1),
		Long: "drain moves all replicas of a broker to the brokers that have the fewest, for example before it is unregistered. The broker may\n" +
			"be stopped if others have copies. New topics may still be placed on the broker while it runs.\n" + move.Help,
		Example: "  chronikctl broker drain 4 --dry-run\n  chronikctl broker drain 4 --throttle 50MiB",
	}, "has no replicas", func(p *move.Plan, _ kadm.Metadata, id int32) error { return p.Leave(id) })
}

func fillBroker(a *app.App) *cobra.Command {
	return moving(a, &cobra.Command{
		Use: "fill ID", Short: "Move replicas to a broker until it has its share", Args: app.Args(1, 1, "one broker's id"),
		ValidArgsFunction: a.Brokers(1),
		Long: "fill moves replicas from the brokers with the most to a broker with few, such as a new one, until it has its share. Then the\n" +
			"preferred leaders are spread evenly over all brokers.\n" + move.Help,
		Example: "  chronikctl broker fill 4 --dry-run\n  chronikctl broker fill 4 --at-a-time 3",
	}, "has its share", func(p *move.Plan, m kadm.Metadata, id int32) error {
		if !slices.Contains(m.Brokers.NodeIDs(), id) {
			return fmt.Errorf("broker %d is not active; chronikctl broker list shows the brokers and their states", id)
		}
		if !p.Takes(id) {
			return fmt.Errorf("broker %d only votes: it has no log directories", id)
		}
		p.Fill(id)
		return nil
	})
}

func rebalance(a *app.App) *cobra.Command {
	return moving(a, &cobra.Command{
		Use: "rebalance", Short: "Spread replicas and preferred leaders over all brokers", Args: app.Args(0, 0, "no argument"),
		Long: "rebalance moves replicas from the brokers with the most to those with the fewest, and spreads the preferred leaders, for\n" +
			"example after the cluster has grown. It counts replicas and not bytes, moves as few as possible, and keeps replicas of a partition\n" +
			"in different racks.\n" + move.Help,
		Example: "  chronikctl broker rebalance --dry-run\n  chronikctl broker rebalance --throttle 50MiB",
	}, "are balanced", func(p *move.Plan, _ kadm.Metadata, _ int32) error {
		p.Balance()
		return nil
	})
}

// moving makes a command that plans moves and carries them out; nothing says that there are none.
func moving(a *app.App, c *cobra.Command, nothing string, plan func(p *move.Plan, m kadm.Metadata, id int32) error) *cobra.Command {
	var o move.Options
	c.RunE = func(cmd *cobra.Command, args []string) error {
		id, name := int32(-1), "the brokers"
		if len(args) > 0 {
			var err error
			if id, err = brokerID(args[0]); err != nil {
				return err
			}
			name = fmt.Sprintf("broker %d", id)
		}
		if err := o.Check(); err != nil {
			return err
		}
		return a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, _ []string) error {
			p, m, err := move.Read(ctx, adm)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				if err := registered(ctx, cl, m, id, cmd.Name()+" "+name); err != nil {
					return err
				}
			}
			if err := plan(p, m, id); err != nil {
				return app.WithCode(app.ExitFailed, err)
			}
			var out app.Outcomes
			err = p.Run(ctx, a, adm, o, &out)
			if err == nil && out.Empty() {
				out.Done(name, "%s", nothing)
			}
			return errors.Join(a.PrintOutcomes(&out), err)
		})(cmd, args)
	}
	o.Flags(c)
	return c
}
