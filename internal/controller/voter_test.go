package controller

import (
	"context"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
)

// A broker without log directories is never able to write. It registers with none, and not while it
// has replicas: their records would be out of reach.
func TestABrokerThatOnlyVotes(t *testing.T) {
	w := three(t)
	none := func(q *RegisterRequest) { q.Dirs = nil }
	had := w.process(3, none)
	if _, err := w.loop.Register(context.Background(), &had.RegisterRequest); !isRefusal(err, InvalidRequest) {
		t.Errorf("a broker with replicas registers without log directories: %v", err)
	}
	w.start(4, none)
	w.pass(0)
	w.step()
	img := w.applier.Image()
	b, _ := img.Broker(4)
	state, _ := img.State(4)
	if works, writes := b.Able(&state, [16]byte{}); works || writes || !b.Votes() || state.Liveness != metadata.Active {
		t.Errorf("it works: %v, writes: %v, votes: %v, is %v", works, writes, b.Votes(), state.Liveness)
	}
	if TakesPartitions(img, 4) || raised(img, &metadata.Partition{Replicas: []int32{1, 2, 3}}, 0, 4) != nil {
		t.Error("it gets replicas")
	}
	refused := reassignTo(t, w, []int32{1, 4})
	if !isRefusal(refused, InvalidReplicaAssignment) {
		t.Errorf("a replica moves there: %v", refused)
	}
}

func reassignTo(t *testing.T, w *world, replicas []int32) error {
	t.Helper()
	c := New(Options{Store: w.store})
	_, errs := c.Reassign(context.Background(), w.applier, []Reassignment{{TopicPartition: tpA, Replicas: replicas}})
	return errs[0]
}
