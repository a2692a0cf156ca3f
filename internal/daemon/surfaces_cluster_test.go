package daemon

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
)

// clusterFaults returns the faults of a cluster as one of its members sees them. They are planted
// as facts: TestAMemberFindsWhatIsWrongWithItsCluster checks where the facts come from.
func clusterFaults() (list []fault) {
	add := func(name, check string, change func(*checks.Cluster)) {
		list = append(list, fault{name: "cluster-" + name, checks: []string{check}, plant: func(_ *testing.T, s *sick) {
			s.health.Add(func(f *checks.Facts) {
				f.Cluster = &checks.Cluster{Seeds: 3, State: "active", Own: "test", Version: "test",
					Quorum:  checks.Quorum{Leader: 2, Voters: 3},
					Brokers: []checks.Broker{{ID: 1, State: "active"}, {ID: 2, State: "active"}, {ID: 3, State: "active"}}}
				change(f.Cluster)
			})
		}})
	}
	some := checks.Partitions{Count: 2, Names: []string{"orders-0", "orders-1"}}
	add("no-lease", health.CheckMembership, func(c *checks.Cluster) { c.NoLease = time.Minute })
	add("fenced", health.CheckMembership, func(c *checks.Cluster) { c.State = "fenced" })
	add("no-metadata-leader", "quorum", func(c *checks.Cluster) {
		c.NoLease, c.Quorum.Leader, c.Quorum.NoLeader = time.Minute, -1, time.Minute
		c.Quorum.Unreachable = []string{"broker 2 (b:9092)", "broker 3 (c:9092)"}
	})
	add("lost-vote", "quorum", func(c *checks.Cluster) { c.Quorum.Orphans, c.Quorum.Orphaned = 1, time.Minute })
	add("leaderless", "leaderless", func(c *checks.Cluster) {
		c.Leaderless = []checks.Leaderless{{Partitions: some, Why: checks.ForBrokers, Brokers: []int32{3}}}
	})
	add("broker-fenced", "brokers", func(c *checks.Cluster) {
		c.Brokers[2] = checks.Broker{ID: 3, State: "fenced", Behind: some, Refusing: some}
	})
	add("replica-stopped", "stopped_replica", func(c *checks.Cluster) { c.Stopped = []checks.Stopped{{Partitions: some, Leader: 2}} })
	add("unclean", "unclean", func(c *checks.Cluster) { c.Unclean = some })
	add("clock-ahead", "skew", func(c *checks.Cluster) { c.Skew = -time.Hour })
	return list
}
