package grouping

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/report"
)

// HeartbeatsConfig configures Heartbeats.
type HeartbeatsConfig struct {
	Target
	Protocol Protocol      `json:"protocol"`
	Groups   int           `json:"groups"`
	Members  int           `json:"members"` // of each group
	Interval time.Duration `json:"interval_ns"`
	Warmup   time.Duration `json:"warmup_ns"`
	Duration time.Duration `json:"duration_ns"`
}

func (c HeartbeatsConfig) check() error {
	return usage(
		c.Target.check(),
		c.Protocol.check(),
		within("groups", c.Groups, 1, MaxMembers),
		within("members", c.Members, 1, MaxMembers),
		within(
			"groups times --members",
			c.Groups*c.Members,
			1,
			MaxMembers,
		),
		positive("heartbeat", c.Interval),
		positive("duration", c.Duration),
	)
}

func (p Protocol) check() error {
	if p != Classic && p != Consumer {
		return fmt.Errorf("--protocol: %q is not one of classic, consumer", p)
	}
	return nil
}

func positive(flag string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("--%s: must be above zero, not %v", flag, d)
	}
	return nil
}

// HeartbeatsResult is the result of Heartbeats.
type HeartbeatsResult struct {
	Config HeartbeatsConfig `json:"config"`
	// Setup is the time from the first join until all groups were stable.
	Setup      meter.Span       `json:"setup"`
	Measured   meter.Span       `json:"measured"`
	Heartbeats int64            `json:"heartbeats"`
	Failures   map[string]int64 `json:"failures,omitempty"`
	// Rejoins counts how often a member had to join again; in stable groups none has to.
	Rejoins int            `json:"rejoins"`
	Latency report.Latency `json:"latency"`
}

// sharedRecorders is the number of recorders that all members share.
const sharedRecorders = 32

// Succeeded reports whether a heartbeat was answered.
func (r *HeartbeatsResult) Succeeded() bool { return r.Heartbeats > 0 }

// Heartbeats measures the cost of many members in stable groups.
func Heartbeats(ctx context.Context, c HeartbeatsConfig) (_ *HeartbeatsResult, err error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	cl, err := newCluster(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	groups := c.groupNames(c.Groups)
	defer func() { err = errors.Join(err, cl.clean(ctx, groups)) }()
	addrs, err := cl.coordinators(ctx, groups)
	if err != nil {
		return nil, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	all, err := gather(ctx, fail, c.Protocol, &topic{c.Topic, int32(c.Partitions)}, groups, addrs, c.Members)
	if err != nil {
		return nil, err
	}
	all.interval, all.fixed = c.Interval, true
	for _, b := range all.states {
		b.expect(c.Members)
	}
	r := &HeartbeatsResult{Config: c}
	watch, err := meter.StartWatch(c.ServerPID)
	if err != nil {
		return nil, err
	}
	all.start(ctx, all.members...)
	if err := all.await(ctx); err != nil {
		return nil, errors.Join(err, all.disband())
	}
	if r.Setup, err = watch.Stop(); err == nil {
		err = r.measure(ctx, all)
	}
	err = errors.Join(err, all.disband())
	for _, m := range all.members {
		r.Rejoins += m.rejoins
	}
	return r, err
}

// measure counts the heartbeats in the interval. It reads the server's CPU time at both ends.
func (r *HeartbeatsResult) measure(ctx context.Context, all *memberSet) error {
	c := r.Config
	window := meter.NewWindow(c.Warmup, c.Duration)
	m := meter.New(window)
	rec := &heartbeatRecorder{window: window}
	for range sharedRecorders {
		rec.recorders = append(rec.recorders, m.NewRecorder())
	}
	window.Begin()
	all.heartbeats.Store(rec)
	window.SleepUntil(ctx, window.From())
	watch, err := meter.StartWatch(c.ServerPID)
	if err != nil {
		return err
	}
	if !window.SleepUntil(ctx, window.Until()) {
		return context.Cause(ctx)
	}
	if r.Measured, err = watch.Stop(); err != nil {
		return err
	}
	all.heartbeats.Store(nil)
	r.Measured = r.Measured.Over(window.Elapsed())
	t := m.Totals()
	r.Heartbeats, r.Failures, r.Latency = t.Requests, t.Failures, report.LatencyOf(t.Latency, time.Microsecond)
	return nil
}
