package observe

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
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
	before := map[string]view.Group{}
	return func(s *checks.Slow) {
		now, at := map[string]view.Group{}, time.Now()
		for _, g := range Groups(c, nil)().List {
			if !slices.Contains([]string{"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}, g.State) {
				continue
			}
			g.Since = at
			if old, known := before[g.ID]; known && old.State == g.State {
				g.Since = old.Since
			}
			if now[g.ID] = g; at.Sub(g.Since) >= patience {
				s.Rebalancing = append(s.Rebalancing, g)
			}
		}
		sorts.Sort(s.Rebalancing, func(a, b view.Group) int { return strings.Compare(a.ID, b.ID) })
		before = now
	}
}

// Groups returns the source of the metrics of groups. led has the share groups of the leaders of
// this broker; it may be nil.
func Groups(c *service.Groups, led func() view.Shares) func() view.Groups {
	return func() view.Groups {
		ctx, cancel := context.WithTimeout(context.Background(), censusTime)
		defer cancel()
		all := c.Overview(ctx)
		if led == nil {
			return all
		}
		for _, g := range led().Groups {
			all.Led = append(all.Led, view.Group{ID: g.ID, Offsets: g.Offsets})
		}
		return all
	}
}
