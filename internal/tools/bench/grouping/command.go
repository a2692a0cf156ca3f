package grouping

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/report"
)

// Command returns `groups`, with a subcommand for each measurement.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Measure consumer groups: the cost of heartbeats, the duration of rebalances, offset commits per second",
		Long: "groups measures the coordinator. Each member has its own connection, joins, and follows its assignment, including revocations.\n" +
			"A group counts as stable when all its members are in one generation or epoch and every partition is assigned to one of them.",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(heartbeatsCommand(), rebalanceCommand(), commitsCommand())
	return cmd
}

// measurement wraps a measuring function in a subcommand.
func measurement(use, short, long string, t *Target, run func(context.Context) (report.Output, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := run(cmd.Context())
			if err != nil {
				return err
			}
			return report.Print(cmd.OutOrStdout(), r, asJSON)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	t.Brokers = bench.Default().Brokers
	f.StringSliceVar(&t.Brokers, "bootstrap-servers", t.Brokers, "initial brokers, host:port,…")
	f.StringVar(
		&t.Topic,
		"topic",
		"chronik-bench-groups",
		"topic to subscribe to; it is created if it is missing, and groups are named after it",
	)
	f.IntVar(&t.ServerPID, "server-pid", 0, "process id of the broker on this machine: shows its CPU time (Linux)")
	f.BoolVar(&t.Keep, "keep", false, "keep the topic and the groups; otherwise they are deleted afterwards")
	f.BoolVar(&asJSON, "json", false, "print JSON instead of the table")
	return cmd
}

func protocolFlag(f *pflag.FlagSet, p *Protocol) {
	f.StringVar((*string)(p), "protocol", string(Classic), "classic (JoinGroup, SyncGroup, Heartbeat) or consumer (KIP-848)")
}

func heartbeatsCommand() *cobra.Command {
	var c HeartbeatsConfig
	cmd := measurement("heartbeats", "Measure the cost of the heartbeats of many members in stable groups",
		"heartbeats waits until all groups are stable, and then counts heartbeats and the broker's CPU time over the measured interval.",
		&c.Target, func(ctx context.Context) (report.Output, error) {
			if c.Partitions == 0 {
				c.Partitions = c.Members
			}
			return Heartbeats(ctx, c)
		})
	f := cmd.Flags()
	protocolFlag(f, &c.Protocol)
	f.IntVar(&c.Groups, "groups", 1000, "number of groups")
	f.IntVar(&c.Members, "members", 10, "members of each group")
	f.DurationVar(&c.Interval, "heartbeat", 3*time.Second, "interval of a member's heartbeats, ± an eighth")
	f.IntVar(&c.Partitions, "partitions", 0, "partitions of the topic (default one per member of a group)")
	f.DurationVarP(&c.Duration, "duration", "d", 30*time.Second, "measured time")
	f.DurationVar(&c.Warmup, "warmup", 5*time.Second, "time before the measured time, not counted")
	return cmd
}

func rebalanceCommand() *cobra.Command {
	var c RebalanceConfig
	cmd := measurement(
		"rebalance",
		"Measure how long a large group takes to become stable after a join or a leave",
		"rebalance lets all members but one join at once, then one of them leave, then the last one join, and measures the time until the group is stable.\n"+
			"Members learn of a rebalance from their next heartbeat, so the figures include its interval.",
		&c.Target,
		func(ctx context.Context) (report.Output, error) {
			if c.Partitions == 0 {
				c.Partitions = 2 * c.Members
			}
			return Rebalance(ctx, c)
		},
	)
	f := cmd.Flags()
	protocolFlag(f, &c.Protocol)
	f.IntVar(&c.Members, "members", 500, "members of the group")
	f.DurationVar(
		&c.Interval,
		"heartbeat",
		3*time.Second,
		"interval of heartbeats in the classic protocol; in the new protocol the broker sets it",
	)
	f.IntVar(&c.Partitions, "partitions", 0, "partitions of the topic (default two per member)")
	return cmd
}

func commitsCommand() *cobra.Command {
	var c CommitsConfig
	cmd := measurement("commits", "Measure how many offset commits per second the broker acknowledges",
		"commits is a closed loop: each connection commits and waits for the response. The groups have no members.",
		&c.Target, func(ctx context.Context) (report.Output, error) { return Commits(ctx, c) })
	f := cmd.Flags()
	f.IntVarP(&c.Concurrency, "concurrency", "c", 128, "connections")
	f.IntVar(&c.Groups, "groups", 128, "number of groups, over which the connections are distributed")
	f.IntVar(&c.Each, "each", 1, "partitions per request")
	f.IntVar(&c.Partitions, "partitions", 16, "partitions of the topic")
	f.DurationVarP(&c.Duration, "duration", "d", 10*time.Second, "measured time")
	f.DurationVar(&c.Warmup, "warmup", 2*time.Second, "time before the measured time, not counted")
	return cmd
}
