package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/move"
)

func drainBroker(a *app.App) *cobra.Command {
	d := &draining{a: a}
	c := moving(a, &cobra.Command{
		Use: "drain ID...", Short: "Move all replicas of brokers to other brokers", Args: app.Args(1, -1, "brokers' ids"),
		ValidArgsFunction: a.Brokers(-1),
		Long: "drain moves all replicas of brokers to the brokers that have the fewest, for example before they are unregistered. A broker may\n" +
			"be stopped if others have copies. A drained broker gets no replicas, neither of new topics nor by other commands, until it is\n" +
			"unregistered, or drain --end gives it back. broker list shows it.\n" + move.Help,
		Example: "  chronikctl broker drain 4 --dry-run\n  chronikctl broker drain 4 5 --throttle 50MiB\n  chronikctl broker drain 4 --end",
	}, "has no replicas", d.plan)
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if !d.end {
			return run(cmd, args)
		}
		return a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, args []string) error {
			return d.giveBack(ctx, adm, cl, args)
		})(cmd, args)
	}
	c.Flags().BoolVar(&d.end, "end", false, "the brokers get replicas again; nothing is moved")
	return c
}

// draining is one run of broker drain.
type draining struct {
	a      *app.App
	end    bool
	marked bool // the controller places no more replicas there
	rounds int  // of moves
}

// plan plans the moves. When they are possible, it first has the controller place no more replicas
// there, and plans again from what the cluster has then: a replica may have been placed in
// between. For the same reason it plans again after the moves, until nothing is left.
func (d *draining) plan(ctx context.Context, on *plannedOn) error {
	err := on.Leave(on.ids...)
	switch {
	case err != nil && d.marked:
		ids := strings.ReplaceAll(text.Numbers(on.ids), ",", " ")
		return fmt.Errorf("%w; until chronikctl broker drain %s --end, no new replicas are placed there", err, ids)
	case err != nil || on.dryRun:
		return err
	}
	on.again = true
	if !d.marked {
		d.marked, on.first = true, true
		if err := d.mark(ctx, on.cl, on.m, on.ids, false); err != nil {
			return err
		}
		return pause.Sleep(ctx, app.FreshAge) // the client's metadata may be older than the mark
	}
	if d.rounds++; d.rounds > 1 && on.Waits() > 0 {
		d.a.Note("%s placed there meanwhile; moving again", text.Plural(on.Waits(), "replica was", "replicas were"))
	}
	return nil
}

// giveBack is drain --end.
func (d *draining) giveBack(ctx context.Context, adm *kadm.Client, cl *kgo.Client, args []string) error {
	m, err := adm.Metadata(ctx)
	if err != nil {
		return app.Refused("read the metadata", app.BrokerError(err), "")
	}
	ids, err := brokerIDs(args)
	for _, id := range ids {
		err = cmp.Or(err, registered(ctx, cl, m, id, fmt.Sprintf("drain --end broker %d", id)))
	}
	if err == nil {
		err = d.mark(ctx, cl, m, ids, true)
	}
	if err != nil {
		return err
	}
	var out app.Outcomes
	for _, id := range ids {
		out.Done(fmt.Sprintf("broker %d", id), "gets replicas again; chronikctl broker fill %d moves its share there", id)
	}
	return d.a.PrintOutcomes(&out)
}

// mark sets whether brokers get replicas.
func (d *draining) mark(ctx context.Context, cl *kgo.Client, m kadm.Metadata, ids []int32, takes bool) error {
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Op, c.Value = move.TakesReplicas, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr("false")
	if takes {
		c.Op, c.Value = kmsg.IncrementalAlterConfigOpDelete, nil
	}
	return move.AlterBrokers(ctx, cl, m.Controller, "keep new replicas away from a drained broker", ids, c)
}

func fillBroker(a *app.App) *cobra.Command {
	return moving(a, &cobra.Command{
		Use: "fill ID", Short: "Move replicas to a broker until it has its share", Args: app.Args(1, 1, "one broker's id"),
		ValidArgsFunction: a.Brokers(1),
		Long: "fill moves replicas from the brokers with the most to a broker with few, such as a new one, until it has its share. Then the\n" +
			"preferred leaders are spread evenly over all brokers.\n" + move.Help,
		Example: "  chronikctl broker fill 4 --dry-run\n  chronikctl broker fill 4 --at-a-time 3",
	}, "has its share", func(_ context.Context, p *plannedOn) error {
		id := p.ids[0]
		if !slices.Contains(p.m.Brokers.NodeIDs(), id) {
			return fmt.Errorf("broker %d is not active; chronikctl broker list shows the brokers and their states", id)
		}
		if !p.Takes(id) {
			return fmt.Errorf("broker %d only votes: it has no log directories", id)
		}
		if p.Drained(id) {
			return fmt.Errorf("broker %d is drained; chronikctl broker drain %d --end gives it replicas again", id, id)
		}
		p.Fill(id)
		return nil
	})
}

func rebalance(a *app.App) *cobra.Command {
	return moving(a, &cobra.Command{
		Use: "rebalance", Short: "Spread replicas and preferred leaders over all brokers", Args: app.Args(0, 0, "no argument"),
		Long: "rebalance moves replicas from the brokers with the most to those with the fewest, and spreads the preferred leaders\n" +
			"of each topic, and of all. Use it after the cluster has grown, for example. It counts replicas and not bytes, moves as\n" +
			"few as possible, and keeps replicas of a partition in different racks.\n" + move.Help,
		Example: "  chronikctl broker rebalance --dry-run\n  chronikctl broker rebalance --throttle 50MiB",
	}, "are balanced", func(_ context.Context, p *plannedOn) error {
		p.Balance()
		return nil
	})
}

// plannedOn is the plan of a command, and the cluster that it is about.
type plannedOn struct {
	*move.Plan
	m      kadm.Metadata
	cl     *kgo.Client
	ids    []int32 // the command's arguments
	dryRun bool
	first  bool // the plan is not carried out, but made again from what the cluster is now
	again  bool // the plan is made again after its moves, until it has none
}

// brokerIDs returns the brokers that arguments name.
func brokerIDs(args []string) (ids []int32, err error) {
	for _, arg := range args {
		id, err := brokerID(arg)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// moving makes a command that plans moves and carries them out; nothing says that there are none.
func moving(a *app.App, c *cobra.Command, nothing string, plan func(ctx context.Context, p *plannedOn) error) *cobra.Command {
	var o move.Options
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := brokerIDs(args)
		if err != nil {
			return err
		}
		return a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, _ []string) error {
			var out app.Outcomes
			on := plannedOn{cl: cl, ids: ids, dryRun: o.DryRun}
			err := carryOut(ctx, a, adm, on, fmt.Sprintf("%s broker %%d", cmd.Name()), o, &out, plan)
			if err == nil && out.Empty() {
				for _, id := range ids {
					out.Done(fmt.Sprintf("broker %d", id), "%s", nothing)
				}
				if len(ids) == 0 {
					out.Done("the brokers", "%s", nothing)
				}
			}
			return errors.Join(a.PrintOutcomes(&out), err)
		})(cmd, args)
	}
	o.Flags(c)
	return c
}

// carryOut makes a plan and carries it out, again if the plan asks for it.
func carryOut(ctx context.Context, a *app.App, adm *kadm.Client, to plannedOn, what string, o move.Options, out *app.Outcomes,
	plan func(ctx context.Context, p *plannedOn) error) error {
	for {
		p, m, err := move.Read(ctx, adm)
		if err != nil {
			return err
		}
		for _, id := range to.ids {
			if err := registered(ctx, to.cl, m, id, fmt.Sprintf(what, id)); err != nil {
				return err
			}
		}
		on := to
		on.Plan, on.m = p, m
		if err := plan(ctx, &on); err != nil {
			return app.WithCode(app.ExitFailed, err)
		}
		if on.first {
			continue
		}
		n := on.Waits()
		if err := p.Run(ctx, a, adm, to.cl, o, out); err != nil || out.Err() != nil || !on.again || n == 0 {
			return err
		}
	}
}
