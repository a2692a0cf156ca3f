package observe

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metrics"
)

// censusTime bounds how long a scrape waits for the group coordinator.
const censusTime = time.Second

// Coordinators returns the source of coordinators of a topic that do not serve their clients.
func Coordinators(topic string, c *service.Service) checks.Source {
	since := map[int32]time.Time{}
	return func(f *checks.Facts) {
		if !f.Serving {
			return
		}
		for _, s := range c.Stats() {
			if s.State == "active" || s.State == "idle" {
				delete(since, s.Partition)
				continue
			}
			if since[s.Partition].IsZero() {
				since[s.Partition] = f.Now
			}
			f.Coordinators = append(
				f.Coordinators,
				checks.Coordinator{Topic: topic, Index: s.Partition, Since: since[s.Partition], Failed: s.Failures > 0},
			)
		}
	}
}

// Rebalances returns the source of groups that have been rebalancing in all its calls for at least
// patience.
func Rebalances(c *service.Groups, patience time.Duration) checks.SlowSource {
	type rebalance struct {
		state string
		since time.Time
	}
	before := map[string]rebalance{}
	return func(s *checks.Slow) {
		ctx, cancel := context.WithTimeout(context.Background(), censusTime)
		defer cancel()
		now, at := map[string]rebalance{}, time.Now()
		for _, g := range c.Overview(ctx).Groups {
			if !slices.Contains([]string{"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}, g.GroupState) {
				continue
			}
			r := rebalance{g.GroupState, at}
			if old, known := before[g.Group]; known && old.state == r.state {
				r.since = old.since
			}
			if now[g.Group] = r; at.Sub(r.since) >= patience {
				s.Rebalancing = append(s.Rebalancing, checks.Rebalancing{Group: g.Group, State: r.state, Since: r.since})
			}
		}
		slices.SortFunc(s.Rebalancing, func(a, b checks.Rebalancing) int { return strings.Compare(a.Group, b.Group) })
		before = now
	}
}

// Groups returns the source of the metrics of groups.
func Groups(c *service.Groups) func() metrics.Groups {
	return func() metrics.Groups {
		ctx, cancel := context.WithTimeout(context.Background(), censusTime)
		defer cancel()
		now := c.Overview(ctx)
		shown := metrics.Groups{States: map[metrics.GroupState]int{}, Shards: map[string]int{}}
		for _, g := range now.Groups {
			shown.States[metrics.GroupState{Type: g.GroupType, State: g.GroupState}]++
		}
		for _, s := range c.Stats() {
			shown.Shards[s.State]++
		}
		for _, l := range now.Lags {
			shown.Lags = append(shown.Lags, metrics.Lag{Group: l.Group, Topic: l.Topic, Partition: l.Partition, Records: l.Records})
		}
		return shown
	}
}
