package grouping

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Command returns `groups`, with a subcommand for each measurement.
func Command() *cobra.Command {
	return frame.Parent("groups",
		"Measure consumer groups: the cost of heartbeats, the duration of rebalances, offset commits per second",
		"groups measures the coordinator. Each member has its own connection, joins, and follows its assignment, including revocations.\n"+
			"A group counts as stable when all its members are in one generation or epoch and every partition is assigned to one of them.",
		heartbeatsCommand(), rebalanceCommand(), commitsCommand())
}

// bind adds the flags of the target; partitions is the default of that flag, 0 for one that use
// describes.
func (t *Target) bind(f *pflag.FlagSet, partitions int, use string) {
	f.StringSliceVar(&t.Brokers, "bootstrap-servers", []string{settings.Broker}, "initial brokers, host:port,…")
	f.StringVar(&t.Topic, "topic", "chronik-bench-groups",
		"topic to subscribe to; it is created if it is missing, and groups are named after it")
	f.IntVar(&t.Partitions, "partitions", partitions, "partitions of the topic, "+settings.PartitionBounds().String()+use)
	f.IntVar(&t.ServerPID, "server-pid", 0,
		"process id of the broker on this machine: shows its CPU time (Linux), "+settings.PID().String())
	f.BoolVar(&t.Keep, "keep", false, "keep the topic and the groups; otherwise they are deleted afterwards")
}

func protocolFlag(f *pflag.FlagSet, p *Protocol) {
	f.StringVar((*string)(p), "protocol", string(Classic), "classic (JoinGroup, SyncGroup, Heartbeat) or consumer (KIP-848)")
}

func heartbeatsCommand() *cobra.Command {
	var c HeartbeatsConfig
	cmd := frame.Command("heartbeats", "Measure the cost of the heartbeats of many members in stable groups",
		"heartbeats waits until all groups are stable, and then counts heartbeats and the broker's CPU time over the measured interval.",
		func(ctx context.Context, _ io.Writer) (*HeartbeatsResult, error) {
			if c.Partitions == 0 {
				c.Partitions = c.Members
			}
			return Heartbeats(ctx, c)
		})
	f := cmd.Flags()
	c.Target.bind(f, 0, " (default one per member of a group)")
	protocolFlag(f, &c.Protocol)
	f.IntVar(&c.Groups, "groups", 1000, "number of groups, "+settings.Range(1, MaxMembers))
	f.IntVar(&c.Members, "members", 10,
		fmt.Sprintf("members of each group, %s; together at most %d", settings.Range(1, MaxMembers), MaxMembers))
	f.DurationVar(&c.Heartbeat, "heartbeat", 3*time.Second, "interval of a member's heartbeats, ± an eighth, "+settings.Positive)
	c.Interval.Bind(f, "", 30*time.Second, 5*time.Second)
	return cmd
}

func rebalanceCommand() *cobra.Command {
	var c RebalanceConfig
	cmd := frame.Command("rebalance", "Measure how long a large group takes to become stable after a join or a leave",
		"rebalance lets all members but one join at once, then one of them leave, then the last one join, and measures the time until the group is stable.\n"+
			"Members learn of a rebalance from their next heartbeat, so the figures include its interval.",
		func(ctx context.Context, _ io.Writer) (*RebalanceResult, error) {
			if c.Partitions == 0 {
				c.Partitions = 2 * c.Members
			}
			return Rebalance(ctx, c)
		})
	f := cmd.Flags()
	c.Target.bind(f, 0, " (default two per member)")
	protocolFlag(f, &c.Protocol)
	f.IntVar(&c.Members, "members", 500, "members of the group, "+settings.Range(leastMembers, MaxMembers))
	f.DurationVar(&c.Interval, "heartbeat", 3*time.Second,
		"interval of heartbeats in the classic protocol, "+settings.Positive+"; in the new protocol the broker sets it")
	return cmd
}

func commitsCommand() *cobra.Command {
	var c CommitsConfig
	cmd := frame.Command("commits", "Measure how many offset commits per second the broker acknowledges",
		"commits is a closed loop: each connection commits and waits for the response. The groups have no members.",
		func(ctx context.Context, _ io.Writer) (*CommitsResult, error) { return Commits(ctx, c) })
	f := cmd.Flags()
	c.Target.bind(f, 16, "")
	f.IntVarP(&c.Concurrency, "concurrency", "c", 128, "connections, "+settings.Range(1, MaxMembers))
	f.IntVar(&c.Groups, "groups", 128, "number of groups, over which the connections are distributed, "+settings.Range(1, MaxMembers))
	f.IntVar(&c.Each, "each", 1, "partitions per request, 1 to the number of --partitions")
	c.Interval.Bind(f, "", 10*time.Second, 2*time.Second)
	return cmd
}
