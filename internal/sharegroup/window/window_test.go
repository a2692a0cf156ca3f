package window

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// In batch_optimized, the batch that reaches the number of records is acquired whole, and ranges
// end at batch boundaries once they have the batch size.
func TestRangesEndAtBatches(t *testing.T) {
	h := begin(t, Config{Locks: 100, Deliveries: 5, Lock: 10})
	batches := []Batch{one(0, 2), one(3, 5), one(6, 7), one(8, 20), one(21, 22), one(23, 30)}
	got := h.Take(Taking{Member: 1, Batches: batches, Records: 22, BatchSize: 5}, []Delivery{{90, 99, 1}})
	h.delivers(got, Delivery{90, 99, 1}, Delivery{0, 5, 1}, Delivery{6, 20, 1}, Delivery{21, 22, 1})
	h.is(Run{First: 0, Last: 22, State: Acquired, Count: 1, Member: 1})
}

// In record_limit, new records are one range, which may end inside a batch.
func TestARecordLimitIsExact(t *testing.T) {
	h := begin(t, Config{Locks: 100, Deliveries: 5, Lock: 10})
	batches := []Batch{one(0, 2), one(3, 5), one(6, 17)}
	take := Taking{Member: 1, Batches: batches, Records: 8, BatchSize: 1, Strict: true}
	h.delivers(h.Take(take, nil), Delivery{0, 7, 1})
	h.ack(1, 0, 4, 5, Release)
	if from, ok := h.Plan(0); from != 4 || !ok {
		t.Errorf("plan: %d %t", from, ok)
	}
	take.From = 4
	h.delivers(h.Take(take, nil), Delivery{4, 5, 2}, Delivery{8, 13, 1})
	take.Records = 0
	h.delivers(h.Take(take, nil))
	take.Records, take.From = 1, 50 // above SPEO, where no plan leads
	h.delivers(h.Take(take, nil))
}

// An acquisition that fills the window in the middle of a batch does not reach what follows, also
// if the same acquisition has made space at SPSO.
func TestAFullWindowSkipsNothing(t *testing.T) {
	h, batches := fullWindow(t, Broken{})
	h.is(Run{First: 2, Last: 3, State: Acquired, Count: 1, Member: 1})
	h.delivers(h.take(1, 0, 9, batches...), Delivery{4, 5, 1})
}

// fullWindow returns a window that was filled in the middle of a batch, and the batches.
func fullWindow(t *testing.T, broken Broken) (history, []Batch) {
	h := begin(t, Config{Broken: broken, Locks: 4, Deliveries: 2, Lock: 10})
	h.take(1, 0, 2, one(0, 1))
	h.ack(1, 0, 0, 1, Release)
	cfg := h.cfg
	cfg.Deliveries = 1 // 0 and 1 are archived by the next acquisition
	h.SetConfig(cfg)
	take := Taking{Member: 1, Batches: []Batch{one(0, 1), one(2, 5), {6, 7, true}}, Records: 9, Strict: true}
	h.delivers(h.Take(take, nil), Delivery{2, 3, 1})
	return h, take.Batches
}

// Records that failed often are delivered in smaller and smaller parts, never with others, and
// alone for the last time.
func TestPoisonIsIsolated(t *testing.T) {
	cfg := Config{Locks: 100, Deliveries: 6, Lock: 10}
	h := begin(t, cfg)
	batches := []Batch{one(0, 15), one(16, 19)}
	take := func() []Delivery { return h.take(1, 0, 1, batches...) }
	for n := 1; n <= 3; n++ { // below half of the limit
		h.delivers(take(), Delivery{0, 15, n})
		h.Release(1)
	}
	h.delivers(take(), Delivery{0, 7, 4}) // half of the batch
	h.Release(1)
	h.delivers(take(), Delivery{0, 3, 5}) // a quarter
	h.delivers(take(), Delivery{4, 7, 5})
	h.delivers(take(), Delivery{8, 15, 4})
	h.delivers(take(), Delivery{16, 19, 1})
	h.Release(1)
	for o := range int64(8) {
		h.delivers(take(), Delivery{o, o, 6}) // the last delivery
	}
	h.Release(1)
	h.is(Run{First: 8, Last: 15, Count: 4}, Run{First: 16, Last: 19, Count: 1})
	// What failed often ends a delivery of others.
	h.delivers(h.take(1, 0, 9, batches...), Delivery{8, 11, 5})
	h.ack(1, 0, 8, 11, Renew)
	h.delivers(h.take(1, 0, 9, batches...), Delivery{12, 15, 5})
	h.delivers(h.take(1, 0, 9, batches...), Delivery{16, 19, 2})
}

func TestPoisonAfterOtherRecords(t *testing.T) {
	h := begin(t, Config{Locks: 100, Deliveries: 4, Lock: 10})
	h.take(1, 0, 8, one(0, 7))
	h.ack(1, 0, 4, 7, Release)
	h.take(1, 0, 8, one(0, 7))
	h.ack(1, 0, 4, 7, Release)
	h.ack(1, 0, 0, 3, Release)
	h.delivers(h.take(1, 0, 8, one(0, 7)), Delivery{0, 3, 2})
	h.delivers(h.take(1, 0, 8, one(0, 7)), Delivery{4, 7, 3}) // half of the batch
}

// A limit of 2 isolates nothing: the second delivery is the last one.
func TestALimitOfTwoIsolatesNothing(t *testing.T) {
	h := begin(t, Config{Locks: 100, Deliveries: 2, Lock: 10})
	h.take(1, 0, 8, one(0, 7))
	h.Release(1)
	h.delivers(h.take(1, 0, 8, one(0, 7)), Delivery{0, 7, 2})
}

// A released record waits for the retry delay, which doubles with each delivery. A record whose
// lock ended does not.
func TestAReleasedRecordIsDelayed(t *testing.T) {
	cfg := Config{Locks: 2, Deliveries: 9, Lock: 1000, Retry: 10, RetryMax: 31}
	h := begin(t, cfg)
	h.take(1, 0, 2, one(0, 1))
	now := time.Duration(0)
	for i, delay := range []time.Duration{10, 20, 31, 31} {
		if wait := h.ack(1, now, 1, 1, Release); wait == 0 {
			t.Error("a release waits for nothing")
		}
		if want := []Mark{{1, 1, Available, i + 1}}; !slices.Equal(h.store().Marks, want) {
			t.Errorf("delivery %d is not stored as %+v", i+1, want)
		}
		if _, ok := h.Plan(0); ok {
			t.Error("it is available at once")
		}
		if _, available := h.Expire(now + delay - 1); available {
			t.Errorf("delivery %d: available early", i+1)
		}
		now += delay
		if ended, available := h.Expire(now); ended != 0 || !available {
			t.Errorf("delivery %d: %d locks ended, available: %t", i+1, ended, available)
		}
		if h.Due() {
			t.Error("the end of a delay is stored")
		}
		if i < 3 {
			h.delivers(h.take(1, now, 1, one(0, 1)), Delivery{1, 1, i + 2})
		}
	}
	h.Release(1)
	if from, ok := h.Plan(0); !ok || from != 0 {
		t.Errorf("plan: %d %t", from, ok)
	}
}

// A repetition of a release joins the wait of the first one, while the record is delayed and after.
func TestARepeatedReleaseIsHarmless(t *testing.T) {
	h := begin(t, Config{Locks: 9, Deliveries: 3, Lock: 100, Retry: 10, RetryMax: 10})
	h.take(1, 0, 2, one(0, 1))
	first := h.ack(1, 0, 1, 1, Release)
	again := h.ack(1, 0, 1, 1, Release)
	h.Expire(10)
	if late := h.ack(1, 0, 1, 1, Release); first != 1 || again != 1 || late != 1 {
		t.Errorf("they wait for %d, %d and %d", first, again, late)
	}
	h.fails(ErrInvalidState, 2, 1, 1, Release)
	h.is(Run{First: 0, Last: 0, State: Acquired, Count: 1, Member: 1}, Run{First: 1, Last: 1, Count: 1})
	h.store()
	h.fails(ErrInvalidState, 1, 1, 1, Release)
}

// A dead letter is archived after it was copied, and it is copied after no member can get it: its
// state is stored, also across a leader change.
func TestADeadLetterIsCopiedFirst(t *testing.T) {
	cfg := Config{Locks: 9, Deliveries: 1, Lock: 10, DeadLetters: true}
	h := begin(t, cfg)
	h.take(1, 0, 4, one(0, 3))
	h.ack(1, 0, 0, 0, Reject)
	h.ack(1, 0, 1, 1, Release) // at the limit
	h.ack(1, 0, 2, 2, Gap)     // there is no record
	h.Expire(10)               // at the limit
	h.is(Run{First: 0, Last: 1, State: Archiving, Count: 1}, Run{First: 2, Last: 2, State: Archived, Count: 1},
		Run{First: 3, Last: 3, State: Archiving, Count: 1})
	if l, ok := h.NextLetters(1000); ok {
		t.Errorf("%+v are copied before they are stored", l)
	}
	w := h.store()
	if want := []Mark{{0, 1, Archiving, 1}, {2, 2, Archived, 1}, {3, 3, Archiving, 1}}; !slices.Equal(w.Marks, want) {
		t.Errorf("marks %+v, want %+v", w.Marks, want)
	}
	if l, ok := h.NextLetters(1000); !ok || l != (Letters{0, 1, 1}) {
		t.Errorf("letters %+v %t", l, ok)
	}
	if n := h.Copied(0, 0) + h.Copied(2, 2); n != 1 {
		t.Errorf("%d records were archived", n)
	}
	h.is(Run{First: 1, Last: 1, State: Archiving, Count: 1}, Run{First: 2, Last: 2, State: Archived, Count: 1},
		Run{First: 3, Last: 3, State: Archiving, Count: 1})
	w = h.store()
	next, err := Load(cfg, Stored{Start: w.Start, Marks: []Mark{{1, 1, Archiving, 1}, {2, 2, Archived, 1}, {3, 3, Archiving, 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Letters{{1, 1, 1}, {3, 3, 1}} {
		if l, ok := next.NextLetters(1000); !ok || l != want {
			t.Errorf("after a load: letters %+v %t, want %+v", l, ok, want)
		}
	}
	next.Copied(1, 3)
	if s := next.Stats(); s.Start != 4 || !next.Due() {
		t.Errorf("%+v", s)
	}
	h.StartMoved(9)
	h.Copied(0, 3)
	h.Refused()
	h.Copied(0, 3)
}

// What is invalid in itself, and what the member does not hold, are different errors.
func TestErrorsOfAcknowledgements(t *testing.T) {
	h := begin(t, Config{Locks: 100, Deliveries: 5, Lock: 10})
	h.take(1, 0, 10, one(0, 9))
	types := func(t ...AckType) []AckType { return t }
	for _, c := range []struct {
		acks []Ack
		want error
	}{
		{[]Ack{{5, 4, types(Accept)}}, ErrInvalidRequest},
		{[]Ack{{-1, 4, types(Accept)}}, ErrInvalidRequest},
		{[]Ack{{0, 1<<63 - 1, types(Accept)}}, ErrInvalidRequest},
		{[]Ack{{0, 4, nil}}, ErrInvalidRequest},
		{[]Ack{{0, 4, types(Accept, Accept)}}, ErrInvalidRequest},
		{[]Ack{{0, 4, types(5)}}, ErrInvalidRequest},
		{[]Ack{{0, 4, types(-1)}}, ErrInvalidRequest},
		{[]Ack{{3, 4, types(Accept)}, {2, 2, types(Accept)}}, ErrInvalidRequest},
		{[]Ack{{3, 4, types(Accept)}, {4, 5, types(Reject)}}, ErrInvalidState},
		{[]Ack{{3, 10, types(Accept)}}, ErrInvalidRequest},
		{[]Ack{{1, 2, types(Accept, Release)}, {2, 4, types(Release, Renew, Gap)}}, nil},
		{[]Ack{{2, 3, types(Renew)}}, ErrInvalidState},
		{nil, nil},
	} {
		if _, err := h.Acknowledge(1, 0, c.acks); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.acks, err, c.want)
		}
	}
	h.is(Run{First: 0, Last: 0, State: Acquired, Count: 1, Member: 1}, Run{First: 1, Last: 1, State: Acknowledged, Count: 1},
		Run{First: 2, Last: 2, Count: 1}, Run{First: 3, Last: 3, State: Acquired, Count: 1, Member: 1},
		Run{First: 4, Last: 4, State: Archived, Count: 1}, Run{First: 5, Last: 9, State: Acquired, Count: 1, Member: 1})
}

// A stored state that no window has written is an error, and no panic.
func TestInvalidStatesAreNotLoaded(t *testing.T) {
	for _, c := range []struct {
		s    Stored
		want string
	}{
		{Stored{Start: -1}, "it starts at -1"},
		{Stored{Start: 5, Marks: []Mark{{7, 6, Available, 1}}}, "offsets 7 to 6"},
		{Stored{Start: 5, Marks: []Mark{{5, 8, Available, 1}, {8, 9, Archived, 1}}}, "offsets 8 to 9 follow 8"},
		{Stored{Start: 5, Marks: []Mark{{5, 1<<63 - 1, Available, 1}}}, "follow 4"},
		{Stored{Start: 5, Marks: []Mark{{5, 8, Acquired, 1}}}, "have state 1"},
		{Stored{Start: 5, Marks: []Mark{{5, 8, 9, 1}}}, "have state 9"},
		{Stored{Start: 5, Marks: []Mark{{5, 8, Available, -1}}}, "delivery count -1"},
		{Stored{Start: 5, Marks: []Mark{{5, 8, Available, 1 << 15}}}, "delivery count 32768"},
	} {
		if _, err := Load(small(), c.s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.s, err, c.want)
		}
	}
	w, err := Load(small(), Stored{Start: 5, Marks: []Mark{{1, 3, Archived, 1}, {4, 6, Archived, 1}, {9, 9, Available, 3}}})
	if err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Start != 7 || s.End != 10 || w.Due() {
		t.Errorf("%+v, due: %t", s, w.Due())
	}
}

func TestStatesHaveNames(t *testing.T) {
	for s, want := range map[State]string{Available: "available", Acquired: "acquired", Acknowledged: "acknowledged",
		Archiving: "archiving", Archived: "archived", Delayed: "delayed"} {
		if s.String() != want {
			t.Errorf("%d is %q, want %q", s, s, want)
		}
	}
}

// InFlight stops when its reader does.
func TestInFlightStops(t *testing.T) {
	n := 0
	for range frayed(t, 300).InFlight(0) {
		if n++; n == 100 {
			break
		}
	}
	for range New(small(), 0).InFlight(0) {
		n++
	}
	if n != 100 {
		t.Errorf("%d runs", n)
	}
}

// An operator may name all offsets.
func TestOperateOnAllOffsets(t *testing.T) {
	w := New(Config{Locks: 10, Deliveries: 5, Lock: time.Second}, 0)
	if o, _, err := w.Operate(Reject, 0, 0, math.MaxInt64); o != (Operated{Beyond: math.MaxInt64}) || err != nil {
		t.Errorf("%+v %v", o, err)
	}
}
