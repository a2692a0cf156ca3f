package txn

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
)

// outcome is what a request does: its error, the state afterwards, how far the epoch moves, and how
// many records it writes.
type outcome struct {
	err     *kerr.Error
	state   State
	epoch   int16
	records int
}

// Requests about "x", in its present state.
const (
	initNew     = "init"
	initSame    = "init, same epoch"
	initFormer  = "init, former epoch"
	initStale   = "init, stale epoch"
	initOtherID = "init, other id"
	addMore     = "add"
	addAgain    = "add, again"
	addOld      = "add, lower epoch"
	addNew      = "add, higher epoch"
	addOtherID  = "add, other id"
	endCommit   = "commit"
	endAbort    = "abort"
	commitRetry = "commit, former epoch"
	abortRetry  = "abort, former epoch"
	endNew      = "abort, higher epoch"
	endOtherID  = "abort, other id"
	verifyIn    = "verify"
	verifyNotIn = "verify, not in it"
)

// perform sends a request and returns its error.
func (d *desk) perform(request string, version int16) *kerr.Error {
	pid, epoch := d.state().identity()
	e := d.addOf(version, a(1), a(2))
	switch request {
	case initNew:
		return d.init(none, none).Err
	case initSame:
		return d.init(pid, epoch).Err
	case initFormer:
		return d.init(pid, epoch-1).Err
	case initStale:
		return d.init(pid, epoch-2).Err
	case initOtherID:
		return d.init(pid+5, epoch).Err
	case endCommit, endAbort:
		return d.end(version, pid, epoch, request == endCommit).Err
	case commitRetry, abortRetry:
		return d.end(version, pid, epoch-1, request == commitRetry).Err
	case endNew:
		return d.end(version, pid, epoch+1, false).Err
	case endOtherID:
		return d.end(version, pid+5, epoch, false).Err
	case verifyIn:
		return ask[Verified](d, Verify{"x", pid, epoch, []AddedPartition{{Partition: a(1)}}}).Errs[0]
	case verifyNotIn:
		return ask[Verified](d, Verify{"x", pid, epoch, []AddedPartition{{Partition: a(2)}}}).Errs[0]
	case addAgain:
		e.Partitions = e.Partitions[:1]
	case addOld:
		e.Epoch--
	case addNew:
		e.Epoch++
	case addOtherID:
		e.ProducerID++
	}
	return ask[Added](d, e).Err
}

// Kafka 4.3.1 gave these answers, unless a comment says otherwise.
func TestEveryRequestInEveryState(t *testing.T) {
	fenced, busy, invalid, mapping, abortable := kerr.ProducerFenced, kerr.ConcurrentTransactions, kerr.InvalidTxnState,
		kerr.InvalidProducerIDMapping, kerr.TransactionAbortable
	type key struct {
		request string
		version int16
	}
	// By state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort.
	ok := func(state State, epoch int16, records int) outcome { return outcome{nil, state, epoch, records} }
	no := func(err *kerr.Error) outcome { return outcome{err: err, state: none} } // nothing changes
	all := func(o outcome) [6]outcome { return [6]outcome{o, o, o, o, o, o} }
	fence := outcome{busy, PrepareAbort, 1, 1}
	raised := ok(Empty, 1, 1)
	same := ok(none, 0, 0)
	for k, want := range map[key][6]outcome{
		{initNew, 1}:  {raised, fence, no(busy), no(busy), raised, raised},
		{initNew, 2}:  {raised, fence, no(busy), no(busy), raised, raised},
		{initSame, 1}: {raised, fence, no(busy), no(busy), raised, raised},
		{initSame, 2}: {raised, fence, no(busy), no(busy), raised, raised},
		// Kafka lets a stale producer abort the transaction of its successor.
		{initStale, 1}:   {no(fenced), no(fenced), no(busy), no(busy), no(fenced), no(fenced)},
		{initStale, 2}:   {no(fenced), no(fenced), no(busy), no(busy), no(fenced), no(fenced)},
		{initOtherID, 1}: all(no(fenced)),
		{initOtherID, 2}: all(no(fenced)),
		// The producer that lost its epoch in a commit or abort of version 2 gets the new one.
		{initFormer, 2}: {no(fenced), no(fenced), no(busy), no(busy), same, same},

		{addMore, 1}: {ok(Ongoing, 0, 1), ok(Ongoing, 0, 1), no(busy), no(busy), ok(Ongoing, 0, 1), ok(Ongoing, 0, 1)},
		{addMore, 2}: {ok(Ongoing, 0, 1), ok(Ongoing, 0, 1), no(busy), no(busy), ok(Ongoing, 0, 1), ok(Ongoing, 0, 1)},
		// A repetition: version 1 needs a barrier.
		{addAgain, 1}: {ok(Ongoing, 0, 1), ok(Ongoing, 0, 1), no(busy), no(busy), ok(Ongoing, 0, 1), ok(Ongoing, 0, 1)},
		{addAgain, 2}: {ok(Ongoing, 0, 1), same, no(busy), no(busy), ok(Ongoing, 0, 1), ok(Ongoing, 0, 1)},

		{addOld, 2}:     all(no(fenced)),
		{addNew, 2}:     all(no(fenced)),
		{addOtherID, 2}: all(no(mapping)),

		{endCommit, 1}: {no(invalid), ok(PrepareCommit, 0, 1), no(busy), no(invalid), ok(none, 0, 1), no(invalid)},
		{endAbort, 1}:  {no(invalid), ok(PrepareAbort, 0, 1), no(invalid), no(busy), no(invalid), ok(none, 0, 1)},
		// Kafka fences a producer that ends its next transaction before the last one is complete.
		{endCommit, 2}: {no(invalid), ok(PrepareCommit, 1, 1), no(busy), no(busy), no(invalid), no(invalid)},
		{endAbort, 2}: {ok(CompleteAbort, 1, 2), ok(PrepareAbort, 1, 1), no(busy), no(busy), ok(CompleteAbort, 1, 2),
			ok(CompleteAbort, 1, 2)},
		{commitRetry, 2}: {no(fenced), no(fenced), no(busy), no(invalid), same, no(invalid)},
		{abortRetry, 2}:  {no(fenced), no(fenced), no(invalid), no(busy), no(invalid), same},
		{commitRetry, 1}: all(no(fenced)),
		{endNew, 1}:      all(no(fenced)),
		{endNew, 2}:      all(no(fenced)),
		{endOtherID, 1}:  all(no(mapping)),
		{endOtherID, 2}:  all(no(mapping)),

		{verifyIn, 1}:    {no(abortable), same, no(abortable), no(abortable), no(abortable), no(abortable)},
		{verifyNotIn, 1}: all(no(abortable)),
	} {
		for state, o := range want {
			state := State(state)
			t.Run(fmt.Sprint(k.request, " v", k.version, " in ", state), func(t *testing.T) {
				d := newDesk(t)
				d.bring(state, k.version)
				before, records := *d.state(), len(d.log)
				err := d.perform(k.request, k.version)
				if o.state == none {
					o.state = state
				}
				got := outcome{err, d.state().state, d.state().epoch - before.epoch, len(d.log) - records}
				if got != o {
					t.Errorf("%+v, want %+v", got, o)
				}
			})
		}
	}
}

func TestUnknownIDs(t *testing.T) {
	d := newDesk(t)
	if e := d.end(2, 7, 0, true).Err; e != kerr.InvalidProducerIDMapping {
		t.Error(e)
	}
	unknown := Add{ID: "x", ProducerID: 7, Version: 2, Partitions: []AddedPartition{{Partition: a(0)}}}
	if e := ask[Added](d, unknown).Err; e != kerr.InvalidProducerIDMapping {
		t.Error(e)
	}
	if e := ask[Verified](d, Verify{"x", 7, 0, []AddedPartition{{Partition: a(0)}}}).Errs[0]; e != kerr.InvalidProducerIDMapping {
		t.Error(e)
	}
	if e := ask[Identity](d, End{Version: 2}).Err; e != kerr.InvalidRequest {
		t.Error(e)
	}
	// A new id, whatever the request names.
	if got := d.init(777, 3); got.Err != nil || got.ProducerID != 100 || got.Epoch != 0 {
		t.Errorf("%+v", got)
	}
	for _, e := range []struct {
		init InitProducerID
		want *kerr.Error
	}{
		{InitProducerID{ID: "", Timeout: 1, ProducerID: none, Epoch: none}, kerr.InvalidRequest},
		{InitProducerID{ID: "x", Timeout: 1, ProducerID: 5, Epoch: none}, kerr.InvalidRequest},
		{InitProducerID{ID: "x", Timeout: 1, ProducerID: none, Epoch: 5}, kerr.InvalidRequest},
		{InitProducerID{ID: "x", Timeout: 0, ProducerID: none, Epoch: none}, kerr.InvalidTransactionTimeout},
		{InitProducerID{ID: "x", Timeout: 900_001, ProducerID: none, Epoch: none}, kerr.InvalidTransactionTimeout},
	} {
		if got := ask[Identity](d, e.init); got.Err != e.want || got.ProducerID != none || got.Epoch != none {
			t.Errorf("%+v: %+v", e.init, got)
		}
	}
	if e, ok := d.got[d.send("nonsense")].(error); !ok {
		t.Error(e)
	}
}

// The source of producer ids fails: nothing changes, and the client tries again.
func TestNoProducerID(t *testing.T) {
	d := newDesk(t)
	d.noPID = errors.New("no controller")
	if got := d.init(none, none); got.Err != kerr.CoordinatorNotAvailable || len(d.log) > 0 {
		t.Errorf("%+v, %d records", got, len(d.log))
	}
	d.noPID = nil
	d.bring(Ongoing, 2)
	d.shard.ids["x"].epoch = maxEpoch
	d.log = append(d.log, d.record())
	d.noPID = errors.New("no controller")
	if got := d.end(2, 100, maxEpoch, true); got.Err != kerr.CoordinatorNotAvailable || d.state().state != Ongoing {
		t.Errorf("%+v, %v", got, d.state().state)
	}
	d.noPID = nil
	if got := d.end(2, 100, maxEpoch, true); got != (Identity{nil, 101, 0}) {
		t.Errorf("%+v", got)
	}
}

// A transaction from its first record to its last marker, as its markers show it.
func TestMarkersOfATransaction(t *testing.T) {
	for version, epoch := range map[int16]int16{1: 3, 2: 4} {
		d := newDesk(t)
		d.bring(Ongoing, version)
		d.add(version, Partition{"b", 2})
		d.end(version, 100, 3, true)
		marker := fmt.Sprintf(" pid 100 epoch %d commit true v%d ce 1", epoch, version)
		if diff := cmp.Diff([]string{"a-0" + marker, "a-1" + marker, "b-2" + marker}, sentMarkers(d)); diff != "" {
			t.Error(diff)
		}
		last := d.sent[2]
		d.sent = d.sent[:2]
		d.answer(nil)
		if d.state().state != PrepareCommit {
			t.Fatalf("%v with a marker missing", d.state().state)
		}
		d.handle(0, resultOf(last, nil), false)
		if v := d.state(); v.state != CompleteCommit || len(v.partitions) != 0 || v.epoch != epoch {
			t.Errorf("%+v", v)
		}
		d.handle(0, resultOf(last, nil), false) // again
	}
}

// A fence raises the epoch in both protocols. The producer may ask for the new one, and another
// one gets the one after it.
func TestFence(t *testing.T) {
	for version := int16(1); version <= 2; version++ {
		for _, claims := range []bool{true, false} {
			d := newDesk(t)
			d.bring(Ongoing, version)
			pid, epoch := int64(none), int16(none)
			if claims {
				pid, epoch = 100, 3
			}
			if got := d.init(pid, epoch); got.Err != kerr.ConcurrentTransactions {
				t.Fatal(got)
			}
			marker := fmt.Sprintf(" pid 100 epoch 4 commit false v%d ce 1", version)
			if diff := cmp.Diff([]string{"a-0" + marker, "a-1" + marker}, sentMarkers(d)); diff != "" {
				t.Error(diff)
			}
			if got := d.end(version, 100, 3, true); got.Err == nil {
				t.Error("a fenced producer has committed")
			}
			d.answer(nil)
			want := Identity{nil, 100, 5}
			if claims {
				want.Epoch = 4
			}
			if got := d.init(pid, epoch); got != want {
				t.Errorf("claims %t: %+v", claims, got)
			}
		}
	}
}

// A request that waits for the end of the transaction is answered with it, in the same batch.
func TestParkedRequests(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.MaxPark = time.Second })
	d.bring(PrepareCommit, 2)
	e := d.addOf(2, a(0))
	e.Deadline = d.now.Add(10 * time.Second)
	add := d.send(e)
	init := d.send(InitProducerID{ID: "x", Timeout: 60_000, ProducerID: 100, Epoch: 4})
	d.advance(time.Second)
	if got := d.got[init]; got != (Identity{kerr.ConcurrentTransactions, none, none}) {
		t.Errorf("%+v", got)
	}
	if got := d.got[add]; got != nil {
		t.Errorf("%+v", got)
	}
	before := len(d.log)
	d.answer(nil)
	if got := d.got[add]; got != (Added{nil, 1}) || len(d.log) != before+2 || d.state().state != Ongoing {
		t.Errorf("%+v, %d records, %v", got, len(d.log)-before, d.state().state)
	}
	d.end(2, 100, 4, true)
	late := d.addOf(2, a(0))
	late.Deadline = d.now.Add(time.Second)
	add = d.send(late)
	init = d.send(InitProducerID{ID: "x", Timeout: 60_000, ProducerID: none, Epoch: none})
	d.answer(nil)
	if got := d.got[add]; got != (Added{nil, 1}) {
		t.Errorf("%+v", got)
	}
	d.answer(nil) // the init behind it has fenced the new transaction
	if got := d.got[init]; got != (Identity{nil, 100, 7}) || d.state().state != Empty {
		t.Errorf("%+v, %v", got, d.state().state)
	}
	d.advance(time.Minute)
}

// Every failure of a marker is repeated, less and less often, and at once when the leader changes.
func TestMarkersAreRepeated(t *testing.T) {
	d := newDesk(t)
	d.bring(PrepareCommit, 2)
	for _, err := range []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.NotLeaderForPartition, kerr.KafkaStorageError,
		kerr.InvalidProducerEpoch, kerr.TransactionCoordinatorFenced, kerr.NotEnoughReplicas, kerr.RequestTimedOut} {
		d.answer(err)
		if len(d.sent) > 0 || d.state().state != PrepareCommit {
			t.Fatalf("after %v: %v, sent %v", err, d.state().state, d.sent)
		}
		d.advance(mostPause)
		if len(d.sent) != 2 {
			t.Fatalf("after %v: sent %v", err, d.sent)
		}
	}
	d.advance(time.Hour)
	if len(d.sent) != 2 {
		t.Errorf("%d markers before the first was answered", len(d.sent))
	}
	d.answer(kerr.NotLeaderForPartition)
	d.change("b")
	if len(d.sent) != 0 {
		t.Errorf("%v", d.sent)
	}
	d.change("a")
	if len(d.sent) != 2 {
		t.Errorf("%v", d.sent)
	}
	d.answer(nil)
	if d.state().state != CompleteCommit {
		t.Error(d.state().state)
	}
}

// Only the coordinator's own metadata removes a partition from a transaction.
func TestDeletedTopics(t *testing.T) {
	d := newDesk(t)
	d.bring(Ongoing, 2)
	d.add(2, Partition{"b", 0})
	delete(d.topics, "b")
	d.change()
	d.end(2, 100, 3, true)
	if len(d.sent) != 2 {
		t.Fatalf("%v", sentMarkers(d))
	}
	d.topics["b"] = 1 // created again: nothing of it is in the transaction
	d.answer(kerr.UnknownTopicOrPartition)
	delete(d.topics, "a")
	d.change()
	if d.state().state != CompleteCommit {
		t.Error(d.state().state)
	}
	d.topics["a"] = 2
	e := d.addOf(2, a(0), Partition{"b", 0})
	if got := ask[Added](d, e).Err; got != kerr.UnknownTopicOrPartition || d.state().state != CompleteCommit {
		t.Errorf("an unknown partition was added: %v, %v", got, d.state().state)
	}
	d.change()
	d.bring(PrepareAbort, 2)
	delete(d.topics, "a")
	d.change() // while the markers are on the way
	if d.state().state != PrepareAbort {
		t.Error(d.state().state)
	}
	d.topics["a"] = 102
	d.change()
	d.answer(kerr.UnknownTopicOrPartition)
	if d.state().state != CompleteAbort {
		t.Error(d.state().state)
	}
}

// Before KIP-890, the next transaction has the same epoch. A marker on the way would end it in a
// topic that was created again.
func TestAMarkerOnTheWayToADeletedTopicHasAResultFirst(t *testing.T) {
	for _, result := range []*kerr.Error{nil, kerr.NetworkException} {
		d := newDesk(t)
		d.bring(PrepareCommit, 1)
		delete(d.topics, "a")
		d.change()
		d.topics["a"] = 102
		d.change("a")
		if got := ask[Added](d, d.addOf(1, a(0))).Err; got != kerr.ConcurrentTransactions || len(d.sent) != 2 {
			t.Errorf("the next transaction begins while the marker is on the way: %v", got)
		}
		d.answer(result)
		d.add(1, a(0))
	}
}

// The metadata of the coordinator are behind those of a partition's leader, which has a topic that
// was created again: to them, its records would be those of a deleted topic, which need no marker.
func TestOfATopicThatWasMadeAnew(t *testing.T) {
	for version := int16(1); version <= 2; version++ {
		for _, behind := range []int32{0, 3} { // the topic is away, or the former one is there
			d := newDesk(t)
			d.bring(Ongoing, version)
			d.topics["a"] = 103
			add := d.addOf(version, a(0))
			verify := Verify{"x", add.ProducerID, add.Epoch, add.Partitions}
			d.topics["a"] = behind
			d.change()
			if got := ask[Added](d, add).Err; got != kerr.UnknownTopicOrPartition {
				t.Errorf("version %d, %d: a partition of an unknown topic joins: %v", version, behind, got)
			}
			if got := ask[Verified](d, verify).Errs[0]; got != kerr.UnknownTopicOrPartition {
				t.Errorf("version %d, %d: a partition of an unknown topic was verified: %v", version, behind, got)
			}
			d.topics["a"] = 103
			d.change()
			if got := ask[Added](d, add).Err; got != nil {
				t.Errorf("version %d: %v", version, got)
			}
			if got := ask[Verified](d, verify).Errs[0]; got != nil {
				t.Errorf("version %d: %v", version, got)
			}
			if got := d.shard.ids["x"].live.of(0); got.topic != d.topics.ID("a") {
				t.Errorf("version %d: %+v is of the former topic", version, got)
			}
			d.end(version, 100, 3, true)
			if len(d.sent) != 1 || d.sent[0].(WriteMarker).Partition != a(0) { // a-1 was of the former one
				t.Errorf("version %d: %v", version, sentMarkers(d))
			}
		}
	}
}

// A topic was deleted and created again since its partitions joined the transaction.
func TestNoMarkerForALaterTopicOfTheName(t *testing.T) {
	for version := int16(1); version <= 2; version++ {
		t.Run(fmt.Sprint("before the end, version ", version), func(t *testing.T) {
			d := newDesk(t)
			d.bring(Ongoing, version)
			d.topics["a"] = 102
			d.change("a")
			if got := d.end(version, 100, 3, true); got.Err != nil || len(d.sent) > 0 || d.state().state != CompleteCommit {
				t.Errorf("%v, %v, %s", got.Err, sentMarkers(d), d.state().state)
			}
		})
		t.Run(fmt.Sprint("between two attempts, version ", version), func(t *testing.T) {
			d := newDesk(t)
			d.bring(PrepareAbort, version)
			d.answer(kerr.NotLeaderForPartition)
			d.topics["a"] = 102
			d.change("a")
			if len(d.sent) > 0 || d.state().state != CompleteAbort {
				t.Errorf("%v, %s", sentMarkers(d), d.state().state)
			}
		})
		t.Run(fmt.Sprint("while it is on the way, version ", version), func(t *testing.T) {
			d := newDesk(t)
			d.bring(PrepareAbort, version)
			d.topics["a"] = 102
			d.change("a")
			if d.state().state != PrepareAbort {
				t.Errorf("%s before the result", d.state().state)
			}
			d.answer(kerr.UnknownTopicOrPartition)
			if len(d.sent) > 0 || d.state().state != CompleteAbort {
				t.Errorf("%v, %s", sentMarkers(d), d.state().state)
			}
		})
	}
	t.Run("a client added it by name, and its leader asked", func(t *testing.T) {
		d := newDesk(t)
		d.bring(Empty, 1)
		add := d.addOf(1, a(0), a(1))
		verify := Verify{"x", add.ProducerID, add.Epoch, slices.Clone(add.Partitions[:1])}
		for i := range add.Partitions {
			add.Partitions[i].TopicID = [16]byte{}
		}
		if got := ask[Added](d, add).Err; got != nil {
			t.Fatal(got)
		}
		if got := ask[Verified](d, verify).Errs[0]; got != nil {
			t.Fatal(got)
		}
		d.topics["a"] = 102
		d.change("a")
		d.end(1, add.ProducerID, add.Epoch, true)
		if len(d.sent) > 0 { // both were of the former one
			t.Errorf("%v", sentMarkers(d))
		}
	})
	t.Run("the later one is in the transaction too", func(t *testing.T) {
		d := newDesk(t)
		d.bring(Ongoing, 1)
		d.topics["a"] = 102
		d.change("a")
		add := d.addOf(1, a(1))
		verify := Verify{"x", add.ProducerID, add.Epoch, add.Partitions}
		if got := ask[Verified](d, verify).Errs[0]; got != nil {
			t.Fatal(got)
		}
		d.end(1, add.ProducerID, add.Epoch, true)
		if len(d.sent) != 1 || d.sent[0].(WriteMarker).Partition != a(1) {
			t.Errorf("%v", sentMarkers(d))
		}
	})
	t.Run("a commit waits for no record of a former topic", func(t *testing.T) {
		d := newDesk(t)
		d.bring(Ongoing, 2)
		d.add(2, Partition{"weak", 1})
		d.topics["weak"] += 100
		d.change("weak")
		d.end(2, 100, 3, true)
		if got := sentMarkers(d); len(got) != 2 {
			t.Errorf("%v", got)
		}
	})
}

// A commit waits until the records of weak topics are durable, and other partitions are not asked.
func TestFlushBeforeCommit(t *testing.T) {
	w := Partition{"weak", 1}
	commit := End{ID: "x", ProducerID: 100, Epoch: 3, Commit: true, Version: 2}
	start := func(t *testing.T) *desk {
		d := newDesk(t)
		d.topics["leader of weak"] = 6
		d.change()
		d.bring(Ongoing, 2)
		d.add(2, w)
		return d
	}
	t.Run("flushed", func(t *testing.T) {
		d := start(t)
		to := d.send(commit)
		if len(d.sent) != 1 || d.sent[0].(Flush).Partition != w || d.sent[0].(Flush).LeaderEpoch != 6 || d.got[to] != nil {
			t.Fatalf("%+v", d.sent)
		}
		if got := d.end(2, 100, 3, true).Err; got != kerr.ConcurrentTransactions {
			t.Error(got)
		}
		d.answer(kerr.NotLeaderForPartition)
		d.advance(firstPause)
		d.answer(nil)
		if got := d.got[to]; got != (Identity{nil, 100, 4}) || d.state().state != PrepareCommit || len(d.sent) != 3 {
			t.Errorf("%+v, %v", got, d.state().state)
		}
	})
	t.Run("lost", func(t *testing.T) {
		d := start(t)
		to, request := d.send(commit), d.sent[0].(Flush)
		d.topics.elect("weak", true)
		d.change("weak")
		d.handle(0, Flushed{Flush: request, Err: kerr.NotLeaderForPartition}, false)
		d.advance(firstPause)
		if f := d.sent[1].(Flush); f.LeaderEpoch != 7 {
			t.Errorf("%+v", f)
		}
		request.LeaderEpoch = 7
		d.handle(0, Flushed{Flush: request}, false)
		if got := d.got[to]; got != (Identity{kerr.TransactionAbortable, none, none}) || d.state().state != PrepareAbort {
			t.Fatalf("%+v, %v", got, d.state().state)
		}
		d.handle(0, Flushed{Flush: request}, false) // counts for no later commit
		if got := d.end(2, 100, 3, true).Err; got != kerr.InvalidTxnState {
			t.Errorf("a late copy of the commit: %v", got)
		}
		for d.state().state != CompleteAbort {
			d.answer(nil)
		}
		if got := d.end(2, 100, 3, false); got != (Identity{nil, 100, 4}) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("abort", func(t *testing.T) {
		d := start(t)
		if got := d.end(2, 100, 3, false); got.Err != nil || d.state().state != PrepareAbort {
			t.Errorf("%+v", got)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		d := start(t)
		to, request := d.send(commit), d.sent[0]
		d.advance(time.Minute)
		if got := d.got[to]; got != (Identity{kerr.ProducerFenced, none, none}) || d.state().state != PrepareAbort {
			t.Fatalf("%+v, %v", got, d.state().state)
		}
		d.answer(nil)
		d.add(2, w)
		d.handle(0, resultOf(request, nil), false)
		if d.state().state != Ongoing {
			t.Error("a late flush has committed the next transaction")
		}
	})
	t.Run("deleted", func(t *testing.T) {
		d := start(t)
		to := d.send(commit)
		delete(d.topics, "weak")
		d.change()
		if got := d.got[to]; got != (Identity{nil, 100, 4}) || d.state().state != PrepareCommit {
			t.Errorf("%+v, %v", got, d.state().state)
		}
	})
	t.Run("reload", func(t *testing.T) { // the client asks again
		d := start(t)
		d.send(commit)
		d.reload()
		to := d.send(commit)
		d.answer(nil)
		if got := d.got[to]; got != (Identity{nil, 100, 4}) {
			t.Errorf("%+v", got)
		}
	})
}

func TestTimeout(t *testing.T) {
	for version := int16(1); version <= 2; version++ {
		d := newDesk(t)
		d.bring(Ongoing, version)
		d.advance(59 * time.Second)
		d.add(version, a(2)) // does not extend it
		d.advance(999 * time.Millisecond)
		if d.state().state != Ongoing {
			t.Error("too early")
		}
		d.advance(time.Millisecond)
		if v := d.state(); v.state != PrepareAbort || v.epoch != 4 {
			t.Errorf("%+v", v)
		}
		if got := d.end(version, 100, 3, true).Err; got == nil {
			t.Error("a fenced producer has committed")
		}
		d.answer(nil)
		d.add(version, a(0))
		d.end(version, 100, 4, true)
		d.answer(nil)
		d.advance(time.Hour)
		if v := d.state(); v.state != CompleteCommit {
			t.Errorf("%+v", v)
		}
	}
}

// After a load, an open transaction has the time that is left, at least 5 s, at most all of it.
func TestTimeoutAfterALoad(t *testing.T) {
	for after, left := range map[time.Duration]time.Duration{
		20 * time.Second: 40 * time.Second, time.Hour: minTimeLeft, 57 * time.Second: minTimeLeft, -time.Hour: time.Minute,
	} {
		d := newDesk(t)
		d.bring(Ongoing, 2)
		d.now = d.now.Add(after)
		d.reload()
		d.advance(left - time.Millisecond)
		if d.state().state != Ongoing {
			t.Errorf("after %v: too early", after)
		}
		d.advance(time.Millisecond)
		if d.state().state != PrepareAbort {
			t.Errorf("after %v: too late", after)
		}
	}
}

// A load in each state: markers are sent again in the new epoch, and answers to the former
// coordinator count for nothing.
func TestLoadInEveryState(t *testing.T) {
	for state := Empty; state <= CompleteAbort; state++ {
		d := newDesk(t)
		d.bring(state, 2)
		before := *d.state()
		late := d.sent
		d.reload()
		for _, r := range late {
			d.handle(0, resultOf(r, nil), false)
		}
		if diff := cmp.Diff(before, *d.state(), cmp.AllowUnexported(value{})); diff != "" {
			t.Errorf("%v: %s", state, diff)
		}
		var want []string
		if state.prepared() {
			marker := fmt.Sprintf(" pid 100 epoch 4 commit %t v2 ce 2", state == PrepareCommit)
			want = []string{"a-0" + marker, "a-1" + marker}
		}
		if diff := cmp.Diff(want, sentMarkers(d)); diff != "" {
			t.Errorf("%v: %s", state, diff)
		}
		d.answer(nil)
		if state.prepared() && !d.state().state.complete() {
			t.Errorf("%v is now %v", state, d.state().state)
		}
	}
}

// Decided transactions without partitions, or with deleted ones only, need no marker after a load.
func TestLoadOfATransactionWithoutMarkers(t *testing.T) {
	d := newDesk(t)
	d.bring(PrepareCommit, 2)
	d.topics = fakeTopics{}
	d.reload()
	d.answer(kerr.UnknownTopicOrPartition) // they left before the metadata came
	if d.state().state != CompleteCommit {
		t.Error(d.state().state)
	}
}

func TestOldestTransactionFirst(t *testing.T) {
	d := newDesk(t)
	for _, id := range []string{"b", "c", "a"} {
		pid := ask[Identity](d, InitProducerID{ID: id, Timeout: 60_000, ProducerID: none, Epoch: none}).ProducerID
		ask[Added](d, Add{ID: id, ProducerID: pid, Version: 2, Partitions: []AddedPartition{{Partition: a(0)}}})
		d.advance(time.Second)
		ask[Identity](d, End{ID: id, ProducerID: pid, Version: 2, Commit: true})
	}
	d.reload()
	var order []string
	for _, r := range d.sent {
		order = append(order, r.(WriteMarker).ID)
	}
	if !slices.Equal(order, []string{"b", "c", "a"}) {
		t.Error(order)
	}
}

func TestExpiry(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.MaxTimeout = 30 * 24 * time.Hour })
	for state := Empty; state <= CompleteAbort; state++ {
		d := newDesk(t, func(c *Config) { c.MaxTimeout = 30 * 24 * time.Hour })
		ask[Identity](d, InitProducerID{ID: "x", Timeout: 1<<31 - 1, ProducerID: none, Epoch: none})
		if state != Empty {
			d.add(2, a(0))
		}
		if state > Ongoing {
			d.end(2, 100, 0, state.commits())
		}
		if state.complete() {
			d.answer(nil)
		}
		d.advance(7*24*time.Hour - time.Millisecond)
		if d.shard.ids["x"] == nil {
			t.Fatalf("%v: too early", state)
		}
		d.advance(time.Hour)
		if gone := d.shard.ids["x"] == nil; gone != (state == Empty || state.complete()) {
			t.Errorf("%v: gone %t", state, gone)
		}
	}
	d.trusts = true
	for i := range maxTombstones + 1 {
		ask[Identity](d, InitProducerID{ID: fmt.Sprint(i), Timeout: 60_000, ProducerID: none, Epoch: none})
	}
	before := len(d.log)
	d.advance(7*24*time.Hour + time.Hour)
	if len(d.shard.ids) > 0 || len(d.log)-before != maxTombstones+1 {
		t.Errorf("%d ids, %d tombstones", len(d.shard.ids), len(d.log)-before)
	}
	if got := d.init(100, 0); got.ProducerID <= 100+maxTombstones {
		t.Errorf("%+v: an id that was used", got)
	}
}
