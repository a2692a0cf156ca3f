package grouping

import (
	"context"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// RebalanceConfig configures Rebalance.
type RebalanceConfig struct {
	Target
	Protocol Protocol `json:"protocol"`
	Members  int      `json:"members"`
	// Interval is the interval of heartbeats in the classic protocol, in which members learn of a
	// rebalance from them. In the new protocol the broker sets the interval.
	Interval time.Duration `json:"interval_ns"`
}

// leastMembers is how many members a group has at least, so that one can leave it.
const leastMembers = 2

func (c RebalanceConfig) check() error {
	var x settings.Checks
	c.Target.check(&x)
	c.Protocol.check(&x)
	x.Between("members", c.Members, leastMembers, MaxMembers)
	x.Positive("heartbeat", c.Interval)
	return x.Err()
}

// RebalanceResult is how long it takes until all members are in one epoch and the partitions are
// distributed evenly: after all joins, after a leave, and after one more join.
type RebalanceResult struct {
	Config RebalanceConfig `json:"config"`
	Join   meter.Span      `json:"join"`
	Leave  meter.Span      `json:"leave"`
	More   meter.Span      `json:"one_more"`
}

// Rebalance measures how long a large group takes to become stable.
func Rebalance(ctx context.Context, c RebalanceConfig) (*RebalanceResult, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	r := &RebalanceResult{Config: c}
	return r, c.runMembers(ctx, c.Protocol, 1, c.Members+1, func(ctx context.Context, all *memberSet) error {
		all.interval = c.Interval
		return r.measure(ctx, all)
	})
}

func (r *RebalanceResult) measure(ctx context.Context, all *memberSet) error {
	n, b := r.Config.Members, all.states[0]
	last, leaver := all.members[n], all.members[n/2]
	for _, step := range []struct {
		span    *meter.Span
		members int
		do      func()
	}{
		{&r.Join, n, func() { all.start(ctx, all.members[:n]...) }},
		{&r.Leave, n - 1, func() { close(leaver.quit) }},
		{&r.More, n, func() { all.start(ctx, last) }},
	} {
		b.expect(step.members)
		watch, err := meter.StartWatch(r.Config.ServerPID)
		if err != nil {
			return err
		}
		step.do()
		if err := all.await(ctx); err != nil {
			return err
		}
		if *step.span, err = watch.Stop(); err != nil {
			return err
		}
	}
	return nil
}
