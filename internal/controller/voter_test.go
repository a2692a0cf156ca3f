package controller

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
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

// A drained broker gets no replicas of anybody: of new topics, of internal ones, by a reassignment.
// Those that it has may stay, and the operator may end it. Its successor of the same number is not
// drained.
func TestADrainedBrokerGetsNoReplicas(t *testing.T) {
	w := three(t)
	w.start(4)
	w.pass(0)
	w.step()
	mark := metadata.KV{Key: metadata.BrokerConfigKey(4),
		Value: metadata.EncodeConfigs(map[string]string{"broker.takes.replicas": "false"})}
	if !TakesPartitions(w.applier.Image(), 4) {
		t.Fatal("the broker cannot take partitions")
	}
	set := func(txn metadata.Txn) {
		t.Helper()
		revision, err := w.store.Txn(context.Background(), txn)
		must.OK(t, err)
		must.OK(t, w.applier.WaitShown(context.Background(), revision))
	}
	set(metadata.Txn{Put: []metadata.KV{mark}})
	img := w.applier.Image()
	if TakesPartitions(img, 4) || raised(img, &metadata.Partition{Replicas: []int32{1, 2, 3}}, 0, 4) != nil {
		t.Error("it gets replicas of internal topics")
	}
	if err := reassignTo(t, w, []int32{1, 4}); !isRefusal(err, InvalidReplicaAssignment) {
		t.Errorf("a replica moves there: %v", err)
	}
	brokers, err := New(Options{Store: w.store}).candidates(context.Background())
	must.OK(t, err)
	lists, err := spread(brokers, 20, 3)
	must.OK(t, err)
	for _, list := range lists {
		if slices.Contains(list, 4) {
			t.Errorf("a new partition is on %v", list)
		}
	}
	_, err = spread(brokers, 1, 4)
	if err == nil || !strings.Contains(err.Error(), "broker(s) 4, which are drained; chronikctl broker drain 4 --end") {
		t.Errorf("four replicas: %v", err)
	}
	if err := checkReplicas([]int32{1, 4}, []int32{4, 2}, brokers, 0); err != nil {
		t.Errorf("the replica that it has: %v", err)
	}
	txn, err := unregistration(img, 4, false)
	must.OK(t, err)
	if !slices.Contains(txn.Delete, mark.Key) {
		t.Errorf("the mark stays when it is unregistered: %v", txn.Delete)
	}
	set(metadata.Txn{Delete: []string{mark.Key}})
	if !TakesPartitions(w.applier.Image(), 4) {
		t.Error("it gets no replicas when it is given back")
	}
}
