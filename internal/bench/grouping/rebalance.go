package grouping

import (
	"context"
	"errors"
	"time"
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

func (c RebalanceConfig) check() error {
	return usage(c.Target.check(), c.Protocol.check(), within("members", c.Members, 2, MaxMembers), positive("heartbeat", c.Interval))
}

// RebalanceResult is how long it takes until all members are in one epoch and the partitions are
// distributed evenly: after all joins, after a leave, and after one more join.
type RebalanceResult struct {
	Config RebalanceConfig `json:"config"`
	Join   Span            `json:"join"`
	Leave  Span            `json:"leave"`
	More   Span            `json:"one_more"`
}

// Succeeded returns true: a group that does not become stable is an error.
func (r *RebalanceResult) Succeeded() bool { return true }

// Rebalance measures how long a large group takes to become stable.
func Rebalance(ctx context.Context, c RebalanceConfig) (_ *RebalanceResult, err error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	cl, err := newCluster(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	groups := c.groupNames(1)
	defer func() { err = errors.Join(err, cl.clean(ctx, groups)) }()
	addrs, err := cl.coordinators(ctx, groups)
	if err != nil {
		return nil, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	crowd, err := gather(ctx, fail, c.Protocol, &topic{c.Topic, int32(c.Partitions)}, groups, addrs, c.Members+1)
	if err != nil {
		return nil, err
	}
	crowd.interval = c.Interval
	r := &RebalanceResult{Config: c}
	err = r.measure(ctx, crowd)
	return r, errors.Join(err, crowd.disband())
}

func (r *RebalanceResult) measure(ctx context.Context, crowd *crowd) error {
	n, b := r.Config.Members, crowd.boards[0]
	last, leaver := crowd.members[n], crowd.members[n/2]
	for _, step := range []struct {
		span    *Span
		members int
		do      func()
	}{
		{&r.Join, n, func() { crowd.start(ctx, crowd.members[:n]...) }},
		{&r.Leave, n - 1, func() { close(leaver.quit) }},
		{&r.More, n, func() { crowd.start(ctx, last) }},
	} {
		b.expect(step.members)
		watch, err := startWatch(r.Config.ServerPID)
		if err != nil {
			return err
		}
		step.do()
		if err := crowd.await(ctx); err != nil {
			return err
		}
		if *step.span, err = watch.stop(); err != nil {
			return err
		}
	}
	return nil
}
