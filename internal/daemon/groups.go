package daemon

import (
	"context"
	"time"

	"github.com/chronik-io/chronik/internal/groups"
	"github.com/chronik-io/chronik/internal/metrics"
)

// censusTime bounds how long a scrape waits for the group coordinator.
const censusTime = time.Second

// groupsOf shows groups to metrics.
func groupsOf(c *groups.Coordinator) func() metrics.Groups {
	return func() metrics.Groups {
		ctx, cancel := context.WithTimeout(context.Background(), censusTime)
		defer cancel()
		now := c.Census(ctx)
		told := metrics.Groups{States: map[metrics.GroupState]int{}, Shards: map[string]int{}}
		for _, g := range now.Groups {
			told.States[metrics.GroupState{Type: g.GroupType, State: g.GroupState}]++
		}
		for _, s := range c.Stats() {
			told.Shards[s.State]++
		}
		for _, l := range now.Lags {
			told.Lags = append(told.Lags, metrics.Lag{Group: l.Group, Topic: l.Topic, Partition: l.Partition, Records: l.Records})
		}
		return told
	}
}
