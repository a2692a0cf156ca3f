package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
)

// reassigned returns the replicas of the partition as text.
func (w *world) reassigned() string {
	p := w.applier.Image().Partition(tpA)
	return fmt.Sprintf("%v adding %v removing %v", p.Replicas, p.Adding, p.Removing)
}

// joined makes brokers the ISR, as the leader would.
func (w *world) joined(isr ...int32) {
	p := *w.applier.Image().Partition(tpA)
	p.ISR = isr
	w.put(metadata.PartitionKey(topicA, 0), p.Encode())
}

// Any broker begins a reassignment, and the controller completes it when the new replicas are in
// sync, also the next controller.
func TestReassignmentsAreCompleted(t *testing.T) {
	w := three(t)
	w.start(4)
	w.step()
	c := New(Options{Store: w.store, MinISR: func(*metadata.Image, *metadata.Topic, *metadata.Partition) int { return 2 }})
	reassign := func(replicas []int32, same bool) error {
		revision, errs := c.Reassign(context.Background(), w.applier, []Reassignment{{tpA, replicas, same}})
		w.must(w.applier.WaitShown(context.Background(), revision))
		return errs[0]
	}
	w.must(reassign([]int32{4, 2, 1}, true))
	w.must(reassign([]int32{4, 2, 1}, true)) // again
	w.pass(time.Second)
	if got := w.reassigned(); got != "[4 2 1 3] adding [4] removing [3]" {
		t.Fatal(got)
	}
	w.want("4 copies", "1@0 isr [2 1 3] elr []")
	w.newLoop()
	w.lead()
	w.joined(1, 2, 3, 4)
	w.step()
	if got := w.reassigned(); got != "[4 2 1] adding [] removing []" {
		t.Fatal(got)
	}
	w.want("completed, in a new epoch because 3 was removed", "1@1 isr [4 2 1] elr []")

	for _, c := range []struct {
		replicas []int32
		same     bool
		want     Kind
	}{
		{nil, false, NoReassignmentInProgress},
		{[]int32{}, false, InvalidReplicaAssignment},
		{[]int32{9}, false, InvalidReplicaAssignment},
		{[]int32{1, 1}, false, InvalidReplicaAssignment},
		{[]int32{1, 2}, true, InvalidReplicationFactor},
	} {
		if err := reassign(c.replicas, c.same); !isRefusal(err, c.want) {
			t.Errorf("%v: %v", c.replicas, err)
		}
	}
	missing := metadata.TopicPartition{Topic: topicA, Partition: 7}
	_, errs := c.Reassign(context.Background(), w.applier, []Reassignment{{missing, []int32{1}, false}})
	if !isRefusal(errs[0], UnknownTopic) {
		t.Error(errs)
	}

	w.must(reassign([]int32{3}, false)) // 4, 2 and 1 leave when 3 has a copy
	w.joined(3, 1)
	if err := reassign(nil, false); !isRefusal(err, InvalidReplicaAssignment) {
		t.Errorf("only 1 would remain of 4, 2 and 1: %v", err)
	}
	w.joined(1, 2, 4)
	w.must(reassign(nil, false))
	if got := w.reassigned(); got != "[4 2 1] adding [] removing []" {
		t.Fatal(got)
	}
}

// A broker that is being added to a partition cannot be unregistered.
func TestBrokersWithReplicasStay(t *testing.T) {
	w := three(t)
	w.start(4)
	w.step()
	_, errs := New(Options{Store: w.store}).Reassign(context.Background(), w.applier, []Reassignment{{tpA, []int32{1, 4}, false}})
	w.must(errors.Join(errs...))
	w.procs[4].up = false
	w.pass(5 * time.Second)
	if _, err := w.loop.Unregister(context.Background(), 4); !isRefusal(err, InvalidRequest) {
		t.Error(err)
	}
}

// A broker that is unregistered while a reassignment to it begins gets no replica: the controller
// would wait for it for ever.
func TestNoReplicaMovesToABrokerThatIsUnregisteredMeanwhile(t *testing.T) {
	w := three(t)
	w.start(4)
	w.step()
	w.procs[4].up = false
	w.pass(5 * time.Second)
	h := &hook{Store: w.store, before: func() {
		revision, err := w.loop.Unregister(context.Background(), 4)
		w.must(err)
		w.must(w.applier.WaitShown(context.Background(), revision))
	}}
	_, errs := New(Options{Store: h}).Reassign(context.Background(), w.applier, []Reassignment{{tpA, []int32{4, 1}, false}})
	if got := w.reassigned(); !isRefusal(errs[0], InvalidReplicaAssignment) || got != "[1 2 3] adding [] removing []" {
		t.Errorf("%v: %s", errs[0], got)
	}
}

// A cancellation that comes after the end of the reassignment reports that there is none. One that
// another change has delayed, or whose own first attempt has succeeded, succeeds.
func TestACancellationTellsWhetherItCameTooLate(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(w *world)
		late      bool
		want      string
	}{
		"complete": {func(w *world) { w.joined(4, 1); w.step() }, true, "[4 1] adding [] removing []"},
		"delayed":  {func(w *world) { w.joined(1, 2, 3, 4) }, false, "[1 2 3] adding [] removing []"},
		"canceled": {func(w *world) {
			_, errs := New(Options{Store: w.store}).Reassign(context.Background(), w.applier, []Reassignment{{tpA, nil, false}})
			w.must(errs[0])
		}, false, "[1 2 3] adding [] removing []"},
	} {
		w := three(t)
		w.start(4)
		w.step()
		_, errs := New(Options{Store: w.store}).Reassign(context.Background(), w.applier, []Reassignment{{tpA, []int32{4, 1}, false}})
		w.must(errs[0])
		h := &hook{Store: w.store, before: func() { c.meanwhile(w) }}
		_, errs = New(Options{Store: h}).Reassign(context.Background(), w.applier, []Reassignment{{tpA, nil, false}})
		w.step() // what was in sync leaves
		if got := w.reassigned(); isRefusal(errs[0], NoReassignmentInProgress) != c.late || !c.late && errs[0] != nil || got != c.want {
			t.Errorf("%s: %v: %s", name, errs[0], got)
		}
	}
}

// An unclean election that a topic permits does not choose an unfinished copy: the replicas that
// have everything may return.
func TestUnfinishedCopiesAreNotElected(t *testing.T) {
	w := three(t)
	w.unclean = true
	w.start(4)
	w.step()
	_, errs := New(Options{Store: w.store}).Reassign(context.Background(), w.applier, []Reassignment{{tpA, []int32{4}, false}})
	w.must(errors.Join(errs...))
	for id := range int32(3) {
		w.procs[id+1].up = false
	}
	w.pass(20 * time.Second)
	if got := w.applier.Image().Partition(tpA); got.Leader != -1 || !slices.Equal(got.Adding, []int32{4}) {
		t.Errorf("%+v", got)
	}
}

// Preferred leaders are elected some time after a broker has become active, if they are in sync and
// the configuration does not forbid it.
func TestLeadersAreBalanced(t *testing.T) {
	for _, balance := range []bool{true, false} {
		w := three(t)
		w.loop.opt.Balance = balance
		w.procs[1].drain = true
		w.pass(2 * time.Second)
		w.want("1 drains", "2@1 isr [2 3] elr []")
		w.start(1)
		w.pass(settleTime + time.Second)
		w.want("1 is not in sync", "2@1 isr [2 3] elr []")
		w.joined(1, 2, 3)
		w.pass(settleTime + time.Second)
		if balance {
			w.want("1 is in sync", "1@2 isr [1 2 3] elr []")
		} else {
			w.want("1 is in sync", "2@1 isr [1 2 3] elr []")
		}
	}
}

// A step changes few partitions, and later ones the rest.
func TestLeadersAreBalancedInSteps(t *testing.T) {
	w := newWorld(t)
	w.loop.opt.Balance = true
	w.lead()
	w.start(1)
	w.start(2)
	w.step()
	txn := metadata.Txn{Put: []metadata.KV{
		{Key: metadata.NameKey("a"), Value: metadata.Name{Topic: "a", ID: topicA}.Encode()},
		{Key: metadata.TopicKey(topicA), Value: metadata.TopicRecord{Name: "a", Partitions: 120}.Encode()},
	}}
	for i := range int32(120) {
		p := metadata.Partition{Leader: 2, Replicas: []int32{1, 2}, ISR: []int32{1, 2}}
		txn.Put = append(txn.Put, metadata.KV{Key: metadata.PartitionKey(topicA, i), Value: p.Encode()})
	}
	rev, err := w.store.Txn(context.Background(), txn)
	w.must(err)
	w.must(w.applier.WaitShown(context.Background(), rev))
	moved := func() (n int) {
		for _, p := range w.applier.Image().TopicByID(topicA).Partitions.All() {
			if p.Leader == 1 {
				n++
			}
		}
		return n
	}
	var steps []int
	for range 60 {
		if w.pass(DefaultHeartbeatInterval); len(steps) == 0 || steps[len(steps)-1] != moved() {
			steps = append(steps, moved())
		}
	}
	if !slices.Equal(steps, []int{0, 50, 100, 120}) {
		t.Error(steps)
	}
}

// Internal topics that were created with fewer replicas get more when there are enough brokers;
// other topics do not.
func TestInternalTopicsAreRaised(t *testing.T) {
	w := newWorld(t)
	w.loop.opt.InternalReplicas = map[string]int{"__consumer_offsets": 3}
	w.lead()
	w.start(1)
	w.start(2)
	w.step()
	internal := [16]byte{0xb0, 15: 1}
	for id, name := range map[[16]byte]string{topicA: "a", internal: "__consumer_offsets"} {
		txn := metadata.Txn{Put: []metadata.KV{
			{Key: metadata.NameKey(name), Value: metadata.Name{Topic: name, ID: id}.Encode()},
			{Key: metadata.TopicKey(id), Value: metadata.TopicRecord{Name: name, Partitions: 3, Internal: id == internal}.Encode()},
		}}
		for i := range int32(3) {
			p := metadata.Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}
			txn.Put = append(txn.Put, metadata.KV{Key: metadata.PartitionKey(id, i), Value: p.Encode()})
		}
		rev, err := w.store.Txn(context.Background(), txn)
		w.must(err)
		w.must(w.applier.WaitShown(context.Background(), rev))
	}
	replicas := func(id [16]byte) string {
		var list [][]int32
		for _, p := range w.applier.Image().TopicByID(id).Partitions.All() {
			list = append(list, p.Replicas)
		}
		return fmt.Sprint(list)
	}
	w.pass(2 * sweepInterval)
	if got := replicas(internal); got != "[[1] [1] [1]]" {
		t.Errorf("with two brokers: %s", got)
	}
	w.start(3)
	w.pass(2 * sweepInterval)
	if got := replicas(internal); got != "[[1 2 3] [2 3 1] [3 1 2]]" {
		t.Errorf("with three brokers: %s", got)
	}
	if got := replicas(topicA); got != "[[1] [1] [1]]" {
		t.Errorf("an ordinary topic: %s", got)
	}
	p := w.applier.Image().TopicByID(internal).Partitions.At(1)
	if !slices.Equal(p.Adding, []int32{2, 3}) || p.Leader != 1 {
		t.Errorf("%+v", p)
	}
}

// Replicas are added in racks that have none, if there are such brokers.
func TestRaisedTopicsSpreadOverRacks(t *testing.T) {
	w := newWorld(t)
	w.lead()
	for id, rack := range map[int32]string{1: "x", 2: "x", 3: "y", 4: "x", 5: "z"} {
		w.start(id, func(q *RegisterRequest) { q.Rack = rack })
	}
	w.step()
	for i := range int32(8) {
		got := raised(w.applier.Image(), &metadata.Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}, i, 3)
		if slices.Sort(got); !slices.Equal(got, []int32{1, 3, 5}) {
			t.Errorf("partition %d: %v", i, got)
		}
	}
}

// What is recorded of a replica's directory is removed only as long as the broker has no replica.
func TestDirectoriesOfNewReplicasStay(t *testing.T) {
	w := three(t)
	c := New(Options{Store: w.store})
	remove := func() {
		rev, err := c.AssignDirs(context.Background(), 3, map[metadata.TopicPartition][16]byte{tpA: {}})
		w.must(err)
		w.must(w.applier.WaitShown(context.Background(), rev))
	}
	remove()
	if _, placed := w.applier.Image().Placement(3, tpA); !placed {
		t.Error("the directory of a replica was removed")
	}
	_, errs := c.Reassign(context.Background(), w.applier, []Reassignment{{tpA, []int32{1, 2}, false}})
	w.must(errors.Join(errs...))
	w.step()
	remove()
	if _, placed := w.applier.Image().Placement(3, tpA); placed {
		t.Error("the directory of a former replica stays")
	}
}
