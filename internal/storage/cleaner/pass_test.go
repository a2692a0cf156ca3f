package cleaner

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/record"
)

// history is a log of batches, as it is and as it was before any cleaning.
type history struct {
	t          *rapid.T
	all, log   []record.Batch
	end, clean int64
	now        int64
	keep       int64           // how long tombstones stay
	open       map[int64]bool  // producers with a transaction
	seqs       map[int64]int32 // by producer
	last       map[int64]int64 // last offset of each producer
	ended      map[int64]int64 // its last marker
	since      map[int64]int64 // tombstones by offset: when a pass first had it as the last of its key
}

func newHistory(t *rapid.T) *history {
	return &history{
		t: t, now: 1000, keep: rapid.Int64Range(0, 50).Draw(t, "delete.retention.ms"),
		open: map[int64]bool{}, seqs: map[int64]int32{}, last: map[int64]int64{}, ended: map[int64]int64{},
		since: map[int64]int64{},
	}
}

// write appends a batch of a few records, with or without a producer and a transaction.
func (h *history) write() {
	o := record.BatchOptions{BaseOffset: h.end}
	if rapid.IntRange(0, 3).Draw(h.t, "has a producer") > 0 {
		id := rapid.Int64Range(1, 3).Draw(h.t, "producer")
		o.Producer = &record.Producer{ID: id, Sequence: h.seqs[id]}
		if rapid.Bool().Draw(h.t, "in a transaction") || h.open[id] {
			o.Transactional, h.open[id] = true, true
		}
	}
	w := record.NewBuilder(o)
	for range rapid.IntRange(1, 4).Draw(h.t, "records") {
		var key, value []byte
		if k := rapid.IntRange(-1, 6).Draw(h.t, "key"); k >= 0 {
			key = fmt.Append(nil, "key ", k)
		}
		if rapid.IntRange(0, 3).Draw(h.t, "has a value") > 0 {
			value = fmt.Append(nil, "value ", h.end, w.Len())
		}
		w.Append(h.now, key, value, nil)
	}
	if o.Producer != nil {
		h.seqs[o.Producer.ID] += int32(w.Len())
		h.last[o.Producer.ID] = h.end + int64(w.Len()) - 1
	}
	h.add(w)
}

func (h *history) add(w *record.Builder) {
	b, err := w.Build()
	if err != nil {
		h.t.Fatal(err)
	}
	h.all, h.log = append(h.all, b), append(h.log, b)
	h.end = b.LastOffset() + 1
}

// finish ends a transaction.
func (h *history) finish() {
	for _, id := range slices.Sorted(maps.Keys(h.open)) {
		w := record.NewBuilder(record.BatchOptions{BaseOffset: h.end, Producer: &record.Producer{ID: id, Sequence: -1},
			Transactional: true, Control: true})
		w.Append(h.now, []byte{0, 0, 0, byte(rapid.IntRange(0, 1).Draw(h.t, "commits"))}, make([]byte, 6), nil)
		h.ended[id] = h.end
		h.add(w)
		delete(h.open, id)
		return
	}
}

// pass cleans the log up to an offset, and stops at some batch.
func (h *history) pass(whole bool) {
	var o Outcomes
	for _, b := range h.log {
		if b.LastOffset() >= h.clean {
			h.check(o.Batch(b))
		}
	}
	limit := o.Stable(h.end)
	m := Mapper{Keys: NewKeyMap(0), From: h.clean, End: h.clean, Last: h.clean - 1, Transactions: NewTransactions(o.Aborted())}
	stop := limit
	if !whole && h.clean < limit {
		stop = rapid.Int64Range(h.clean, limit).Draw(h.t, "the map ends")
	}
	for _, b := range h.log {
		if b.LastOffset() >= limit {
			break
		}
		if b.LastOffset() >= stop {
			m.Keys.budget = 0 // the next new key does not fit
		}
		more, err := m.Batch(b)
		if h.check(err); !more {
			break
		}
	}
	f := Filter{
		Keys: m.Keys, End: m.End, Last: m.Last, Now: h.now, Tombstones: h.keep, Transactions: NewTransactions(o.Aborted()),
		IsLast: func(id, offset int64) bool {
			at, ok := h.last[id]
			end, ends := h.ended[id]
			return ok && at == offset || ends && end == offset
		},
	}
	until := len(h.log)
	if !whole {
		until = rapid.IntRange(0, until).Draw(h.t, "batches until it is given up")
	}
	finished := until == len(h.log)
	var left []record.Batch
	for i, b := range h.log {
		if i >= until {
			left = append(left, h.log[i:]...)
			break
		}
		out, changed, err := f.Batch(b)
		h.check(err)
		if out != nil {
			left = append(left, out)
		}
		if at, set := b.DeleteHorizon(); out == nil && b.Control() && b.Records() > 0 && (!set || at > h.now) {
			h.t.Fatalf("the marker at %d went before its time", b.BaseOffset())
		}
		if same := out != nil && &out[0] == &b[0]; same == changed {
			h.t.Fatalf("the batch at %d: changed is %v", b.BaseOffset(), changed)
		}
	}
	for id, at := range h.ended {
		if !slices.ContainsFunc(left, func(b record.Batch) bool { return b.Control() && b.BaseOffset() == at && b.Records() == 1 }) {
			h.t.Fatalf("the last marker of producer %d, at %d, is gone", id, at)
		}
	}
	h.tombstones(f.End, left)
	h.log = left
	if finished {
		h.clean = max(h.clean, f.End)
	}
}

func (h *history) check(err error) {
	if err != nil {
		h.t.Fatal(err)
	}
}

// committed calls fn for the records of a log that count.
func (h *history) committed(log []record.Batch, fn func(r record.Record)) {
	type ended struct {
		at     int64
		commit bool
	}
	ends := map[int64][]ended{} // of the transactions of each producer
	for _, b := range log {
		if b.Control() && b.Records() > 0 {
			kind, err := b.Marker()
			h.check(err)
			ends[b.ProducerID()] = append(ends[b.ProducerID()], ended{b.BaseOffset(), kind == record.Commit})
		}
	}
	for _, b := range log {
		counts := !b.Control()
		if b.Transactional() {
			for _, e := range ends[b.ProducerID()] {
				if e.at > b.LastOffset() {
					counts = counts && e.commit
					break
				}
			}
		}
		if counts {
			h.check(b.Each(record.Limits{}, func(r record.Record) error { fn(r); return nil }))
		}
	}
}

// state returns what a reader from offset 0 knows at the end.
func (h *history) state(log []record.Batch) map[string]string {
	m := map[string]string{}
	h.committed(log, func(r record.Record) {
		if delete(m, string(r.Key)); r.Key != nil && r.Value != nil {
			m[string(r.Key)] = fmt.Sprint(r.Offset, r.Timestamp, string(r.Value))
		}
	})
	return m
}

// tombstones fails the test unless all tombstones that must stay did.
func (h *history) tombstones(end int64, left []record.Batch) {
	last, covered := map[string]record.Record{}, map[string]record.Record{}
	h.committed(h.all, func(r record.Record) {
		if r.Key == nil {
			return
		}
		key := string(r.Key)
		if last[key] = (record.Record{Offset: r.Offset, Value: slices.Clone(r.Value)}); r.Offset < end {
			covered[key] = last[key]
		}
	})
	for _, r := range covered {
		if _, known := h.since[r.Offset]; !known && r.Value == nil {
			h.since[r.Offset] = h.now
		}
	}
	there := map[int64]bool{}
	h.committed(left, func(r record.Record) { there[r.Offset] = true })
	for key, r := range last {
		if r.Value != nil {
			continue
		}
		since, known := h.since[r.Offset]
		if !there[r.Offset] && (!known || h.now < since+h.keep) {
			h.t.Fatalf("the tombstone of %s at %d went at %d; a pass saw it at %d first, and it stays for %d", key, r.Offset, h.now,
				since, h.keep)
		}
	}
}

// valid checks what must hold at any time.
func (h *history) valid() {
	if want, got := h.state(h.all), h.state(h.log); !maps.Equal(want, got) {
		h.t.Fatalf("a reader sees %v, should see %v", got, want)
	}
	var before, after Outcomes
	next, lasts := int64(0), map[int64]int64{}
	for _, b := range h.all {
		h.check(before.Batch(b))
	}
	for _, b := range h.log {
		h.check(after.Batch(b))
		if h.check(b.CheckCRC()); b.BaseOffset() < next {
			h.t.Fatalf("batch at %d after %d", b.BaseOffset(), next)
		}
		next = b.LastOffset() + 1
		if !b.Control() {
			lasts[b.ProducerID()] = b.LastOffset()
		}
	}
	if next != h.end {
		h.t.Fatalf("the log ends at %d instead of %d", next, h.end)
	}
	if a, b := before.Stable(h.end), after.Stable(h.end); a != b {
		h.t.Fatalf("the last stable offset was %d and is %d", a, b)
	}
	for id, at := range h.last {
		if lasts[id] != at {
			h.t.Fatalf("the last batch of producer %d ended at %d, now %d", id, at, lasts[id])
		}
	}
}

// TestPassKeepsLastValues checks that a reader sees the last value of every key, for any records,
// with and without transactions, and wherever passes end.
func TestPassKeepsLastValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				h.finish()
			case 2, 3:
				h.pass(false)
			case 4:
				h.pass(true)
			case 5:
				h.now += rapid.Int64Range(0, 60).Draw(t, "time passes")
			default:
				h.write()
			}
			h.valid()
		}
		h.finishAll()
	})
}

// finishAll ends all transactions and cleans until nothing changes. Below the last batches exactly
// one record per key must be left.
func (h *history) finishAll() {
	for len(h.open) > 0 {
		h.finish()
	}
	for range 4 {
		h.pass(true)
		h.valid()
		h.now += h.keep + 1
	}
	seen, left := map[string]bool{}, len(h.state(h.log))
	for _, b := range h.log {
		if b.Control() {
			continue
		}
		h.check(b.Each(record.Limits{}, func(r record.Record) error {
			if seen[string(r.Key)] || r.Value == nil {
				h.t.Fatalf("the record at %d of key %q is not needed", r.Offset, r.Key)
			}
			seen[string(r.Key)] = true
			return nil
		}))
	}
	if len(seen) != left {
		h.t.Fatalf("%d keys are left, want %d", len(seen), left)
	}
	markers, holders := 0, map[int64]bool{}
	for _, b := range h.log {
		switch {
		case !b.Control():
			holders[b.ProducerID()] = b.Transactional()
		case b.LastOffset() < h.end-1:
			if markers++; !holders[b.ProducerID()] && h.ended[b.ProducerID()] != b.BaseOffset() {
				h.t.Fatalf("the marker at %d ends nothing", b.BaseOffset())
			}
			holders[b.ProducerID()] = false
		}
	}
}
