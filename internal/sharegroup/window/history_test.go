package window

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"
)

// history is a share partition of a test: times are in milliseconds, and a lock lasts 10.
type history struct {
	*testing.T
	*Window
}

// small returns the settings of a history.
func small() Config { return Config{Locks: 20, Deliveries: 5, Lock: 10} }

func begin(t *testing.T, cfg Config) history { return history{t, New(cfg, 0)} }

// take reads batches and acquires records for a member.
func (h history) take(m Member, now time.Duration, records int64, batches ...Batch) []Delivery {
	h.Helper()
	from, ok := h.Plan(0)
	if !ok {
		return nil
	}
	return h.Take(Taking{Member: m, Now: now, From: from, Batches: batches, Records: records, BatchSize: 1}, nil)
}

// ack acknowledges offsets with one type, and returns the write to wait for.
func (h history) ack(m Member, now time.Duration, first, last int64, by AckType) uint64 {
	h.Helper()
	wait, err := h.Acknowledge(m, now, []Ack{{first, last, []AckType{by}}})
	if err != nil {
		h.Fatalf("member %d acknowledges %d to %d with %d: %v", m, first, last, by, err)
	}
	return wait
}

// fails acknowledges offsets with one type, which must fail.
func (h history) fails(want error, m Member, first, last int64, by AckType) {
	h.Helper()
	if _, err := h.Acknowledge(m, 0, []Ack{{first, last, []AckType{by}}}); !errors.Is(err, want) {
		h.Errorf("member %d acknowledges %d to %d with %d: %v, want %v", m, first, last, by, err, want)
	}
}

// store writes all that is due and returns the write.
func (h history) store() Write {
	h.Helper()
	w := h.Begin()
	if w == nil {
		h.Fatal("nothing is due")
	}
	h.Written(w.Seq)
	return *w
}

// is compares the runs of the window, without deadlines.
func (h history) is(want ...Run) {
	h.Helper()
	var got []Run
	for r := range h.InFlight(0) {
		r.Deadline, r.Durable = 0, false
		got = append(got, r)
	}
	if !slices.Equal(got, want) {
		h.Errorf("runs %+v, want %+v", got, want)
	}
}

// delivers compares what a member got.
func (h history) delivers(got []Delivery, want ...Delivery) {
	h.Helper()
	if !slices.Equal(got, want) {
		h.Errorf("delivered %+v, want %+v", got, want)
	}
}

func one(base, last int64) Batch { return Batch{Base: base, Last: last} }

// History 1: an accept is answered when its write is stored, and so is its repetition.
func TestHistory01AnAnswerWaitsForItsWrite(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 10, one(0, 9))
	if wait := h.ack(1, 1, 3, 5, Accept); wait != 1 {
		t.Errorf("it waits for %d", wait)
	}
	if wait := h.ack(1, 1, 3, 5, Accept); wait != 1 {
		t.Errorf("its repetition waits for %d", wait)
	}
	h.Begin()
	if wait := h.ack(1, 1, 4, 5, Accept); wait != 1 {
		t.Errorf("a repetition while the write is under way waits for %d", wait)
	}
	if wait := h.ack(1, 1, 3, 6, Accept); wait != 2 {
		t.Errorf("a repetition with another record waits for %d", wait)
	}
	h.fails(ErrInvalidState, 2, 4, 4, Accept)
	h.fails(ErrInvalidState, 1, 4, 4, Reject)
	h.Written(1)
	h.fails(ErrInvalidState, 1, 4, 4, Accept)
}

// An accept of the first records moves SPSO. Its repetition is below SPSO, which is not stored yet.
func TestHistory01ARepetitionBelowSPSO(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 10, one(0, 9))
	if wait := h.ack(1, 1, 0, 4, Accept); wait != 1 || h.Stats().Start != 5 {
		t.Errorf("it waits for %d, %+v", wait, h.Stats())
	}
	if wait := h.ack(1, 1, 0, 4, Accept); wait != 1 {
		t.Errorf("its repetition waits for %d", wait)
	}
	if w := h.store(); w.Start != 5 || len(w.Marks) != 0 || w.Complete != 0 {
		t.Errorf("write %+v", w)
	}
	if wait := h.ack(1, 1, 0, 4, Accept); wait != 0 || h.Due() {
		t.Errorf("after the write it waits for %d, due: %t", wait, h.Due())
	}
}

// History 12: after a leader change, offsets that no mark names are available.
func TestHistory12OffsetsWithoutMarksAreAvailable(t *testing.T) {
	w, err := Load(small(), Stored{Start: 10, Marks: []Mark{{20, 29, Acknowledged, 1}, {32, 32, Available, 2}}})
	if err != nil {
		t.Fatal(err)
	}
	h := history{t, w}
	h.is(Run{First: 10, Last: 19}, Run{First: 20, Last: 29, State: Acknowledged, Count: 1}, Run{First: 30, Last: 31},
		Run{First: 32, Last: 32, Count: 2})
	h.delivers(h.take(1, 0, 10, one(5, 19)), Delivery{10, 19, 1})
}

// Histories 13 and 14: other records get the offsets of records that the log has lost.
func TestHistory13LostRecordsLeaveNoMarks(t *testing.T) {
	s := Stored{Start: 100, Marks: []Mark{{100, 105, Available, 1}, {106, 110, Acknowledged, 1}, {112, 112, Archived, 2}}}
	w, err := Load(small(), s.Cut(108, Broken{}))
	if err != nil {
		t.Fatal(err)
	}
	history{t, w}.is(Run{First: 100, Last: 105, Count: 1}, Run{First: 106, Last: 107, State: Acknowledged, Count: 1})
	if len(s.Marks) != 3 || s.Marks[1].Last != 110 {
		t.Errorf("the cut has changed its argument: %+v", s)
	}
}

func TestHistory14AnElectionBelowSPSO(t *testing.T) {
	s := Stored{Start: 100, Marks: []Mark{{104, 110, Acknowledged, 1}}}
	if got, want := s.Cut(90, Broken{}), (Stored{Start: 90, Marks: []Mark{}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := s.Cut(200, Broken{}); !reflect.DeepEqual(got, s) {
		t.Errorf("a cut above all marks: %+v", got)
	}
}

// History 18: a client acknowledges what another member holds.
func TestHistory18OnlyTheHolderAcknowledges(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 5, one(0, 4))
	for by := Gap; by <= Renew; by++ {
		h.fails(ErrInvalidState, 2, 1, 1, by)
	}
	h.is(Run{First: 0, Last: 4, State: Acquired, Count: 1, Member: 1})
}

// History 21: the deadline of delivery 1 was due after delivery 2 began.
func TestHistory21ADeadlineEndsItsOwnDelivery(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 1, one(0, 0))
	h.ack(1, 5, 0, 0, Release)
	h.delivers(h.take(2, 6, 1, one(0, 0)), Delivery{0, 0, 2})
	if ended, _ := h.Expire(15); ended != 0 {
		t.Error("the lock of delivery 2 ended early")
	}
	if next, ok := h.NextDeadline(); !ok || next != 16 {
		t.Errorf("next deadline %d %t", next, ok)
	}
	if ended, available := h.Expire(16); ended != 1 || !available {
		t.Errorf("%d locks ended, available: %t", ended, available)
	}
}

// History 22: a renewal replaces the first deadline, of the records that it names.
func TestHistory22ARenewalReplacesTheDeadline(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 3, one(0, 2))
	if wait := h.ack(1, 8, 1, 1, Renew); wait != 0 || h.Due() {
		t.Errorf("a renewal waits for %d, due: %t", wait, h.Due())
	}
	if ended, _ := h.Expire(10); ended != 2 {
		t.Errorf("%d locks ended", ended)
	}
	h.is(Run{First: 0, Last: 0, Count: 1}, Run{First: 1, Last: 1, State: Acquired, Count: 1, Member: 1}, Run{First: 2, Last: 2, Count: 1})
	if ended, _ := h.Expire(18); ended != 1 {
		t.Errorf("%d locks ended", ended)
	}
}

// History 23: an accept is applied, its write is not answered, and the deadline passes.
func TestHistory23AnAcknowledgementEndsTheLock(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 2, one(0, 1))
	h.ack(1, 1, 1, 1, Accept)
	h.Begin()
	if ended, _ := h.Expire(100); ended != 1 {
		t.Errorf("%d locks ended", ended)
	}
	h.is(Run{First: 0, Last: 0, Count: 1}, Run{First: 1, Last: 1, State: Acknowledged, Count: 1})
}

// History 24: release, expiry and session end at the limit; each alone and two at once.
func TestHistory24NoDeliveryAboveTheLimit(t *testing.T) {
	ways := map[string]func(h history){
		"release":  func(h history) { h.ack(1, 0, 1, 1, Release) },
		"deadline": func(h history) { h.Expire(1000) },
		"session":  func(h history) { h.Release(1) },
		"two":      func(h history) { h.Expire(1000); h.Release(1) },
	}
	for name, end := range ways {
		for name2, last := range ways {
			cfg := small()
			cfg.Deliveries = 2
			h := begin(t, cfg)
			h.take(9, 0, 1, one(0, 0)) // so that SPSO stays
			h.ack(9, 0, 0, 0, Renew)
			h.take(1, 0, 1, one(1, 1))
			if end(h); h.Stats().Offsets[Acquired] == 0 {
				h.take(9, 0, 1, one(0, 0))
			}
			h.delivers(h.Take(Taking{Member: 1, From: 1, Batches: []Batch{one(1, 1)}, Records: 1}, nil), Delivery{1, 1, 2})
			last(h)
			if got := h.take(1, 0, 9, one(1, 1)); slices.ContainsFunc(got, func(d Delivery) bool { return d.Last >= 1 }) {
				t.Errorf("%s, %s: delivered %v", name, name2, got)
			}
		}
	}
}

// History 25: retention passes SPSO while records below are acquired, then they are acknowledged.
func TestHistory25TheLogStartsAboveAcquiredRecords(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 10, one(0, 9))
	h.StartMoved(5)
	if h.is(Run{First: 5, Last: 9, State: Acquired, Count: 1, Member: 1}); h.Due() {
		t.Error("a log start alone causes a write")
	}
	if wait := h.ack(1, 0, 0, 6, Accept); wait != 1 {
		t.Errorf("it waits for %d", wait)
	}
	h.StartMoved(30)
	if s := h.Stats(); s.Start != 30 || s.End != 30 || s.Runs != 0 {
		t.Errorf("%+v", s)
	}
	if _, ok := h.NextDeadline(); ok {
		t.Error("a lock is left")
	}
	h.ack(1, 0, 7, 9, Accept)
	h.delivers(h.take(1, 0, 3, one(28, 31)), Delivery{30, 31, 1})
}

// The log start passes what was acknowledged before its write begins: the request is answered.
func TestHistory25AWaitingRequestIsAnswered(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 10, one(0, 9))
	wait := h.ack(1, 0, 3, 4, Accept)
	h.StartMoved(8)
	if w := h.store(); w.Seq != wait || w.Start != 8 || len(w.Marks) != 0 {
		t.Errorf("write %+v, and the request waits for %d", w, wait)
	}
}

// History 28: a release was answered. After a leader change the count is above that of the release.
func TestHistory28AReleaseCounts(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 2, one(0, 1))
	h.ack(1, 0, 0, 0, Release)
	h.delivers(h.take(2, 0, 1, one(0, 0)), Delivery{0, 0, 2})
	w := h.Begin() // delivery 2 is not over
	if want := []Mark{{0, 0, Available, 1}}; !slices.Equal(w.Marks, want) {
		t.Errorf("marks %+v, want %+v", w.Marks, want)
	}
	next, err := Load(small(), Stored{Start: w.Start, Marks: w.Marks})
	if err != nil {
		t.Fatal(err)
	}
	n := history{t, next}
	n.delivers(n.take(3, 0, 1, one(0, 0)), Delivery{0, 0, 2})
}

// However often leaders change, the delivery limit is reached by deliveries that have failed.
func TestChangesOfLeadersDoNotReachTheLimit(t *testing.T) {
	h := begin(t, small())
	for _, count := range []int{1, 2, 3, 4, 5, 5, 5} {
		h.delivers(h.take(1, 0, 1, one(0, 0)), Delivery{0, 0, count})
		h.Close()
		w := h.Begin()
		stored := Stored{Start: w.Start, Marks: w.Marks}
		if want := (Mark{0, 0, Available, min(count, 4)}); stored.Marks[0] != want {
			t.Errorf("mark %+v, want %+v", stored.Marks[0], want)
		}
		next, err := Load(small(), stored)
		if err != nil {
			t.Fatal(err)
		}
		h = history{t, next}
	}
	h.take(1, 0, 1, one(0, 0))
	h.ack(1, 0, 0, 0, Release)
	if h.start != 1 {
		t.Error("the last delivery has failed, and the record is not finished")
	}
}

// History 29: batch 1 is valid, batch 2 is not.
func TestHistory29AllOrNothing(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 2, one(0, 1))
	h.take(2, 0, 2, one(2, 3))
	for _, second := range []Ack{
		{2, 2, []AckType{Accept}}, {7, 7, []AckType{Accept}}, {1, 1, []AckType{9}}, {1, 1, nil}, {1, 0, []AckType{Accept}},
	} {
		if _, err := h.Acknowledge(1, 0, []Ack{{0, 0, []AckType{Accept}}, second}); err == nil {
			t.Errorf("%+v is accepted", second)
		}
	}
	h.is(Run{First: 0, Last: 1, State: Acquired, Count: 1, Member: 1}, Run{First: 2, Last: 3, State: Acquired, Count: 1, Member: 2})
}

// History 30: the store cannot be reached for a minute. Nothing is undone, and the same write is
// repeated until it is stored, or is refused for good.
func TestHistory30NothingIsUndone(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 4, one(0, 3))
	h.ack(1, 0, 1, 2, Accept)
	w := *h.Begin()
	for now := time.Duration(0); now < 60; now++ {
		h.Expire(now)
		if again := *h.Begin(); !reflect.DeepEqual(again, w) {
			t.Fatalf("%+v is repeated as %+v", w, again)
		}
	}
	h.Written(w.Seq)
	h.is(Run{First: 0, Last: 0, Count: 1}, Run{First: 1, Last: 2, State: Acknowledged, Count: 1}, Run{First: 3, Last: 3, Count: 1})
	h.Begin()
	h.Refused()
	h.fails(ErrDropped, 1, 0, 0, Accept)
	if got := h.take(1, 0, 1, one(0, 0)); got != nil || h.Begin() != nil || h.Due() {
		t.Errorf("after a refusal: %v", got)
	}
	h.Written(w.Seq + 1)
	if ended, _ := h.Release(1); ended != 0 {
		t.Errorf("%d records are released after a refusal", ended)
	}
}

// History 31: two fetches read the same range.
func TestHistory31ARecordIsTakenOnce(t *testing.T) {
	h := begin(t, small())
	read := Taking{From: 0, Batches: []Batch{one(0, 9)}, Records: 10}
	first, second := read, read
	first.Member, second.Member = 1, 2
	first.Records, first.Strict = 4, true
	h.delivers(h.Take(first, nil), Delivery{0, 3, 1})
	h.delivers(h.Take(second, nil), Delivery{4, 9, 1})
	h.delivers(h.Take(second, nil))
}

// History 32: 1,000 acknowledgements arrive while a write is under way.
func TestHistory32TwoWritesForAThousandAcknowledgements(t *testing.T) {
	h := begin(t, Config{Locks: 2000, Deliveries: 5, Lock: 10})
	h.take(1, 0, 1002, one(0, 1001))
	h.ack(1, 0, 1, 1, Accept)
	first := h.Begin()
	for o := int64(2); o <= 1001; o++ {
		if wait := h.ack(1, 0, o, o, Accept); wait != 2 {
			t.Fatalf("offset %d waits for write %d", o, wait)
		}
	}
	if again := h.Begin(); again.Seq != 1 || len(again.Marks) != 1 {
		t.Fatalf("write %+v is under way", again)
	}
	h.Written(first.Seq)
	if w := h.store(); w.Seq != 2 || !slices.Equal(w.Marks, []Mark{{2, 1001, Acknowledged, 1}}) || w.Complete != 1001 || h.Due() {
		t.Errorf("write %+v", w)
	}
}

// History 34: a client acknowledges each second offset of a batch of 1,000,000 records.
func TestHistory34RunsMergeAsTheyAreFinished(t *testing.T) {
	const n = 1_000_000
	h := begin(t, Config{Locks: 100, Deliveries: 5, Lock: 10})
	h.take(1, 0, 1, one(0, n-1))
	types := make([]AckType, n-1)
	for i := range types {
		types[i] = Accept + AckType(i%2)*(Renew-Accept)
	}
	if _, err := h.Acknowledge(1, 0, []Ack{{1, n - 1, types}}); err != nil {
		t.Fatal(err)
	}
	most := h.Stats()
	h.ack(1, 0, 1, n-1, Accept) // what was accepted joins the wait
	s := h.Stats()
	if most.Runs < n-2 || most.Due != n/2 || most.Bytes > 64*n {
		t.Errorf("%+v", most)
	}
	if s.Due > n/64 || s.Runs > n/64 || s.Bytes > 4*n || s.Offsets[Acknowledged] != n-1 {
		t.Errorf("%+v", s)
	}
	h.ack(1, 0, 0, 0, Accept)
	if s := h.Stats(); s.Start != n || s.Runs != 0 || s.Bytes > 1024 {
		t.Errorf("%+v", s)
	}
}

// History 37: a close with acknowledgements that fail releases what the member holds.
func TestHistory37TheReleaseFollowsInAnyCase(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 3, one(0, 2))
	h.fails(ErrInvalidRequest, 1, 0, 5, Accept)
	if ended, available := h.Release(1); ended != 3 || !available {
		t.Errorf("%d records, available: %t", ended, available)
	}
	h.is(Run{First: 0, Last: 2, Count: 1})
}

// History 40: a batch is larger than what a fetch wants, and than the window.
func TestHistory40ABatchLargerThanTheWindow(t *testing.T) {
	cfg := Config{Locks: 2000, Deliveries: 5, Lock: 10}
	h := begin(t, cfg)
	h.delivers(h.take(1, 0, 500, one(0, 4999), one(5000, 5009)), Delivery{0, 4999, 1})
	if _, ok := h.Plan(0); ok {
		t.Error("more can be acquired")
	}
	h = begin(t, cfg)
	strict := Taking{Member: 1, Batches: []Batch{one(0, 4999)}, Records: 500, Strict: true}
	for at := int64(0); at < 2000; at += 500 {
		strict.From = at
		h.delivers(h.Take(strict, nil), Delivery{at, at + 499, 1})
	}
	strict.From = 2000
	h.delivers(h.Take(strict, nil))
	h.ack(1, 0, 0, 9, Accept)
	h.delivers(h.Take(strict, nil), Delivery{2000, 2009, 1})
}

// History 41: an aborted transaction fills the window, and no member acknowledges anything.
func TestHistory41AbortedRecordsMoveSPSO(t *testing.T) {
	h := begin(t, small())
	got := h.take(1, 0, 5, Batch{0, 29, true}, Batch{30, 59, true}, Batch{60, 60, true}, one(61, 62))
	h.delivers(got, Delivery{61, 62, 1})
	if s := h.Stats(); s.Start != 61 || !h.Due() {
		t.Errorf("%+v, due: %t", s, h.Due())
	}
	if w := h.store(); w.Start != 61 || len(w.Marks) != 0 {
		t.Errorf("write %+v", w)
	}
}

// History 42: compaction has removed a released batch, and offsets between batches.
func TestHistory42RemovedRecordsAreArchived(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 9, one(0, 2), one(3, 5), one(6, 8))
	h.ack(1, 0, 3, 5, Release)
	h.delivers(h.Take(Taking{Member: 2, From: 3, Batches: []Batch{one(6, 8), one(12, 13)}, Records: 9}, nil), Delivery{12, 13, 1})
	h.is(Run{First: 0, Last: 2, State: Acquired, Count: 1, Member: 1}, Run{First: 3, Last: 5, State: Archived, Count: 1},
		Run{First: 6, Last: 8, State: Acquired, Count: 1, Member: 1}, Run{First: 9, Last: 11, State: Archived},
		Run{First: 12, Last: 13, State: Acquired, Count: 1, Member: 2})
}

// History 43: the window is at an open transaction: a read returns nothing, and changes nothing.
func TestHistory43AReadWithoutBatches(t *testing.T) {
	h := begin(t, small())
	h.delivers(h.take(1, 0, 9))
	if h.is(); h.Due() {
		t.Error("something is due")
	}
	h.delivers(h.take(1, 0, 9, one(0, 3)), Delivery{0, 3, 1})
}

// History 44: the delivery limit is lowered while records have more deliveries.
func TestHistory44ALowerLimit(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 2, one(0, 1))
	h.ack(1, 0, 0, 0, Renew)
	for range 3 {
		h.ack(1, 0, 1, 1, Release)
		h.take(1, 0, 1, one(0, 1))
	}
	cfg := small()
	cfg.Deliveries = 2
	h.SetConfig(cfg)
	h.is(Run{First: 0, Last: 0, State: Acquired, Count: 1, Member: 1}, Run{First: 1, Last: 1, State: Acquired, Count: 4, Member: 1})
	cfg.Deliveries = 9
	h.SetConfig(cfg)
	h.ack(1, 0, 1, 1, Release)
	cfg.Deliveries = 2
	h.SetConfig(cfg)
	h.delivers(h.take(1, 0, 9, one(0, 1), one(2, 2)), Delivery{2, 2, 1})
	h.is(Run{First: 0, Last: 0, State: Acquired, Count: 1, Member: 1}, Run{First: 1, Last: 1, State: Archived, Count: 4},
		Run{First: 2, Last: 2, State: Acquired, Count: 1, Member: 1})
}

// History 54: the leader's process stood still.
func TestHistory54AProcessThatStoodStill(t *testing.T) {
	h := begin(t, small())
	h.take(1, 0, 1, one(0, 0))
	h.Extend(45)
	h.take(1, 45, 1, one(1, 1))
	if ended, _ := h.Expire(54); ended != 0 {
		t.Error("locks ended while the process stood still")
	}
	if ended, _ := h.Expire(55); ended != 2 {
		t.Errorf("%d locks ended", ended)
	}
}
