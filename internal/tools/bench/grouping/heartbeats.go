package grouping

import (
	"cmp"
	"context"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
	"github.com/chronik-io/chronik/internal/tools/bench/results"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// HeartbeatsConfig configures Heartbeats.
type HeartbeatsConfig struct {
	Target
	Protocol  Protocol      `json:"protocol"`
	Groups    int           `json:"groups"`
	Members   int           `json:"members"` // of each group
	Heartbeat time.Duration `json:"interval_ns"`
	frame.Interval
}

func (c HeartbeatsConfig) check() error {
	var x settings.Checks
	c.Target.check(&x)
	c.Protocol.check(&x)
	x.Between("groups", c.Groups, 1, MaxMembers)
	x.Between("members", c.Members, 1, MaxMembers)
	x.Between("groups times --members", c.Groups*c.Members, 1, MaxMembers)
	x.Positive("heartbeat", c.Heartbeat)
	c.Interval.Check(&x)
	return x.Err()
}

func (p Protocol) check(x *settings.Checks) {
	x.OneOf("protocol", string(p), string(Classic), string(Consumer))
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
	Rejoins int             `json:"rejoins"`
	Latency results.Latency `json:"latency"`
}

// sharedRecorders is the number of recorders that all members share.
const sharedRecorders = 32

// Succeeded reports whether a heartbeat was answered.
func (r *HeartbeatsResult) Succeeded() bool { return r.Heartbeats > 0 }

// Heartbeats measures the cost of many members in stable groups.
func Heartbeats(ctx context.Context, c HeartbeatsConfig) (*HeartbeatsResult, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	r := &HeartbeatsResult{Config: c}
	var members []*member
	err := c.runMembers(ctx, c.Protocol, c.Groups, c.Members, func(ctx context.Context, all *memberSet) error {
		members = all.members
		all.interval, all.fixed = c.Heartbeat, true
		for _, b := range all.states {
			b.expect(c.Members)
		}
		watch, err := meter.StartWatch(c.ServerPID)
		if err != nil {
			return err
		}
		all.start(ctx, all.members...)
		if err := all.await(ctx); err != nil {
			return err
		}
		if r.Setup, err = watch.Stop(); err != nil {
			return err
		}
		return r.measure(ctx, all)
	})
	for _, m := range members {
		r.Rejoins += m.rejoins
	}
	return r, err
}

// measure counts the heartbeats in the interval. It reads the server's CPU time at both ends.
func (r *HeartbeatsResult) measure(ctx context.Context, all *memberSet) error {
	c := r.Config
	window := c.Window()
	m := meter.New(window)
	rec := &heartbeatRecorder{window: window}
	for range sharedRecorders {
		rec.recorders = append(rec.recorders, m.NewRecorder())
	}
	window.Begin()
	all.heartbeats.Store(rec)
	spans, err := window.Measure(ctx, c.ServerPID)
	if err := cmp.Or(context.Cause(ctx), err); err != nil {
		return err
	}
	all.heartbeats.Store(nil)
	t := m.Totals()
	r.Measured, r.Heartbeats, r.Failures, r.Latency = spans[0], t.Requests, t.Failures, results.LatencyOf(t.Latency, time.Microsecond)
	return nil
}
