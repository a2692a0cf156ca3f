package cluster

import (
	"testing"
	"time"
)

// A leader that was lost is missed since it was lost, also if it was known for a moment only.
func TestWatchedKnowsWhenTheLeaderWasLost(t *testing.T) {
	began := time.Now()
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	w := Watched{Led: began}
	for _, x := range []struct {
		leader    uint64
		now, want int
	}{{0, 4, 0}, {7, 5, 5}, {0, 6, 6}, {0, 9, 6}, {8, 10, 10}, {7, 12, 12}} {
		if w = w.with(x.leader, at(x.now)); w.Leader != x.leader || !w.Led.Equal(at(x.want)) {
			t.Errorf("after %d s, leader %d: led at %v", x.now, x.leader, w.Led.Sub(began))
		}
	}
}
