package election

import (
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
)

// A second loss in an epoch without a leader is not confirmed yet.
func TestASecondLossInOneEpochIsNew(t *testing.T) {
	p := metadata.Partition{Replicas: []int32{1}, ISR: []int32{1}, Leader: None, LeaderEpoch: 6, Unclean: 6, Confirmed: 6}
	next, changed := Decider{}.Return(p, 1, [16]byte{1}, LossySole)
	if !changed || !next.Lost() {
		t.Errorf("changed %t: %+v", changed, next)
	}
}
