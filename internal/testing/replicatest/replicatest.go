// Package replicatest gives partitions roles in the tests of other packages, which have no metadata
// and no followers. It belongs to tests only.
package replicatest

import (
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/replica/progress"
)

// Role returns a role whose replicas are all registered and active, with broker epoch 1.
func Role(p *replica.Partition, leader, epoch int32, replicas, isr []int32) *replica.Role {
	r := &replica.Role{Leader: leader, Epoch: epoch, BrokerEpoch: 1, View: progress.View{MinISR: 1, Notes: true}}
	for _, id := range replicas {
		r.View.Replicas = append(r.View.Replicas, progress.Replica{Broker: id, InSync: slices.Contains(isr, id), BrokerEpoch: 1,
			Active: true, Placement: p.Log().Dir().ID()})
	}
	return r
}

// serials numbers the subscriptions of all followers.
var serials atomic.Uint64

// Acknowledge subscribes a follower whose log ends at end, durably. It replaces the follower's
// earlier subscription.
func Acknowledge(t testing.TB, p *replica.Partition, follower int32, end int64) {
	t.Helper()
	s := progress.Subscription{Broker: follower, BrokerEpoch: 1, Dir: p.Log().Dir().ID(), Written: end, Durable: end}
	s.LogStart, s.Serial = math.MaxInt64, serials.Add(1)
	if _, _, err := p.Subscribe(p.LeaderEpoch(), s); err != nil {
		t.Fatal(err)
	}
}
