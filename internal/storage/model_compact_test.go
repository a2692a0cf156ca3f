package storage

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/record"
)

// Every second log of the model is compacted from time to time. Such a log is compared not by its
// batches but by what a reader from its start knows at its end.

// mayCompact reports whether the model compacts a log.
func (m *mlog) mayCompact() bool { return m.id.Topic[0]%2 == 0 }

// tombstones returns how long tombstones of a log stay: 0, or longer than the model runs.
func (m *mlog) tombstones() time.Duration { return time.Duration(m.id.Topic[0]/2%2) * time.Hour }

// High implements Observer.
func (m *mlog) High() (int64, int32) { return math.MaxInt64, 0 }

// Stable implements Observer: the model truncates nothing below.
func (m *mlog) Stable() int64  { return m.high.Load() }
func (m *mlog) Copied() int64  { return math.MaxInt64 }
func (m *mlog) Deleted() int64 { return 0 }

// modelKey returns the key of a record: one of a few.
func (w *world) modelKey() []byte { return []byte{'k', byte(w.rng.IntN(9))} }

// compact runs a pass over a log, if one is due, and writes to the directory meanwhile.
func (w *world) compact(m *mlog) {
	if !m.mayCompact() || m.l.Err() != nil {
		return
	}
	w.poll()
	m.mu.Lock()
	high := max(m.high.Load(), m.cur.written-w.rng.Int64N(8))
	m.compacted = true
	m.mu.Unlock()
	m.high.Store(high)
	if w.rng.IntN(3) > 0 {
		w.rollUp(m)
	}
	w.say("compact %s below %d", m.topic, high)
	m.l.setCleanup(Cleanup{Compact: true, Tombstones: m.tombstones()})
	w.dir.compactingMu.Lock()
	m.l.attempts.retry = time.Time{}
	w.dir.compactingMu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.dir.compactNext()
	}()
	if w.rng.IntN(2) == 0 {
		w.append(w.logs[w.rng.IntN(len(w.logs))], 1+w.rng.IntN(4))
	}
	<-done
	m.l.setCleanup(Cleanup{})
	w.dir.memory.evict(m.l, math.MaxInt64, 0) // makes readers read segments
}

// sees is what a reader knows after the records of a batch from an offset on.
type sees struct {
	from int64
	last map[string]string // by key; including tombstones
	at   map[int64]string  // every record
}

func (s *sees) batch(data []byte) {
	err := record.Batch(data).Each(record.Limits{}, func(r record.Record) error {
		v := fmt.Sprintf("%d %q %v %q", r.Timestamp, r.Key, r.Value == nil, r.Value)
		s.at[r.Offset] = v
		if r.Offset >= s.from {
			s.last[string(r.Key)] = fmt.Sprint(r.Offset, " ", v)
			if r.Value == nil {
				s.last[string(r.Key)] = ""
			}
		}
		return nil
	})
	if err != nil {
		failf("a batch can't be read: %v", err)
	}
}

func seen(from int64, bs []mbatch) sees {
	s := sees{from: from, last: map[string]string{}, at: map[int64]string{}}
	for _, b := range bs {
		s.batch(b.data)
	}
	return s
}

// sameState returns what a reader of a compacted log misses, "" if nothing.
func (m *mlog) sameState(start int64, want, got []mbatch) string {
	a, b := seen(start, want), seen(start, got)
	for at, v := range b.at {
		if a.at[at] != v {
			return fmt.Sprintf("at %d stands another record: %s instead of %s", at, v, a.at[at])
		}
	}
	if m.tombstones() == 0 {
		maps.DeleteFunc(a.last, func(_, v string) bool { return v == "" })
		maps.DeleteFunc(b.last, func(_, v string) bool { return v == "" })
	}
	if !maps.Equal(a.last, b.last) {
		return fmt.Sprintf("a reader knows %v, should know %v", b.last, a.last)
	}
	next := int64(0)
	for _, x := range got {
		if x.base < next {
			return fmt.Sprintf("the batch at %d comes after %d", x.base, next)
		}
		next = x.next
	}
	return ""
}

// isCompacted reports whether a log of the model was compacted: its batches may have gaps.
func (w *world) isCompacted(l *Log) bool {
	return slices.ContainsFunc(w.logs, func(m *mlog) bool { return m.l == l && m.compacted })
}
