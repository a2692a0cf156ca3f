package sharestate

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/race"
)

// load applies records to a new shard.
func load(t *testing.T, records ...coordinator.Record) *desk {
	t.Helper()
	d := newDesk(config())
	d.log, d.committed = records, len(records)
	d.crash(0)
	if d.wrong != "" {
		t.Fatal(d.wrong)
	}
	return d
}

func snapshotOf(s format.Snapshot) coordinator.Record {
	return coordinator.Record{Key: keyOf(0).Encode(format.TypeSnapshot), Value: s.Encode()}
}

func updateOf(u format.Update) coordinator.Record {
	return coordinator.Record{Key: keyOf(0).Encode(format.TypeUpdate), Value: u.Encode()}
}

// Kafka raises the leader epoch with an update, leaves the start as it is, and writes batches as a
// request has them: in no order, with marks that the stored ones outrank.
func TestATopicThatKafkaWrote(t *testing.T) {
	d := load(t,
		snapshotOf(format.Snapshot{StateEpoch: 3, Leader: -1, Start: -1, Created: 50, Written: 50, Complete: format.UnknownComplete}),
		updateOf(format.Update{Leader: 2, Start: 10, Complete: 1, Batches: []format.Batch{{First: 12, Last: 12, State: 2, Count: 1}}}),
		updateOf(format.Update{Leader: 4, Start: -1, Complete: format.UnknownComplete, Batches: []format.Batch{
			{First: 14, Last: 16, Count: 2}, {First: 8, Last: 11, Count: 1}, {First: 12, Last: 15, Count: 1}}}))
	o := Opening{Key: keyOf(0), ID: Identity{3, 50}, Recorded: 4, Leader: 4, Cut: -1, Epochs: beginning(4)}
	got := ask[[]Opened](d, Open{o})[0]
	want := []window.Mark{mark(10, 11, window.Available, 1), mark(12, 12, window.Acknowledged, 1), mark(13, 13, window.Available, 1),
		mark(14, 16, window.Available, 2)}
	if got.Err != nil || got.Stored.Start != 10 || fmt.Sprint(got.Stored.Marks) != fmt.Sprint(want) {
		t.Errorf("%+v, want %v", got, want)
	}
}

// Records that this version does not know, and markers that a tool sent, keep no shard from
// loading. While there are unknown ones the log is not deleted: a later version may need them.
func TestUnknownRecordsAreKept(t *testing.T) {
	snapshot := snapshotOf(format.Snapshot{StateEpoch: 1, Leader: -1, Start: 5, Created: 50})
	var why error
	prune := func(d *desk) int64 {
		ask[Pruned](d, Prune{2})
		p := ask[Pruned](d, Prune{3})
		why = p.Why
		return p.To
	}
	d := load(t, coordinator.Record{Marker: &coordinator.Marker{}}, snapshot)
	if to := prune(d); to != 2 || len(d.s.states) != 1 || why != nil {
		t.Errorf("the log is deleted up to %d, %d states", to, len(d.s.states))
	}
	d = load(t, snapshot, coordinator.Record{Key: []byte{0, 7, 1}, Value: []byte{1}})
	if to := prune(d); to != -1 || len(d.s.states) != 1 || !errors.Is(why, ErrForeign) {
		t.Errorf("with an unknown record: the log is deleted up to %d, %d states", to, len(d.s.states))
	}
}

// Unreadable records end the load, and change nothing.
func TestUnreadableRecordsEndTheLoad(t *testing.T) {
	good := snapshotOf(format.Snapshot{StateEpoch: 1, Leader: -1, Start: 5})
	batch := func(b format.Batch) coordinator.Record {
		return snapshotOf(format.Snapshot{Batches: []format.Batch{b}})
	}
	for i, r := range []coordinator.Record{
		{Key: nil, Value: good.Value}, {Key: good.Key[:5], Value: good.Value},
		{Key: good.Key, Value: []byte{0, 1}}, {Key: good.Key, Value: []byte{}},
		{Key: keyOf(0).Encode(format.TypeUpdate), Value: []byte{0, 1}},
		batch(format.Batch{First: -1}), batch(format.Batch{First: 2, Last: 1}), batch(format.Batch{State: 1}),
		batch(format.Batch{State: 5}), batch(format.Batch{State: -1}), batch(format.Batch{Count: -1}),
		batch(format.Batch{Last: 1<<63 - 1}),
		updateOf(format.Update{Batches: []format.Batch{{State: 1}}}),
	} {
		if s := New(config()); s.Apply(r) == nil || len(s.states) > 0 {
			t.Errorf("record %d is accepted", i)
		}
	}
}

// The log begins after the snapshot of a state. Its updates are not taken for the state, and the
// rest of the log stays. An administrator can alter or delete the state.
func TestAStateWithoutItsSnapshot(t *testing.T) {
	update := updateOf(format.Update{Leader: 2, Start: 10, Batches: []format.Batch{{First: 12, Last: 12, State: 2, Count: 1}}})
	d := load(t, update)
	if err := ask[[]Peeked](d, Peek{keyOf(0)})[0].Err; err != kerr.KafkaStorageError {
		t.Errorf("peek: %v", err)
	}
	if err := ask[[]*kerr.Error](d, Write{{Key: keyOf(0), Leader: 2}})[0]; err != kerr.KafkaStorageError {
		t.Errorf("write: %v", err)
	}
	if err := ask[[]*kerr.Error](d, Initialize{{keyOf(0), 9, -1, 0}})[0]; err != kerr.KafkaStorageError {
		t.Errorf("initialize without an offset: %v", err)
	}
	ask[Pruned](d, Prune{1})
	if p := ask[Pruned](d, Prune{1}); p.To != -1 || !errors.Is(p.Why, ErrIncomplete) {
		t.Errorf("the log is deleted up to %d: %v", p.To, p.Why)
	}
	if err := ask[[]*kerr.Error](d, Initialize{{keyOf(0), 9, 33, 0}})[0]; err != nil {
		t.Errorf("initialize with an offset: %v", err)
	}
	if s := ask[[]Summary](d, Summarize{keyOf(0)})[0]; s.Err != nil || s.Start != 33 {
		t.Errorf("%+v", s)
	}
	d.check()
	ask[Pruned](d, Prune{1})
	if to := ask[Pruned](d, Prune{2}).To; to != 1 || d.wrong != "" {
		t.Errorf("the log is deleted up to %d, %s", to, d.wrong)
	}
	d = load(t, update, snapshotOf(format.Snapshot{StateEpoch: 1, Start: 7}))
	if s := ask[[]Summary](d, Summarize{keyOf(0)})[0]; s.Err != nil || s.Start != 7 {
		t.Errorf("with a later snapshot: %+v", s)
	}
	d = load(t, update, coordinator.Record{Key: keyOf(0).Encode(format.TypeSnapshot)})
	if len(d.s.states) != 0 || d.s.incomplete != 0 {
		t.Error("a tombstone leaves it")
	}
}

// States and marks count against the budget, also after a load. New states are refused beyond it,
// and writes are not.
func TestStatesCountAgainstTheBudget(t *testing.T) {
	cfg := config()
	cfg.Memory = coordinator.NewMemoryBudget(64 << 10)
	d := newDesk(cfg)
	d.topics[[16]byte{1}] = 0
	begin := func(i int) *kerr.Error {
		k := keyOf(int32(i % 10))
		k.Group = strings.Repeat("x", 500) + fmt.Sprint(i/10)
		return ask[[]*kerr.Error](d, Initialize{{k, 1, 0, 0}})[0]
	}
	n := 0
	for begin(n) == nil {
		if n++; n > 1000 {
			t.Fatal("states are never refused")
		}
	}
	if err := begin(n); err != kerr.CoordinatorLoadInProgress {
		t.Errorf("a state beyond the budget: %v", err)
	}
	if err := begin(0); err != nil {
		t.Errorf("a state that is known: %v", err)
	}
	used := cfg.Memory.Used()
	if used != int64(n)*(stateWeight+501) || used > 12<<10 {
		t.Errorf("%d states use %d bytes", n, used)
	}
	k := d.s.oldest.key
	p := ask[[]Peeked](d, Peek{k})[0]
	ask[[]Opened](d, Open{{Key: k, ID: p.ID, Recorded: -1, Leader: 1, Cut: -1, Epochs: beginning(1)}})
	w := Writing{Key: k, ID: p.ID, Leader: 1}
	for o := int64(0); o < 6000; o += 2 {
		w.Marks = append(w.Marks, mark(o, o, window.Acknowledged, 1))
	}
	if err := ask[[]*kerr.Error](d, Write{w})[0]; err != nil || cfg.Memory.Used() < used+3000*markWeight {
		t.Errorf("a write beyond the budget: %v, %d bytes are in use", err, cfg.Memory.Used())
	}
	d.crash(0)
	if got := cfg.Memory.Used(); got < used+3000*markWeight {
		t.Errorf("%d bytes are in use after a load", got)
	}
	w.Start, w.Marks = 6000, nil
	if err := ask[[]*kerr.Error](d, Write{w})[0]; err != nil || cfg.Memory.Used() != used+epochWeight {
		t.Errorf("%v, %d bytes are in use when the marks are gone, want %d", err, cfg.Memory.Used(), used+epochWeight)
	}
	var all Delete
	for k := range d.s.states {
		all = append(all, Deleting{k, 0})
	}
	ask[[]*kerr.Error](d, all)
	if got := cfg.Memory.Used(); got != 0 || len(d.s.topics) > 0 || d.wrong != "" {
		t.Errorf("%d bytes are in use without states, %s", got, d.wrong)
	}
}

// What a state counts covers what it occupies.
func TestWeightsCoverTheMemory(t *testing.T) {
	const states, marks = 20_000, 20
	cfg := config()
	var before, after runtime.MemStats
	record := coordinator.Record{}
	var batches []format.Batch
	for o := range int64(marks) {
		batches = append(batches, format.Batch{First: 2 * o, Last: 2 * o, State: 2, Count: 1})
	}
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := New(cfg)
	for i := range int32(states) {
		record.Key = format.Key{Group: fmt.Sprint("group", i/10), Topic: [16]byte{1}, Partition: i % 10}.Encode(format.TypeSnapshot)
		record.Value = (&format.Snapshot{Batches: batches[:i%2*marks]}).Encode()
		must.OK(t, s.Apply(record))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d bytes for a state with %d marks on average, %d are counted", used/states, marks/2, s.memory/states)
	if used > s.memory && !race.Detector {
		t.Errorf("%d states occupy %d bytes, and %d are counted", states, used, s.memory)
	}
	runtime.KeepAlive(s)
}

// A load of 20,000 states with ten updates each.
func BenchmarkLoad(b *testing.B) {
	var log []coordinator.Record
	for i := range int32(20_000) {
		k := format.Key{Group: fmt.Sprint("group", i/10), Topic: [16]byte{1}, Partition: i % 10}
		log = append(log, coordinator.Record{Key: k.Encode(format.TypeSnapshot), Value: (&format.Snapshot{}).Encode()})
		for o := range int64(10) {
			u := format.Update{Start: o, Batches: []format.Batch{{First: o + 2, Last: o + 2, State: 2, Count: 1}}}
			log = append(log, coordinator.Record{Key: k.Encode(format.TypeUpdate), Value: u.Encode()})
		}
	}
	for b.Loop() {
		s := New(config())
		for _, r := range log {
			must.OK(b, s.Apply(r))
		}
	}
}

// A snapshot fits into a batch that replication can carry: a state has a bounded number of marks.
func TestMarksAreBounded(t *testing.T) {
	h := begin(t, 0)
	o := h.opens(1, -1)
	h.open(o, nil)
	st := h.s.states[keyOf(0)]
	for at := int64(0); len(st.marks) < MaxMarks-2; at += 2 {
		st.marks = append(st.marks, format.Batch{First: at, Last: at, State: 2, Count: 1})
	}
	h.s.weigh(st)
	far := int64(4 * MaxMarks)
	h.write(of(o, 0, mark(far, far, window.Acknowledged, 1), mark(far+2, far+2, window.Acknowledged, 1)), kerr.RecordListTooLarge)
	h.write(of(o, 0, mark(far, far, window.Acknowledged, 1)), nil)
	h.open(h.opens(2, far+1), nil)
	if n := h.log[len(h.log)-1].Size(); n > 32<<20 {
		t.Errorf("a snapshot has %d bytes", n)
	}
}

// Deferred snapshots and tombstones of many states come in parts.
func TestManyRecordsComeInParts(t *testing.T) {
	d := newDesk(config())
	var all Initialize
	for i := range 12_000 {
		all = append(all, Initializing{format.Key{Group: fmt.Sprintf("%s%d", strings.Repeat("g", 200), i), Topic: [16]byte{1}}, 1, 0, 0})
	}
	var out coordinator.Effects
	d.s.Handle(d.time(), 9, all, &out)
	parts := append([]int{len(out.Records)}, d.parts(t, out)...)
	if len(parts) < 3 || len(d.s.states) != len(all) || len(d.final[0].Response.([]*kerr.Error)) != len(all) {
		t.Errorf("initialised in parts of %v, %d states", parts, len(d.s.states))
	}
	out = coordinator.Effects{}
	d.s.Handle(d.time(), 1, Prune{1}, &out)
	d.s.Handle(d.time(), 2, Prune{1}, &out)
	d.s.Handle(d.time(), 3, Prune{1}, &out)
	if len(out.Records) > 0 || len(out.Replies) != 2 {
		t.Fatalf("a prune writes %d records and has %d answers", len(out.Records), len(out.Replies))
	}
	if parts = d.parts(t, out); len(parts) < 3 {
		t.Errorf("snapshots of %v states", parts)
	}
	out = coordinator.Effects{}
	d.s.Handle(d.time(), 0, TopicsChanged{topics{}, [][16]byte{{1}}}, &out)
	if parts := d.parts(t, out); len(parts) < 3 || len(d.s.states) > 0 {
		t.Errorf("tombstones of %v states, %d are left", parts, len(d.s.states))
	}
}

// parts handles deferred events, and returns how many records each has.
func (d *desk) parts(t *testing.T, out coordinator.Effects) (parts []int) {
	t.Helper()
	for len(out.Deferred) > 0 {
		e := out.Deferred[0]
		out = coordinator.Effects{}
		d.s.Handle(d.time(), 0, e, &out)
		d.final = out.Replies
		size := 0
		for _, r := range out.Records {
			if size += r.Size(); !r.Begins {
				t.Error("a record does not begin a batch")
			}
		}
		if parts = append(parts, len(out.Records)); size > eventBytes+1<<10 {
			t.Errorf("an event has %d bytes", size)
		}
	}
	return parts
}

// The states of topics that were deleted while the coordinator was not there are removed by its
// successor, and no record is written before the metadata is known.
func TestDeletedTopicsAfterALoad(t *testing.T) {
	d := newDesk(config())
	d.topics[[16]byte{2}] = 0
	k := format.Key{Group: "g", Topic: [16]byte{2}}
	ask[[]*kerr.Error](d, Initialize{{keyOf(0), 1, 0, 0}, {keyOf(3), 1, 0, 0}, {k, 1, 0, 0}})
	delete(d.topics, [16]byte{1})
	d.crash(0)
	if len(d.s.states) != 1 || d.kinds(0) != "ssstt" || d.wrong != "" {
		t.Errorf("%d states, records %q, %s", len(d.s.states), d.kinds(0), d.wrong)
	}
	s := New(config())
	must.OK(t, s.Apply(d.log[2]))
	var out coordinator.Effects
	s.Handle(d.time(), 1, Initialize{{k, 1, 0, AnyCoordinator}}, &out)
	if len(out.Records) > 0 || out.Replies[0].Response.([]*kerr.Error)[0] != kerr.UnknownTopicOrPartition {
		t.Errorf("before the metadata is known: %+v", out.Replies)
	}
	s.End()
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	h := begin(t, 0)
	for i, e := range []Initializing{
		{format.Key{Topic: [16]byte{1}}, 1, 0, 0}, {keyOf(1), -1, 0, 0}, {keyOf(1), 1, -3, 0},
		{format.Key{Group: strings.Repeat("g", format.MaxGroup+1), Topic: [16]byte{1}}, 1, 0, 0},
	} {
		if err := ask[[]*kerr.Error](h.desk, Initialize{e})[0]; err != kerr.InvalidRequest {
			t.Errorf("initialize %d: %v", i, err)
		}
	}
	for i, change := range []func(*Opening){
		func(o *Opening) { o.Leader = -1 }, func(o *Opening) { o.Cut = -2 },
	} {
		o := h.opens(1, -1)
		change(&o)
		if err := ask[[]Opened](h.desk, Open{o})[0].Err; err != kerr.InvalidRequest {
			t.Errorf("open %d: %v", i, err)
		}
	}
	o := h.opens(1, -1)
	h.open(o, nil)
	for i, change := range []func(*Writing){
		func(w *Writing) { w.Leader = -1 }, func(w *Writing) { w.Start = -1 }, func(w *Writing) { w.Complete = -1 },
		func(w *Writing) { w.Marks = []window.Mark{mark(3, 2, window.Available, 1)} },
	} {
		w := of(o, 0)
		change(&w)
		if err := ask[[]*kerr.Error](h.desk, Write{w})[0]; err != kerr.InvalidRequest {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if err := ask[error](h.desk, 7); err == nil {
		t.Error("an unknown event succeeds")
	}
	if s := ask[[]Summary](h.desk, Summarize{keyOf(5)})[0]; s.Err != kerr.InvalidRequest || s.Start != -1 || s.Leader != -1 {
		t.Errorf("%+v", s)
	}
}

// Whatever a record contains, a shard loads it or refuses it, and is in order.
func FuzzApply(f *testing.F) {
	update := format.Update{Leader: 4, Start: 2, Batches: []format.Batch{{First: 14, Last: 16, Count: 2}, {First: 8, Last: 15, Count: 1},
		{First: 12, Last: 12, State: 4, Count: 1}}}
	snapshot := format.Snapshot{Start: 3, Batches: update.Batches}
	f.Add(update.Encode(), snapshot.Encode())
	f.Add(snapshot.Encode(), update.Encode())
	f.Fuzz(func(t *testing.T, first, second []byte) {
		d := newDesk(config())
		for i, value := range [][]byte{first, second, second, first} {
			// An error has no effect.
			_ = d.s.Apply(coordinator.Record{Key: keyOf(0).Encode(format.Type(i % 2)), Value: append([]byte{}, value...)})
			if d.check(); d.wrong != "" {
				t.Fatalf("after record %d: %s", i, d.wrong)
			}
		}
	})
}
