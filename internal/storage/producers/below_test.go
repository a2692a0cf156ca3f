package producers

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// received returns what a log knows that begins at an offset, from what another one reports.
func received(t interface{ Fatal(...any) }, leader *State, end int64) *State {
	var f State
	if known := leader.Below(end); known.Len() > 0 {
		if rest, err := f.Decode(known.Append(nil, end)); err != nil || len(rest) > 0 {
			t.Fatal(err, len(rest))
		}
	}
	f.MarkDurable(end)
	f.MarkSynced()
	return &f
}

// A log that begins behind a marker refuses coordinators and producers of former epochs, whether
// the next transaction begins above, or nothing follows.
func TestEpochsBelowAreKept(t *testing.T) {
	var l State
	l.Add(in(t, 5, 1, 4, 0), now)
	l.Add(marker(8, 1, 4, record.Commit, 3), now)
	l.Advance(9)
	next, zombie := in(t, 12, 1, 4, 1), marker(13, 1, 4, record.Abort, 2)
	for _, above := range []string{"nothing", "uncommitted", "committed"} {
		if above == "uncommitted" {
			l.Add(next, now)
		}
		f := received(t, &l, 10)
		if above == "committed" {
			f.Add(next, now)
		}
		if _, _, err := f.CheckMarker(zombie, Sender{}); !errors.Is(err, ErrCoordinatorFenced) {
			t.Errorf("%s is above: the marker of a former coordinator: %v", above, err)
		}
		if _, _, err := f.Check(in(t, 14, 1, 3, 7), permit(f, 1)); !errors.Is(err, ErrInvalidProducerEpoch) {
			t.Errorf("%s is above: a batch of a former epoch: %v", above, err)
		}
	}
}

// A transaction that begins above a start, or a marker there, may be lost: it is not committed. The
// one is not open then, and the other is sent again.
func TestNothingAboveIsReported(t *testing.T) {
	var l State
	l.Add(in(t, 5, 1, 0, 0), now)
	l.Add(marker(8, 1, 0, record.Commit, 3), now)
	l.Advance(9)
	l.Add(in(t, 12, 1, 0, 1), now)
	if f := received(t, &l, 10); f.Open() > 0 || f.FirstUnstable() != math.MaxInt64 {
		t.Errorf("a transaction is open from %d on", f.FirstUnstable())
	}
	end := marker(13, 1, 0, record.Abort, 3)
	l.Add(end, now)
	if _, dup, err := received(t, &l, 10).CheckMarker(end, Sender{}); dup || err != nil {
		t.Errorf("the marker that is sent again: duplicate %t, %v", dup, err)
	}
}

// The batches above a start may have pushed out those below, and may be lost: they are not
// committed. Then they are sent again, and continue.
func TestLostBatchesContinueThoseBelow(t *testing.T) {
	var l State
	l.MarkDurable(0)
	for i := range int64(10) {
		l.Add(in(t, i, 1, 0, int32(i)), now)
		l.MarkDurable(i + 1)
	}
	l.Append(nil, 10) // the window has five batches from now on
	f := received(t, &l, 5)
	if p, known := f.Producer(1); !known || p.First != 0 {
		t.Errorf("it knows %+v", p)
	}
	for i := int64(5); i < 10; i++ {
		b := in(t, i, 1, 0, int32(i))
		if _, dup, err := f.Check(b, Permit{}); err != nil || dup {
			t.Fatalf("batch %d: %t, %v", i, dup, err)
		}
		f.Add(b, now)
	}
	if _, _, err := received(t, &l, 5).Check(in(t, 5, 1, 0, 7), Permit{}); !errors.Is(err, ErrOutOfOrderSequence) {
		t.Errorf("a batch is missing: %v", err)
	}
}

// history is a random sequence of transactions of three producers, as one log has it.
type history struct {
	batches []record.Batch
	bumps   bool // each transaction has an epoch of its own (transaction.version 2)
	epoch   map[int64]int16
	seq     map[int64]int32
	last    int32 // coordinator epoch
}

func randomHistory(t *rapid.T) *history {
	h := &history{bumps: rapid.Bool().Draw(t, "bumps"), epoch: map[int64]int16{}, seq: map[int64]int32{}, last: 1}
	open := map[int64]bool{}
	for range rapid.IntRange(1, 60).Draw(t, "batches") {
		id, at := rapid.Int64Range(1, 3).Draw(t, "producer"), int64(len(h.batches))
		if open[id] && rapid.IntRange(0, 9).Draw(t, "ends") < 3 {
			h.last += rapid.Int32Range(0, 1).Draw(t, "coordinator")
			if h.bumps {
				h.epoch[id]++
				h.seq[id] = 0
			}
			kind := rapid.SampledFrom([]record.ControlType{record.Abort, record.Commit}).Draw(t, "kind")
			h.batches = append(h.batches, marker(at, id, h.epoch[id], kind, h.last))
			open[id] = false
			continue
		}
		h.batches = append(h.batches, in(t, at, id, h.epoch[id], h.seq[id]))
		h.seq[id]++
		open[id] = true
	}
	return h
}

// inFlight returns up to where the history may be uncommitted from an offset on: a producer has
// five batches in flight at most, and none after a marker that is not committed.
func (h *history) inFlight(from int) int {
	batches, ended := map[int64]int{}, map[int64]bool{}
	for i, b := range h.batches[from:] {
		id := b.ProducerID()
		if b.Control() {
			ended[id] = true
			continue
		}
		if batches[id]++; batches[id] > Window || ended[id] {
			return from + i
		}
	}
	return len(h.batches)
}

// judge returns what a state says of a batch or a marker.
func (h *history) judge(s *State, b record.Batch) (dup bool, err error) {
	if b.Control() {
		_, dup, err = s.CheckMarker(b, Sender{Bumps: h.bumps})
		return dup, err
	}
	_, dup, err = s.Check(b, permit(s, b.ProducerID()))
	return dup, err
}

// A log that begins anywhere judges each later batch and marker as the one that reported it, if it
// gets all batches. If those from some offset on are lost, it accepts them when they are sent
// again, and no marker of a former coordinator.
func TestALogThatReceivesStateJudgesAsTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := randomHistory(t)
		end := rapid.IntRange(0, len(h.batches)).Draw(t, "end")
		whole := end == len(h.batches)
		h.batches = h.batches[:h.inFlight(end)]
		start := rapid.IntRange(0, end).Draw(t, "start")
		var l State
		l.MarkDurable(0)
		for i, b := range h.batches {
			l.Add(b, now)
			l.MarkDurable(int64(i) + 1)
		}
		if rapid.Bool().Draw(t, "checkpoint") {
			l.Append(nil, int64(len(h.batches)))
		}
		f := received(t, &l, int64(start))
		for i, b := range h.batches[start:] {
			if start+i >= end {
				if b.Control() { // by the coordinator as it is now
					kind, _, err := b.EndTxn()
					must.OK(t, err)
					b = marker(b.BaseOffset(), b.ProducerID(), b.ProducerEpoch(), kind, h.last)
				}
				if dup, err := h.judge(f, b); dup || err != nil {
					t.Fatalf("start %d, end %d: batch %d is sent again: %t, %v", start, end, start+i, dup, err)
				}
			}
			f.Add(b, now)
			f.MarkDurable(int64(start+i) + 1)
		}
		for id := range int64(4) {
			if !whole {
				break // markers of other coordinators came
			}
			for e := max(h.epoch[id]-1, 0); e <= h.epoch[id]+1; e++ {
				for c := range h.last + 2 {
					agree(t, h, &l, f, marker(math.MaxInt32, id, e, record.Abort, c))
				}
				for s := max(h.seq[id]-7, 0); s <= h.seq[id]+1; s++ {
					agree(t, h, &l, f, in(t, math.MaxInt32, id, e, s))
				}
			}
		}
		lost := received(t, &l, int64(start))
		for id := range int64(4) {
			if p, known := l.Producer(id); known && p.CoordinatorEpoch > 0 {
				m := marker(math.MaxInt32, id, math.MaxInt16, record.Abort, p.CoordinatorEpoch-1)
				if _, err := h.judge(lost, m); !errors.Is(err, ErrCoordinatorFenced) {
					t.Fatalf("start %d: the marker of a former coordinator of producer %d: %v", start, id, err)
				}
			}
		}
	})
}

// agree checks that two states say the same of a batch or a marker.
func agree(t *rapid.T, h *history, l, f *State, b record.Batch) {
	dup1, err1 := h.judge(l, b)
	dup2, err2 := h.judge(f, b)
	if dup1 != dup2 || (err1 == nil) != (err2 == nil) {
		t.Fatalf("producer %d, epoch %d, sequence %d, marker %t: %t %v, but the other %t %v", b.ProducerID(), b.ProducerEpoch(),
			b.BaseSequence(), b.Control(), dup2, err2, dup1, err1)
	}
}
