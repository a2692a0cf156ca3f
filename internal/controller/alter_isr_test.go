package controller

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
)

// isrChange returns a change of topicA's partition as its leader would request it now.
func (w *world) isrChange(isr, elr []int32, joins ...int32) metadata.ISRChange {
	img := w.applier.Image()
	p := img.Partition(tpA)
	c := metadata.ISRChange{TopicPartition: tpA, Revision: p.Revision, ISR: isr, ELR: elr}
	for _, id := range append([]int32{p.Leader}, joins...) {
		b, _ := img.Broker(id)
		_, liveness := img.Liveness(id)
		c.Members = append(c.Members, metadata.BrokerRevision{Broker: id, Epoch: b.Epoch, Liveness: liveness})
	}
	return c
}

// alter requests a change and waits until the image shows the outcome.
func (w *world) alter(c metadata.ISRChange) error {
	w.Helper()
	err := New(Options{Store: w.store}).AlterISR(context.Background(), []metadata.ISRChange{c})[0]
	_, revision, failed := w.store.Get(context.Background(), metadata.ClusterKey)
	w.must(failed)
	w.must(w.applier.WaitShown(context.Background(), revision))
	return err
}

func TestALeaderChangesItsISR(t *testing.T) {
	w := three(t)
	before := w.applier.Image().Partition(tpA).PartitionEpoch
	w.must(w.alter(w.isrChange([]int32{1}, []int32{2})))
	w.want("after the shrink", "1@0 isr [1] elr [2]")
	w.must(w.alter(w.isrChange([]int32{1, 2}, nil, 2)))
	w.want("after the growth", "1@0 isr [1 2] elr []")
	if got := w.applier.Image().Partition(tpA).PartitionEpoch; got != before+2 {
		t.Errorf("the partition epoch is %d, want %d", got, before+2)
	}
}

// Anything that the leader's decision depends on has changed: the change is refused, and the
// refusal names a revision from which on it will always be refused.
func TestAnISRChangeOnAnOldStateIsRefused(t *testing.T) {
	for name, change := range map[string]func(*world){
		"the record":             func(w *world) { w.must(w.alter(w.isrChange([]int32{1, 2}, nil))) },
		"the joiner's process":   func(w *world) { w.start(3) },
		"the joiner is fenced":   func(w *world) { w.procs[3].up = false; w.pass(2 * DefaultSessionTimeout) },
		"the joiner drains":      func(w *world) { w.procs[3].drain = true; w.step() },
		"the leader's process":   func(w *world) { w.start(1) },
		"the joiner's directory": func(w *world) { w.procs[3].failed = [][16]byte{{3}}; w.step() },
	} {
		t.Run(name, func(t *testing.T) {
			w := three(t)
			w.must(w.alter(w.isrChange([]int32{1, 2}, nil)))
			growth := w.isrChange([]int32{1, 2, 3}, nil, 3)
			change(w)
			err := w.alter(growth)
			var conflict *metadata.ConflictError
			if !errors.As(err, &conflict) || conflict.Revision <= growth.Revision || conflict.Revision > w.applier.Image().Version() {
				t.Fatalf("the change: %v", err)
			}
			if slices.Contains(w.applier.Image().Partition(tpA).ISR, 3) {
				t.Errorf("%s", w.record())
			}
		})
	}
}

// A conflict concerns one partition only, and a change that contradicts the record reaches no
// store.
func TestISRChangesAreIndependent(t *testing.T) {
	w := three(t)
	good, old := w.isrChange([]int32{1, 2}, nil), w.isrChange([]int32{1}, nil)
	old.Revision--
	alien, empty := w.isrChange([]int32{1, 9}, nil), w.isrChange(nil, nil)
	old.Partition, good.Partition = 7, 0
	errs := New(Options{Store: w.store}).AlterISR(t.Context(), []metadata.ISRChange{alien, empty, old})
	var refused *Error
	if !errors.As(errs[0], &refused) || !errors.As(errs[1], &refused) || !errors.Is(errs[2], metadata.ErrConflict) {
		t.Errorf("%v", errs)
	}
	errs = New(Options{Store: w.store}).AlterISR(t.Context(), []metadata.ISRChange{old, good})
	if !errors.Is(errs[0], metadata.ErrConflict) || errs[1] != nil {
		t.Errorf("%v", errs)
	}
}

// The error of a change that leaves no replica in sync says so, also if there is no leader.
func TestAnEmptyISRIsRefusedWithAReason(t *testing.T) {
	w := newWorld(t)
	w.lead()
	w.topic(metadata.Partition{Leader: -1, Replicas: []int32{1}, ELR: []int32{1}})
	err := w.alter(metadata.ISRChange{TopicPartition: tpA, Revision: w.applier.Image().Partition(tpA).Revision})
	if want := "invalid ISR [] and ELR [] of a partition with the replicas [1]: no replica would be in sync"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
