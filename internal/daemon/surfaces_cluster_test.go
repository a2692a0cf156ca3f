package daemon

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/view"
)

// clusterFaults returns the faults of a cluster as one of its members sees them. They are planted
// as facts: the tests of internal/observe check where the facts come from.
func clusterFaults() (list []fault) {
	add := func(name, check string, change func(*view.Cluster)) {
		list = append(list, fault{name: "cluster-" + name, checks: []string{check}, plant: func(_ *testing.T, s *sick) {
			s.health.Add(func(f *checks.Facts) {
				f.Cluster = &view.Cluster{Seeds: 3, State: "active", Own: "test", Version: "test",
					Quorum:  view.Quorum{Leader: 2, Voters: 3},
					Brokers: []view.Broker{{ID: 1, State: "active"}, {ID: 2, State: "active"}, {ID: 3, State: "active"}}}
				change(f.Cluster)
			})
		}})
	}
	some := view.Partitions{Count: 2, Names: []string{"orders-0", "orders-1"}}
	add("no-lease", health.CheckMembership, func(c *view.Cluster) { c.NoLease = time.Minute })
	add("stale", health.CheckMembership, func(c *view.Cluster) { c.Stale = time.Hour })
	add("fenced", health.CheckMembership, func(c *view.Cluster) { c.State = "fenced" })
	add("no-metadata-leader", "quorum", func(c *view.Cluster) {
		c.NoLease, c.Quorum.Leader, c.Quorum.NoLeader = time.Minute, -1, time.Minute
		c.Quorum.Unreachable, c.Partitions, c.Apart = []string{"broker 2 (b:9092)", "broker 3 (c:9092)"}, 12, 12
	})
	add("lost-vote", "quorum", func(c *view.Cluster) { c.Quorum.Orphans, c.Quorum.Orphaned = 1, time.Minute })
	add("unregistered-vote", "quorum", func(c *view.Cluster) { c.Quorum.Unregistered = []int32{3} })
	add("wrong-seed", "seeds", func(c *view.Cluster) {
		c.WrongSeeds = []view.WrongSeed{{Address: "d:9092", Since: time.Now().Add(-time.Hour), Silent: true, Err: "connection refused"}}
	})
	add("leaderless", "leaderless", func(c *view.Cluster) {
		c.Leaderless = []view.Leaderless{{Partitions: some, Why: view.ForBrokers, Brokers: []int32{3}}}
	})
	add("broker-fenced", "brokers", func(c *view.Cluster) {
		c.Brokers[2] = view.Broker{ID: 3, State: "fenced", OutOfSync: some, BelowMin: some}
	})
	add("broker-misconfigured", "brokers", func(c *view.Cluster) {
		c.Brokers[2] = view.Broker{ID: 3, State: "fenced"}
		const remedy = "check cluster.seeds, or set the same cluster.name at all nodes"
		c.Unreached = []view.Unreached{{Broker: 3, Address: "c:9092", Since: time.Now().Add(-time.Hour), Remedy: remedy,
			Err: `cluster.name is "a" here and "b" at the peer; ` + remedy}}
	})
	list = append(list, fault{name: "cluster-broker-twice", checks: []string{"processes"}, plant: func(_ *testing.T, s *sick) {
		s.health.Add(func(f *checks.Facts) {
			f.Twins = []view.Twins{{Broker: 3, Copies: true, Processes: []view.Process{
				{Address: "c:9092", Host: "10.0.0.3", Registered: true, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
				{Address: "d:9092", Host: "10.0.0.4", Since: time.Date(2026, 1, 3, 3, 4, 5, 0, time.UTC)},
			}}}
		})
	}})
	add("replica-stopped", "stopped_replica", func(c *view.Cluster) { c.Stopped = []view.Stopped{{Partitions: some, Leader: 2}} })
	add("leader-not-reached", "stopped_replica", func(c *view.Cluster) {
		c.Unreached = []view.Unreached{{Broker: 3, Follows: true, Address: "c:9092", Since: time.Now().Add(-time.Minute),
			Err: "connection refused"}}
	})
	add("leader-replaced", "stopped_replica", func(c *view.Cluster) {
		c.Unreached = []view.Unreached{{Broker: 3, Follows: true, Address: "c:9092", Since: time.Now().Add(-time.Minute),
			Err: "connection refused"}}
		c.Shunned = []int32{3}
	})
	add("listener-not-everywhere", "listeners", func(c *view.Cluster) {
		c.Uncommon = []view.Listener{{Name: "clients", On: []int32{2, 3}, Lacks: []int32{1}}}
	})
	add("unclean", "unclean", func(c *view.Cluster) { c.Unclean = some })
	list = append(list, fault{name: "cluster-not-forwarded", checks: []string{"forwarding"}, plant: func(_ *testing.T, s *sick) {
		s.health.Add(func(f *checks.Facts) {
			f.Cluster = &view.Cluster{Seeds: 3, State: "active", Quorum: view.Quorum{Leader: 2, Voters: 3},
				Brokers: []view.Broker{{ID: 1, State: "active"}, {ID: 3, State: "active"}}}
			f.Forwarding = []view.Forwarding{{Broker: 3, Passed: 7, Failing: f.Now.Add(-time.Minute), Last: f.Now,
				Err: "connection timed out"}}
		})
	}}, fault{name: "cluster-report-missing", checks: []string{"reports"}, plant: func(_ *testing.T, s *sick) {
		s.health.Add(func(f *checks.Facts) {
			f.Cluster = &view.Cluster{Seeds: 3, State: "active", Quorum: view.Quorum{Leader: 2, Voters: 3}}
			f.Others = []checks.Other{{Heard: health.Heard{Broker: 3}, Active: f.Now.Add(-time.Hour)}}
		})
	}})
	add("clock-ahead", "skew", func(c *view.Cluster) { c.Skew = -time.Hour })
	return list
}
