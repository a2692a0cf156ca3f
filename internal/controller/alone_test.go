package controller

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
)

// alone is a world whose controller is on the node of the only voter, with one active broker there
// and a partition that it leads. It returns what edits the registration of the next process there.
func alone(t *testing.T) (w *world, here func(edit func(*RegisterRequest)) func(*RegisterRequest)) {
	t.Helper()
	w = newWorld(t)
	w.sole = true
	here = func(edit func(*RegisterRequest)) func(*RegisterRequest) {
		return func(q *RegisterRequest) {
			edit(q)
			w.own = q.Incarnation
			w.newLoop()
			w.lead()
		}
	}
	w.start(1, here(func(*RegisterRequest) {}))
	w.topic(metadata.Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}})
	w.put(metadata.PlacementKey(1, topicA), new(metadata.Placement).With(map[int32][16]byte{0: {1}}).Encode())
	return w, here
}

// The only broker registers in one transaction that makes it active, and keeps its leaderships with
// their epochs after a clean stop.
func TestTheOnlyBrokerRegistersInOneTransaction(t *testing.T) {
	w, here := alone(t)
	before := w.applier.Image().Version()
	p := w.start(1, here(func(q *RegisterRequest) { q.Dirs[0].Clean = true }))
	if w.state(1) != metadata.Active || p.epoch != before+1 {
		t.Errorf("it is %v at revision %d, registered after %d", w.state(1), p.epoch, before)
	}
	w.want("after a clean stop", "1@0 isr [1] elr []")
	if a, err := w.beat(p); err != nil || a.Lease > 0 {
		t.Errorf("a lease without a proof: %+v, %v", a, err)
	}
	p.heard = p.seq
	if a, err := w.beat(p); err != nil || a.Lease <= 0 || a.Liveness != metadata.Active {
		t.Errorf("the second heartbeat: %+v, %v", a, err)
	}
}

// After a stop that was not clean, no leader epoch of the former process continues (I9).
func TestTheOnlyBrokerLeadsInNewEpochsAfterAnUncleanStop(t *testing.T) {
	for name, edit := range map[string]func(*RegisterRequest){
		"killed":         func(*RegisterRequest) {},
		"lossy":          func(q *RegisterRequest) { q.Lossy = []metadata.TopicPartition{tpA} },
		"an older copy":  func(q *RegisterRequest) { q.Dirs[0].Clean, q.Dirs[0].Found = true, 4 },
		"clean but lost": func(q *RegisterRequest) { q.Dirs[0].Clean, q.Lossy = true, []metadata.TopicPartition{tpA} },
	} {
		t.Run(name, func(t *testing.T) {
			w, here := alone(t)
			w.start(1, here(edit))
			w.want("when it has registered", "1@2 isr [1] elr []")
			// A transaction that was open must not be committed if records were lost (D2).
			if p := w.applier.Image().TopicByID(tpA.Topic).Partitions.At(tpA.Partition); (p.Unclean > 0) != (name != "killed") {
				t.Errorf("unclean in epoch %d", p.Unclean)
			}
		})
	}
}

// With another voter, another broker or as another process, a broker proves first what it knows.
func TestOnlyTheOnlyBrokerNeedsNoProof(t *testing.T) {
	for name, change := range map[string]func(*world){
		"another voter":   func(w *world) { w.sole = false },
		"another process": func(w *world) { w.own = [16]byte{9}; w.newLoop(); w.lead() },
		"another broker": func(w *world) {
			b := metadata.Broker{Member: 2, Incarnation: [16]byte{2}, Features: metadata.Features{Min: 1, Max: 1}}
			w.put(metadata.BrokerKey(2), b.Encode())
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, here := alone(t)
			w.start(1, here(func(q *RegisterRequest) { q.Dirs[0].Clean = true }), func(*RegisterRequest) { change(w) })
			if w.state(1) != metadata.Starting {
				t.Errorf("it is %v", w.state(1))
			}
			w.want("when it has registered", "-1@1 isr [1] elr []")
		})
	}
}

// The broker of the only voter is not fenced, although its session would have ended while the
// process stood still: its lease does not depend on the session. With another voter it is fenced.
func TestTheBrokerOfTheOnlyVoterIsNotFenced(t *testing.T) {
	for _, sole := range []bool{true, false} {
		w, here := alone(t)
		p := w.start(1, here(func(q *RegisterRequest) { q.Dirs[0].Clean = true }))
		w.step()
		p.silent = true
		w.sole = sole
		for range 10 {
			w.pass(time.Second)
		}
		if fenced := w.state(1) == metadata.Fenced; fenced == sole {
			t.Errorf("sole %t: it is %v", sole, w.state(1))
		}
	}
}

// Very many damaged logs take no other partition of their directory offline: no other replica could
// lead in their place.
func TestTheOnlyBrokerLeadsBesideManyDamagedLogs(t *testing.T) {
	w, here := alone(t)
	const n = MaxReportedDamaged + 1
	id, none := [16]byte{9}, metadata.Placement{}
	var many []metadata.TopicPartition
	txn, placed := metadata.Txn{}, map[int32][16]byte{}
	for i := range int32(n) {
		p := metadata.Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}
		many, placed[i] = append(many, metadata.TopicPartition{Topic: id, Partition: i}), [16]byte{1}
		txn.Put = append(txn.Put, metadata.KV{Key: metadata.PartitionKey(id, i), Value: p.Encode()})
	}
	txn.Put = append(txn.Put, metadata.KV{Key: metadata.NameKey("b"), Value: metadata.Name{Topic: "b", ID: id}.Encode()},
		metadata.KV{Key: metadata.TopicKey(id), Value: metadata.TopicRecord{Name: "b", Partitions: n}.Encode()},
		metadata.KV{Key: metadata.PlacementKey(1, id), Value: none.With(placed).Encode()})
	_, err := w.store.Txn(t.Context(), txn)
	w.must(err)
	w.start(1, here(func(q *RegisterRequest) { q.Damaged = many }))
	if state, _ := w.applier.Image().State(1); len(state.Damaged) > 0 || len(state.Unable) > 0 {
		t.Errorf("%d damaged logs, directories %v", len(state.Damaged), state.Unable)
	}
	w.want("with many damaged logs", "1@2 isr [1] elr []")
}
