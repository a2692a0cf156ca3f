package segment

import (
	"math"
	"time"

	"github.com/chronik-io/chronik/internal/record"
)

// Limits determine when a segment is full.
type Limits struct {
	Bytes         int64 // segment.bytes
	Ms            int64 // segment.ms, between the first batch's timestamp and the new one's
	JitterMs      int64 // segment.jitter.ms: the maximum reduction of Ms, chosen for each segment
	IndexInterval int   // index.interval.bytes
	IndexBytes    int   // segment.index.bytes
}

// RollMs returns the age in ms at which the segment rolls: Ms less a part of the jitter, chosen
// when the segment was created, so that the partitions of a topic do not all roll at once.
func (s *Segment) RollMs(l Limits) int64 {
	return l.Ms - int64(s.jitter*float64(max(min(l.JitterMs, l.Ms), 0)))
}

// Full reports whether batches of n bytes up to lastOffset, with a largest timestamp ts, belong in
// a new segment. Its age is measured between timestamps, as in Kafka; if the first batch has no
// timestamp, by the clock.
func (s *Segment) Full(l Limits, n int, lastOffset, ts int64) bool {
	size := s.Size()
	if size == 0 {
		return false
	}
	age := time.Since(s.begun).Milliseconds()
	if first, ok := s.First(); ok && first >= 0 {
		age = ts - first
	}
	return size+int64(n) > min(l.Bytes, math.MaxInt32) ||
		lastOffset-s.base > math.MaxInt32 ||
		age > s.RollMs(l) ||
		s.Entries() >= max(l.IndexBytes/offsetEntryLen, 1)
}

// first is the largest timestamp of the first batch, at which segment.ms begins.
type first struct {
	ts    int64
	known bool
}

// First returns the largest timestamp of the first batch, in ms since 1970, which is negative if
// the batch has none. ok is false if the segment is empty or cannot be read.
func (s *Segment) First() (ts int64, ok bool) {
	s.mu.Lock()
	f := s.first
	s.mu.Unlock()
	if f.known || s.Size() == 0 {
		return f.ts, f.known
	}
	h, err := s.open()
	if err != nil {
		return 0, false // the following append reports the error
	}
	defer s.files.release(h)
	var b [record.HeaderSize]byte
	if _, err := h.f.ReadAt(b[:], 0); err != nil {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = first{record.Batch(b[:]).Newest(), true}
	return s.first.ts, true
}

// Begun returns when this process created or opened the segment.
func (s *Segment) Begun() time.Time { return s.begun }
