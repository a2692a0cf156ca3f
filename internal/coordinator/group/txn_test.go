package group

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

var producer7 = &transact{id: "x", pid: 7, epoch: 3}

// in commits an offset for partition 0 of "t" in a transaction of producer 7.
func (w *world) in(member string, generation int32, offset int64) int16 {
	w.t.Helper()
	return w.commitIn(producer7.commit("g", member, generation, "t", 0, offset)).Topics[0].Partitions[0].ErrorCode
}

// decide sends the marker of producer 7's transaction.
func (w *world) decide(commit bool) {
	w.t.Helper()
	if err := w.mark(Marker{ProducerID: 7, Epoch: 3, CoordinatorEpoch: 5, Commit: commit}); err != nil {
		w.t.Fatalf("marker: %v", err)
	}
}

// stable requests the offset of partition 0 with require_stable.
func (w *world) stable() kmsg.OffsetFetchResponseGroupTopicPartition {
	w.t.Helper()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = "g", []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}
	return ask[[]kmsg.OffsetFetchResponseGroup](w, FetchOffsets{Groups: []kmsg.OffsetFetchRequestGroup{g}, RequireStable: true})[0].
		Topics[0].Partitions[0]
}

// G1: the offsets are records of their producer, and the marker is one.
func TestG1OffsetsAreRecordsOfTheirTransaction(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	is(t, w.in("", -1, 5), nil)
	w.decide(true)
	n := len(w.log)
	by := coordinator.Producer{ID: 7, Epoch: 3, Transactional: true}
	want := coordinator.Marker{Commit: true, CoordinatorEpoch: 5}
	if n != 2 || w.log[0].Producer != by || w.log[1].Producer != by || *w.log[1].Marker != want {
		t.Errorf("%+v", w.log)
	}
	w.replays()
}

// G2, history 64: zombies and late markers are refused without a record, so nothing can fail in the
// log and make the shard load again.
func TestG2ZombiesAreRefusedWithoutARecord(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	is(t, w.in("", -1, 5), nil)
	is(t, w.mark3(4, 6), nil) // fences epoch 3
	n := len(w.log)
	is(t, w.in("", -1, 6), kerr.InvalidProducerEpoch)
	var fenced *producers.CoordinatorFenced
	if err := w.mark(Marker{ProducerID: 7, Epoch: 4, CoordinatorEpoch: 5}); !errors.As(err, &fenced) || fenced.Epoch != 6 {
		t.Errorf("a marker of a replaced coordinator: %v", err)
	}
	if err := w.mark(Marker{ProducerID: 7, Epoch: 3, CoordinatorEpoch: 6}); !errors.Is(err, producers.ErrInvalidProducerEpoch) {
		t.Errorf("a marker of an old epoch: %v", err)
	}
	if err := w.mark(Marker{ProducerID: 7, Epoch: 4, CoordinatorEpoch: 9, Foreign: true}); !errors.Is(err, producers.ErrForeignMarker) {
		t.Errorf("a marker of a tool: %v", err)
	}
	if len(w.log) != n {
		t.Errorf("%d records", len(w.log)-n)
	}
	// A repetition is success without a record.
	if err := w.mark(Marker{ProducerID: 7, Epoch: 4, CoordinatorEpoch: 6, Bumps: true}); err != nil || len(w.log) != n {
		t.Errorf("a repetition: %v, %d records", err, len(w.log)-n)
	}
	w.replays()
}

// Offsets of a later epoch than that of the open transaction: the coordinator judges the epoch, and
// the offsets never join that transaction.
func TestG2ALaterEpochDoesNotJoinTheOpenTransaction(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	is(t, w.in("", -1, 5), nil)
	n := len(w.log)
	later := *producer7
	later.epoch++
	e := txnCommitOf(later.commit("g", "", -1, "t", 0, 6))
	need := ask[NeedsPermit](w, e)
	e.Permit = Permit{Guard: need.Guard, CoordinatorEpoch: 9}
	is(t, ask[*kmsg.TxnOffsetCommitResponse](w, e).Topics[0].Partitions[0].ErrorCode, kerr.CoordinatorLoadInProgress)
	if len(w.log) != n {
		t.Error("a record was written")
	}
}

// mark3 sends an abort and returns 0 for success.
func (w *world) mark3(epoch int16, coordinator int32) int16 {
	if w.mark(Marker{ProducerID: 7, Epoch: epoch, CoordinatorEpoch: coordinator, Bumps: true}) != nil {
		return -1
	}
	return 0
}

// G3, history 65: the marker, its effect and the answer are those of one event, and the runtime
// holds the answer until the records are committed.
func TestG3AMarkerIsAnsweredWithItsEffect(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	is(t, w.in("", -1, 5), nil)
	var out coordinator.Effects
	m := Marker{ProducerID: 7, Epoch: 3, Commit: true}
	w.shard.Handle(w.now, 99, m, &out)
	if !w.shard.Writes(m) || len(out.Records) != 1 || len(out.Replies) != 1 || w.fetched("t").Offset != 5 {
		t.Errorf("%+v", out)
	}
}

// G3, history 68: a later plain commit stays, whatever becomes of the transaction.
func TestG3ALaterCommitStays(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	is(t, w.in("", -1, 5), nil)
	is(t, w.commit(commitOf("", -1, "t", 3)), nil)
	w.start()
	w.decide(true)
	if got := w.fetched("t").Offset; got != 3 {
		t.Errorf("%d", got)
	}
	w.replays()
}

// G4, history 63: who requires stable offsets does not get those that a transaction may replace.
// That includes partitions without a committed offset in a request for all; Kafka leaves them out.
func TestG4PendingOffsetsAreUnstable(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	is(t, w.in("", -1, 5), nil)
	all := kmsg.NewOffsetFetchRequestGroup()
	all.Group = "g"
	for _, stable := range []bool{false, true} {
		e := FetchOffsets{Groups: []kmsg.OffsetFetchRequestGroup{all}, RequireStable: stable}
		if got := ask[[]kmsg.OffsetFetchResponseGroup](w, e)[0].Topics; (len(got) == 1) != stable {
			t.Errorf("stable %t: %+v", stable, got)
		}
	}
	is(t, w.stable().ErrorCode, kerr.UnstableOffsetCommit)
	is(t, w.fetched("t").ErrorCode, nil)
	w.decide(false)
	if p := w.stable(); p.ErrorCode != 0 || p.Offset != -1 || len(w.shard.groups) != 0 {
		t.Errorf("%+v, %d groups", p, len(w.shard.groups))
	}
}

// G4, histories 66 and 67: offsets and groups stay while a transaction is open, however long.
func TestG4PendingOffsetsKeepOffsetsAndGroups(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	is(t, w.commit(commitOf("", -1, "t", 3)), nil)
	is(t, w.in("", -1, 5), nil)
	w.advance(30 * 24 * time.Hour)
	if got := w.fetched("t").Offset; got != 3 {
		t.Errorf("the committed offset expired: %d", got)
	}
	is(t, ask[[]kmsg.DeleteGroupsResponseGroup](w, Delete{[]string{"g"}})[0].ErrorCode, kerr.NonEmptyGroup)
	w.decide(true)
	if got := w.fetched("t").Offset; got != 5 {
		t.Errorf("%d", got)
	}
	is(t, ask[[]kmsg.DeleteGroupsResponseGroup](w, Delete{[]string{"g"}})[0].ErrorCode, nil)
	w.replays()
}

// G4: the pending offsets of a deleted topic go with it; those of a new one of that name stay.
func TestG4PendingOffsetsGoWithTheirTopic(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	is(t, w.in("", -1, 5), nil)
	w.topic("t", 0)
	w.topic("t", 1)
	if len(w.shard.groups) != 0 {
		t.Error("the group has only offsets of a deleted topic")
	}
	is(t, w.stable().ErrorCode, nil)
	w.decide(true)
	if got := w.fetched("t").Offset; got != -1 {
		t.Errorf("the offset of a deleted topic is committed: %d", got)
	}
	w.replays()
}

// G5, history 62: the generation is checked when the offset is written, not when the permit was
// asked for.
func TestG5TheGenerationIsCheckedWhenTheOffsetIsWritten(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	leader, other, gen := w.two()
	e := txnCommitOf(producer7.commit("g", other, gen, "t", 0, 5))
	need := ask[NeedsPermit](w, e)
	_, j := w.join(leader)
	_, k := w.join(other)
	w.joined(j)
	w.joined(k)
	e.Permit = Permit{Guard: need.Guard}
	is(t, ask[*kmsg.TxnOffsetCommitResponse](w, e).Topics[0].Partitions[0].ErrorCode, kerr.IllegalGeneration)
	is(t, w.in(other, gen+1, 6), nil)
	w.replays()
}

// G6: a group keeps its pending offsets when it changes its protocol, in both directions.
func TestG6PendingOffsetsOutliveTheProtocol(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	is(t, w.in("", -1, 5), nil)
	n := w.newClient("new", "t")
	stabilize(w, n)
	if w.shard.groups["g"].consumer() == nil {
		t.Fatal("the group has not changed")
	}
	w.start()
	is(t, w.stable().ErrorCode, kerr.UnstableOffsetCommit)
	w.consumerBeat(heartbeatOf("new", -1))
	w.advance(time.Hour)
	w.start()
	is(t, w.stable().ErrorCode, kerr.UnstableOffsetCommit)
	w.decide(true)
	if got := w.stable().Offset; got != 5 {
		t.Errorf("%d", got)
	}
	w.replays()
}

// A load continues after markers that a compaction has emptied, and not if one contradicts the log.
func TestEmptiedMarkers(t *testing.T) {
	s := New(DefaultConfig())
	defer s.End()
	empty := coordinator.Record{Producer: coordinator.Producer{ID: 7, Epoch: 4, Transactional: true},
		Marker: &coordinator.Marker{CoordinatorEpoch: -1, Emptied: true}}
	if err := s.Apply(empty); err != nil || s.transactions.fence(7).Epoch != 4 {
		t.Errorf("%v, %+v", err, s.transactions.fence(7))
	}
	w := newWorld(t)
	w.topic("t", 1)
	is(t, w.in("", -1, 5), nil)
	if err := w.shard.Apply(empty); err == nil {
		t.Error("the offsets of a transaction are in the log, and its marker does not decide them")
	}
}

// The number of producers is bounded; those with open transactions stay.
func TestProducersAreForgotten(t *testing.T) {
	x := newTransactions()
	x.begin(1, 0, 0)
	for id := int64(2); id <= producers.DefaultLimit+10; id++ {
		x.end(producers.Marker{Producer: id}, id)
	}
	if len(x.ids) != producers.DefaultLimit || x.ids[1] == nil || x.ids[2] != nil || x.open != 1 {
		t.Errorf("%d producers, %d open", len(x.ids), x.open)
	}
	// A permit from before a marker of a forgotten producer does not count for an unknown one.
	if early := (Guard{x.life, 5}); x.holds(-1, early) || !x.holds(-1, x.guard()) || x.holds(-1, Guard{}) {
		t.Error("guards of unknown producers")
	}
	x.end(producers.Marker{Producer: 1}, 1)
	if x.retire(0, func(*producer) bool { return true }); len(x.ids) != 0 || x.byUse.Len() != 0 || x.open != 0 {
		t.Errorf("%d producers stay", len(x.ids))
	}
}
