package sharestate

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// history is a shard of a test, with one share partition.
type history struct {
	*testing.T
	*desk
}

// begin returns a shard with a state that begins at an offset.
func begin(t *testing.T, start int64) history {
	h := history{t, newDesk(config())}
	h.init(1, start, nil)
	t.Cleanup(func() {
		if h.check(); h.wrong != "" {
			t.Error(h.wrong)
		}
	})
	return h
}

// init initialises the state, which must have a result.
func (h history) init(epoch int32, start int64, want *kerr.Error) {
	h.Helper()
	if got := ask[[]*kerr.Error](h.desk, Initialize{{keyOf(0), epoch, start, 0}}); got[0] != want {
		h.Errorf("initialize with epoch %d and start %d: %v, want %v", epoch, start, got[0], want)
	}
}

// opens returns an opening after a peek.
func (h history) opens(leader int32, cut int64) Opening {
	h.Helper()
	p := ask[[]Peeked](h.desk, Peek{keyOf(0)})[0]
	if p.Err != nil {
		h.Fatalf("peek: %v", p.Err)
	}
	return Opening{Key: keyOf(0), ID: p.ID, Recorded: p.Leader, Leader: leader, Cut: cut, Epochs: beginning(leader), Start: 0}
}

// beginning returns the leader epochs of a log that begins with one.
func beginning(epoch int32) (of epochs.Cache) {
	of.Assign(epoch, 0)
	return of
}

// open opens the state.
func (h history) open(o Opening, want *kerr.Error) window.Stored {
	h.Helper()
	got := ask[[]Opened](h.desk, Open{o})[0]
	if got.Err != want {
		h.Errorf("open %+v: %v, want %v", o, got.Err, want)
	}
	return got.Stored
}

// of returns a writing of the leader that has opened the state.
func of(o Opening, start int64, marks ...window.Mark) Writing {
	return Writing{Key: o.Key, ID: o.ID, Leader: o.Leader, Start: start, Marks: marks}
}

// write stores a write, which must have a result.
func (h history) write(w Writing, want *kerr.Error) {
	h.Helper()
	if got := ask[[]*kerr.Error](h.desk, Write{w}); got[0] != want {
		h.Errorf("write %+v: %v, want %v", w, got[0], want)
	}
}

// stores compares what is stored, before and after a load.
func (h history) stores(start int64, marks ...window.Mark) {
	h.Helper()
	for _, when := range []string{"", " after a load"} {
		st := h.s.states[keyOf(0)]
		if st == nil {
			h.Fatalf("there is no state%s", when)
		}
		got := st.stored()
		if got.Start != start || !slices.Equal(got.Marks, marks) {
			h.Errorf("stored%s: %+v, want %d %v", when, got, start, marks)
		}
		h.crash(0)
	}
}

func mark(first, last int64, s window.State, count int) window.Mark {
	return window.Mark{First: first, Last: last, State: s, Count: count}
}

// History 2: the answer to a repetition changes nothing in the log. It waits for the first copy,
// which may be rolled back.
func TestHistory02ARepetitionWaitsForTheFirstCopy(t *testing.T) {
	h := begin(t, 0)
	o := h.opens(1, -1)
	h.open(o, nil)
	var answers []any
	keep := func(r any) { answers = append(answers, r) }
	w := of(o, 0, mark(0, 9, window.Acknowledged, 1))
	h.submit(Write{w}, keep)
	h.submit(Write{w}, keep)
	h.submit(Peek{keyOf(0)}, keep)
	h.submit(Summarize{keyOf(0)}, keep)
	if len(answers) > 0 {
		t.Errorf("answered before the records are committed: %v", answers)
	}
	h.crash(0)
	h.stores(0)
	if len(answers) > 0 {
		t.Errorf("answered after the records are lost: %v", answers)
	}
}

// History 3: after the next leader has loaded the state, the former one stores nothing.
func TestHistory03AFormerLeaderStoresNothing(t *testing.T) {
	h := begin(t, 0)
	former := h.opens(1, -1)
	h.open(former, nil)
	h.write(of(former, 0, mark(0, 9, window.Available, 1)), nil)
	next := h.opens(2, 100)
	if got := h.open(next, nil); !cmp.Equal(got.Marks, []window.Mark{mark(0, 9, window.Available, 1)}) {
		t.Errorf("loaded %+v", got)
	}
	h.write(of(former, 0, mark(0, 9, window.Acknowledged, 1)), kerr.FencedLeaderEpoch)
	h.open(former, kerr.FencedLeaderEpoch)
	h.stores(0, mark(0, 9, window.Available, 1))
}

// History 4: locks end at the former leader when the next one has had an acknowledgement. The count
// of the former one may be the higher one.
func TestHistory04AFormerLeaderReleasesNothing(t *testing.T) {
	h := begin(t, 0)
	former := h.opens(1, -1)
	h.open(former, nil)
	next := h.opens(2, 100)
	h.open(next, nil)
	h.write(of(next, 0, mark(0, 9, window.Acknowledged, 1)), nil)
	for count := range 3 {
		h.write(of(former, 0, mark(0, 9, window.Available, count+1)), kerr.FencedLeaderEpoch)
	}
	h.stores(0, mark(0, 9, window.Acknowledged, 1))
}

// History 5: the load alone fences the former leader, although the next one has written nothing.
func TestHistory05ALoadFences(t *testing.T) {
	h := begin(t, 0)
	former := h.opens(1, -1)
	h.open(former, nil)
	h.open(h.opens(2, 100), nil)
	h.crash(0)
	h.write(of(former, 0, mark(0, 9, window.Acknowledged, 1)), kerr.FencedLeaderEpoch)
	// A leader that opened the state before it knew of the next one cannot do so again.
	late := h.opens(1, -1)
	if late.Recorded != 2 {
		t.Errorf("recorded leader epoch %d", late.Recorded)
	}
	h.open(late, kerr.FencedLeaderEpoch)
	h.stores(0)
}

// History 6: the offsets are altered. A write of the memory before is refused.
func TestHistory06AWriteAfterAnAlter(t *testing.T) {
	h := begin(t, 0)
	o := h.opens(1, -1)
	h.open(o, nil)
	h.write(of(o, 5, mark(6, 9, window.Acknowledged, 1)), nil)
	h.init(2, 3, nil)
	h.stores(3)
	h.write(of(o, 7, mark(8, 9, window.Acknowledged, 1)), kerr.FencedStateEpoch)
	h.open(o, kerr.FencedStateEpoch)
	h.init(2, 3, nil) // a repetition
	h.init(2, 4, kerr.FencedStateEpoch)
	h.init(1, 3, kerr.FencedStateEpoch)
	h.stores(3)
}

// History 7: a group is deleted and created again in the same millisecond, with the same epoch.
func TestHistory07AWriteAfterTheGroupBeganAgain(t *testing.T) {
	h := begin(t, -1)
	o := h.opens(1, -1)
	h.open(o, nil)
	if err := ask[[]*kerr.Error](h.desk, Delete{{keyOf(0), 0}}); err[0] != nil {
		t.Error(err[0])
	}
	h.init(1, -1, nil)
	again := h.opens(1, -1)
	if again.ID == o.ID {
		t.Errorf("both states have the identity %+v", o.ID)
	}
	h.write(of(o, 7, mark(8, 9, window.Acknowledged, 1)), kerr.FencedStateEpoch)
	h.open(again, nil)
	h.write(of(o, 7, mark(8, 9, window.Acknowledged, 1)), kerr.FencedStateEpoch)
	h.stores(0)
}

// The clock stands still or goes back, and the tombstone is the last record of the first state.
func TestHistory07TheClockGoesBack(t *testing.T) {
	h := begin(t, -1)
	seen := map[Identity]bool{h.opens(1, -1).ID: true}
	for range 3 {
		ask[[]*kerr.Error](h.desk, Delete{{keyOf(0), 0}})
		h.clock -= 100
		h.crash(0)
		h.init(1, -1, nil)
		id := h.opens(1, -1).ID
		if seen[id] {
			t.Errorf("identity %+v is used again", id)
		}
		seen[id] = true
	}
}

// History 8: a late copy of an open cannot raise the epoch of the state of a new group.
func TestHistory08ALateOpenAfterTheGroupBeganAgain(t *testing.T) {
	h := begin(t, -1)
	o := h.opens(5, -1)
	h.open(o, nil)
	ask[[]*kerr.Error](h.desk, Delete{{keyOf(0), 0}})
	h.init(1, -1, nil)
	h.open(o, kerr.FencedStateEpoch)
	if p := ask[[]Peeked](h.desk, Peek{keyOf(0)})[0]; p.Leader != -1 || p.Started {
		t.Errorf("%+v", p)
	}
}

// History 9: a late copy of an earlier mark.
func TestHistory09NoMarkIsReplacedByALowerOne(t *testing.T) {
	h := begin(t, 0)
	o := h.opens(1, -1)
	h.open(o, nil)
	released := of(o, 0, mark(0, 9, window.Available, 1))
	h.write(released, nil)
	h.write(of(o, 0, mark(3, 4, window.Acknowledged, 1), mark(6, 6, window.Archiving, 1)), nil)
	h.write(released, kerr.FencedStateEpoch)
	h.write(of(o, 0, mark(6, 6, window.Archived, 1)), nil)
	h.write(of(o, 0, mark(6, 6, window.Archiving, 1)), kerr.FencedStateEpoch)
	h.write(of(o, 0, mark(0, 2, window.Available, 0)), kerr.FencedStateEpoch)
	h.stores(0, mark(0, 2, window.Available, 1), mark(3, 4, window.Acknowledged, 1), mark(5, 5, window.Available, 1),
		mark(6, 6, window.Archived, 1), mark(7, 9, window.Available, 1))
}

// History 10: a late copy with a lower start, whose marks are gone already.
func TestHistory10TheStartNeverMovesBack(t *testing.T) {
	h := begin(t, 0)
	o := h.opens(1, -1)
	h.open(o, nil)
	late := of(o, 0, mark(2, 4, window.Acknowledged, 1))
	h.write(late, nil)
	h.write(of(o, 5, mark(0, 4, window.Acknowledged, 1)), nil)
	h.write(late, kerr.FencedStateEpoch)
	h.stores(5)
}

// History 11: a leader loads again, and its own late write arrives. Success for a write of which a
// part is ignored would answer an acknowledgement that is not stored.
func TestHistory11AnOutrankedWriteIsRefused(t *testing.T) {
	h := begin(t, 0)
	o := h.opens(1, -1)
	h.open(o, nil)
	late := of(o, 0, mark(5, 5, window.Available, 2))
	again := h.opens(1, 10)
	h.open(again, nil)
	h.write(late, nil)
	h.write(of(again, 0, mark(4, 4, window.Acknowledged, 1), mark(5, 5, window.Acknowledged, 1)), kerr.FencedStateEpoch)
	h.stores(0, mark(5, 5, window.Available, 2))
}

// History 13: the log loses records whose acknowledgements are stored, and others get their
// offsets. History 14: it loses even more than the group has finished.
func TestHistory13MarksOfLostRecordsAreCut(t *testing.T) {
	h := begin(t, 0)
	o := h.opens(1, -1)
	h.open(o, nil)
	h.write(of(o, 100, mark(103, 110, window.Acknowledged, 1)), nil)
	next := h.opens(2, 105)
	if got := h.open(next, nil); got.Start != 100 || !slices.Equal(got.Marks, []window.Mark{mark(103, 104, window.Acknowledged, 1)}) {
		t.Errorf("loaded %+v", got)
	}
	h.stores(100, mark(103, 104, window.Acknowledged, 1))
	if s := ask[[]Summary](h.desk, Summarize{keyOf(0)})[0]; s.Complete != 2 || s.Leader != 2 {
		t.Errorf("%+v", s)
	}
	h.write(of(next, 100, mark(105, 105, window.Available, 1)), nil)
}

func TestHistory14AnElectionBelowTheStart(t *testing.T) {
	h := begin(t, 0)
	o := h.opens(1, -1)
	h.open(o, nil)
	h.write(of(o, 100, mark(103, 110, window.Acknowledged, 1)), nil)
	if got := h.open(h.opens(2, 90), nil); got.Start != 90 || len(got.Marks) > 0 {
		t.Errorf("loaded %+v", got)
	}
	h.stores(90)
}

// History 15: the coordinator crashes after the record of an open. There is no other one that the
// cut could miss.
func TestHistory15TheCutIsInTheRecordOfTheOpen(t *testing.T) {
	h := begin(t, 0)
	o := h.opens(1, -1)
	h.open(o, nil)
	h.write(of(o, 0, mark(3, 10, window.Acknowledged, 1)), nil)
	before := len(h.log)
	h.submit(Open{h.opens(2, 5)}, func(any) {})
	if got := h.kinds(before); got != "s" {
		t.Errorf("the open has the records %q", got)
	}
	h.crash(1)
	h.stores(0, mark(3, 4, window.Acknowledged, 1))
}

// A late copy of an open of which the leader has had the answer. Its cut is too low by now.
func TestHistory16ALateOpenOfAnEarlierEpoch(t *testing.T) {
	h := begin(t, 0)
	h.open(h.opens(1, -1), nil)
	o := h.opens(2, 5)
	h.open(o, nil)
	h.write(of(o, 4, mark(5, 10, window.Acknowledged, 1)), nil)
	h.open(o, kerr.FencedLeaderEpoch)
	h.stores(4, mark(5, 10, window.Acknowledged, 1))
}

// History 17 has its part in the coordinator: where the group starts is stored by the open.
func TestHistory17TheStartIsStoredByTheOpen(t *testing.T) {
	h := begin(t, -1)
	o := h.opens(1, -1)
	o.Start = 42
	if got := h.open(o, nil); got.Start != 42 {
		t.Errorf("loaded %+v", got)
	}
	h.stores(42)
	next := h.opens(2, 60)
	next.Start = 60 // the log end is here now
	if got := h.open(next, nil); got.Start != 42 {
		t.Errorf("loaded %+v", got)
	}
	next.Recorded, next.Start = 2, -1 // not needed
	h.open(next, nil)
}

// History 26: the write that causes a snapshot is in it.
func TestHistory26ASnapshotHasItsWrite(t *testing.T) {
	h := begin(t, 0)
	o := h.opens(1, -1)
	h.open(o, nil)
	before := len(h.log)
	for i := range int64(8) {
		w := of(o, i, mark(i+1, i+1, window.Acknowledged, 1))
		w.Complete = 1
		h.write(w, nil)
	}
	if got := h.kinds(before); got != "uuusuuus" {
		t.Errorf("records %q", got)
	}
	h.begin = len(h.log) - 1 // only the snapshot
	h.stores(7, mark(7, 8, window.Acknowledged, 1))
	if s := ask[[]Summary](h.desk, Summarize{keyOf(0)})[0]; s.Complete != 1 || s.Start != 7 {
		t.Errorf("%+v", s)
	}
}

// History 27: the log is deleted up to the oldest snapshot that a load needs. States without a
// recent one get one.
func TestHistory27APruneKeepsIdleStates(t *testing.T) {
	h := begin(t, 0)
	ask[[]*kerr.Error](h.desk, Initialize{{keyOf(1), 1, 77, 0}})
	o := h.opens(1, -1)
	h.open(o, nil)
	busy := func(from int64) {
		for i := range int64(12) {
			h.write(of(o, from+i), nil)
		}
	}
	prune := func() int { return int(ask[Pruned](h.desk, Prune{int64(len(h.log))}).To) }
	busy(0)
	if to := prune(); to != -1 {
		t.Errorf("the first prune: %d", to)
	}
	mark := len(h.log)
	busy(12)
	before := len(h.log)
	if to := prune(); to != mark {
		t.Errorf("the log is deleted up to %d, want %d", to, mark)
	}
	if got := h.kinds(before); got != "s" {
		t.Errorf("a prune writes %q, want a snapshot of the idle state", got)
	}
	h.begin = mark
	h.stores(23)
	if s := ask[[]Summary](h.desk, Summarize{keyOf(1)})[0]; s.Err != nil || s.Start != 77 {
		t.Errorf("the idle state: %+v", s)
	}
	if h.checkPoints(); h.wrong != "" {
		t.Error(h.wrong)
	}
}

// The answer to a prune waits for the snapshots of the idle states.
func TestHistory27APruneWaitsForItsSnapshots(t *testing.T) {
	h := begin(t, 0)
	ask[Pruned](h.desk, Prune{1})
	answered := false
	h.submit(Prune{1}, func(any) { answered = true })
	if answered {
		t.Error("a prune is answered before its snapshots are committed")
	}
	h.commit()
	if !answered {
		t.Error("no answer")
	}
}

// Histories 6 and 46 together: a former leader opens the altered state first. The present one would
// then cut to the end of the former one's epoch, below the altered start.
func TestHistory46AFormerLeaderAfterAnAlter(t *testing.T) {
	h := begin(t, 0)
	h.open(h.opens(3, -1), nil)
	h.topics[keyOf(0).Topic] = 4 // which begins at 40
	h.init(2, 50, nil)
	h.open(h.opens(3, -1), kerr.FencedLeaderEpoch)
	if got := h.open(h.opens(4, 40), nil); got.Start != 50 {
		t.Errorf("loaded %+v", got)
	}
	h.stores(50)
}

// History 46: the offsets are altered, and the log loses records before a leader opens the state.
func TestHistory46NoCutBeforeTheFirstOpen(t *testing.T) {
	h := begin(t, 0)
	h.open(h.opens(3, -1), nil)
	h.init(2, 50, nil)
	if got := h.open(h.opens(4, 40), nil); got.Start != 50 {
		t.Errorf("loaded %+v", got)
	}
	h.stores(50)
}

// History 47: a topic is deleted and created again between Initialize and open.
func TestHistory47ATopicThatBeganAgain(t *testing.T) {
	h := begin(t, 10)
	again := keyOf(0)
	again.Topic[0]++
	h.topics = topics{again.Topic: 0}
	h.submit(TopicsChanged{h.topics, [][16]byte{keyOf(0).Topic}}, func(any) {})
	h.commit()
	got := ask[[]Peeked](h.desk, Peek{keyOf(0), again})
	if got[0].Err != kerr.UnknownTopicOrPartition || got[1].Err != kerr.InvalidRequest {
		t.Errorf("%+v", got)
	}
	if kinds := h.kinds(0); kinds != "st" || len(h.s.states) > 0 {
		t.Errorf("records %q, %d states", kinds, len(h.s.states))
	}
}

// History 48: the group is deleted while a write is under way.
func TestHistory48AWriteAfterTheGroupIsDeleted(t *testing.T) {
	h := begin(t, 0)
	o := h.opens(1, -1)
	h.open(o, nil)
	for range 2 { // the second one is a repetition
		if err := ask[[]*kerr.Error](h.desk, Delete{{keyOf(0), 0}}); err[0] != nil {
			t.Error(err[0])
		}
	}
	h.write(of(o, 1), kerr.InvalidRequest)
	h.open(o, kerr.InvalidRequest)
	if h.crash(0); len(h.s.states) > 0 || h.kinds(0) != "sst" {
		t.Errorf("%d states, records %q", len(h.s.states), h.kinds(0))
	}
}

// History 49: the answer to an Initialize is lost, and it is sent again when the group is further.
func TestHistory49AnInitializeLeavesAState(t *testing.T) {
	h := begin(t, -1)
	o := h.opens(1, -1)
	h.open(o, nil)
	h.write(of(o, 3, mark(4, 5, window.Acknowledged, 1)), nil)
	h.init(1, -1, nil)
	h.init(9, -1, nil)
	h.stores(3, mark(4, 5, window.Acknowledged, 1))
	h.write(of(o, 3, mark(6, 6, window.Acknowledged, 1)), nil)
}

// What a former coordinator of the group has sent comes late, after the present one has deleted the
// state or begun it again. What comes before the metadata of this broker have the present one waits
// for these: otherwise a request of the former one could follow it.
func TestLateRequestsOfAFormerGroupCoordinator(t *testing.T) {
	h := begin(t, 0)
	asks := func(event any, want *kerr.Error) {
		t.Helper()
		if got := ask[[]*kerr.Error](h.desk, event)[0]; got != want {
			t.Errorf("%+v: %v, want %v", event, got, want)
		}
	}
	late := []any{Delete{{keyOf(0), 0}}, Initialize{{keyOf(0), 9, 50, 0}}, Initialize{{keyOf(0), 1, -1, 0}},
		Initialize{{keyOf(0), 1, FromFirst, 0}}}
	for _, e := range []any{Delete{{keyOf(0), 1}}, Initialize{{keyOf(0), 9, 50, 1}}, Initialize{{keyOf(0), 1, -1, 1}}} {
		asks(e, kerr.NotCoordinator)
	}
	h.stores(0)
	h.topics[groups] = 1
	asks(Delete{{keyOf(0), 1}}, nil)
	for _, e := range late {
		asks(e, kerr.FencedLeaderEpoch)
		h.crash(0) // a tombstone leaves nothing that knows the present coordinator
		if p := ask[[]Peeked](h.desk, Peek{keyOf(0)})[0]; p.Err != kerr.InvalidRequest {
			t.Errorf("after a late %+v: %+v", e, p)
		}
	}
	asks(Initialize{{keyOf(0), 2, 3, 1}}, nil)
	o := h.opens(1, -1)
	h.open(o, nil)
	h.write(of(o, 7, mark(8, 9, window.Acknowledged, 1)), nil)
	for _, e := range late {
		asks(e, kerr.FencedLeaderEpoch)
		h.stores(7, mark(8, 9, window.Acknowledged, 1))
	}
	h.write(of(o, 10), nil)
	asks(Initialize{{keyOf(0), 3, 4, AnyCoordinator}}, nil) // of a tool, or of an earlier version
	asks(Delete{{keyOf(0), AnyCoordinator}}, nil)
	h.topics[groups] = -1
	asks(Initialize{{keyOf(0), 3, 4, AnyCoordinator}}, nil) // there are no group coordinators
	h.stores(4)
}

// History 52 has its part in the coordinator: requests have the share partitions of many groups. An
// item with an error leaves the others alone.
func TestHistory52RequestsOfManySharePartitions(t *testing.T) {
	h := begin(t, 0)
	var items Initialize
	var keys Peek
	for i := int32(1); i < 12; i++ {
		items, keys = append(items, Initializing{keyOf(i), 1, int64(i), 0}), append(keys, keyOf(i))
	}
	errs := ask[[]*kerr.Error](h.desk, items)
	for i, err := range errs {
		if want := map[bool]*kerr.Error{true: kerr.UnknownTopicOrPartition}[i >= 9]; err != want {
			t.Errorf("item %d: %v, want %v", i, err, want)
		}
	}
	var open Open
	for i, p := range ask[[]Peeked](h.desk, keys) {
		open = append(open, Opening{Key: keys[i], ID: p.ID, Recorded: p.Leader, Leader: 3, Cut: -1, Epochs: beginning(3)})
	}
	open[4].ID.Created++
	var write Write
	for i, o := range ask[[]Opened](h.desk, open) {
		want := map[bool]*kerr.Error{true: kerr.UnknownTopicOrPartition}[i >= 9]
		if i == 4 {
			want = kerr.FencedStateEpoch
		}
		if o.Err != want {
			t.Errorf("item %d: %v, want %v", i, o.Err, want)
		}
		write = append(write, of(open[i], 100))
	}
	write[2].Leader = 2
	for i, err := range ask[[]*kerr.Error](h.desk, write) {
		want := map[bool]*kerr.Error{true: kerr.UnknownTopicOrPartition}[i >= 9]
		switch i {
		case 2:
			want = kerr.FencedLeaderEpoch
		case 4:
			want = kerr.FencedStateEpoch
		}
		if err != want {
			t.Errorf("item %d: %v, want %v", i, err, want)
		}
	}
	for i, r := range h.log {
		if !r.Begins {
			t.Errorf("record %d does not begin a batch", i)
		}
	}
}

// A tool opens the state in the epoch of a leader that has not loaded it yet, after an unclean
// election. What the log has lost is known by the epochs of the opening before.
func TestAToolThatOpensFirstHidesNoLoss(t *testing.T) {
	h := begin(t, 0)
	o := h.opens(5, -1)
	h.open(o, nil)
	h.write(of(o, 110), nil) // 100 to 109 are accepted, in epoch 5
	tool := h.opens(7, -1)
	tool.Epochs = epochs.Cache{}
	h.topics[keyOf(0).Topic] = 6
	h.open(tool, kerr.UnknownLeaderEpoch) // it is not the leader, which may know a later epoch
	h.topics[keyOf(0).Topic] = 7
	h.open(tool, nil)
	if got := h.open(h.opens(7, 100), nil); got.Start != 100 {
		t.Errorf("the log has lost all from 100 on, and the group begins at %d", got.Start)
	}
}

// A state that Kafka wrote, or that only a tool has opened, is cut at the end of its leader epoch.
func TestAStateWithoutEpochsIsCutAtItsLeaderEpoch(t *testing.T) {
	known, err := epochs.Of([]epochs.Entry{{Epoch: 0, Start: 0}, {Epoch: 3, Start: 400}, {Epoch: 4, Start: 1000}})
	must.OK(t, err)
	if cut := (&Peeked{Leader: 3}).Cut(&known, 0); cut != 1000 {
		t.Errorf("cut at %d", cut)
	}
}
