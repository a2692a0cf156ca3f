package window

import (
	"testing"
	"time"
)

func TestCounts(t *testing.T) {
	w := New(Config{Locks: 100, Deliveries: 2, Lock: 10}, 0)
	take := func(m Member, now time.Duration) {
		w.Take(Taking{Member: m, Now: now, From: 0, Records: 100, Batches: []Batch{{Base: 0, Last: 9}}}, nil)
	}
	ack := func(m Member, first, last int64, by AckType) {
		t.Helper()
		if _, err := w.Acknowledge(m, 5, []Ack{{First: first, Last: last, Types: []AckType{by}}}); err != nil {
			t.Fatal(err)
		}
	}
	take(1, 0)
	ack(1, 0, 1, Accept)
	ack(1, 0, 1, Accept) // a repetition
	ack(1, 2, 2, Reject)
	ack(1, 3, 3, Gap)
	ack(1, 4, 4, Renew)
	ack(1, 5, 6, Release)
	w.Expire(12) // 7 to 9; 4 was renewed
	want := Counts{Delivered: 10, Acknowledged: [5]int64{1, 2, 2, 1, 1}, Ended: 3}
	if got := w.Counts(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	before := w.Counts()
	take(2, 13)
	ack(2, 5, 5, Release) // at the limit
	w.Release(2)          // 6 to 9 as well
	want = Counts{Delivered: 5, Redelivered: 5, Acknowledged: [5]int64{0, 0, 1}, Ended: 4, Exhausted: 5}
	if got := w.Counts().Since(before); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	before.Add(want)
	if got := w.Counts(); got != before || got.Archived() != 6 {
		t.Errorf("%+v, want %+v", got, before)
	}
}
