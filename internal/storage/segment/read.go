package segment

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/chronik-io/chronik/internal/record"
)

// scanStep is how much is read at a time when only headers are wanted.
const scanStep = 32 << 10

// loadLocked returns the indexes, read from their files if they aren't in memory
// yet. Where that fails it returns empty ones, and the
// next call tries again: without an index a lookup only takes longer.
func (s *Segment) loadLocked() *index {
	if s.x == nil {
		x, err := loadIndex(s.files.fs, s.stem(), s.Size())
		if err != nil {
			return &index{}
		}
		s.x = x
	}
	return s.x
}

// distrust drops indexes that say what the batches don't.
func (s *Segment) distrust() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.x = &index{savedOffsets: -1, savedTimes: -1}
	s.known = false
}

// start returns a position at or before the batch that holds offset. An index
// entry that does not point to the batch it names is not trusted: the search
// then begins at the start of the file, and the index is dropped.
func (s *Segment) start(h *handle, offset int64) int64 {
	s.mu.Lock()
	e, ok := s.loadLocked().floor(int32(min(max(offset-s.base, -1), math.MaxInt32)))
	s.mu.Unlock()
	if !ok {
		return 0
	}
	var b [record.HeaderSize]byte
	if _, err := h.f.ReadAt(b[:], int64(e.pos)); err == nil {
		if _, err := record.PeekSize(b[:]); err == nil && record.Batch(b[:]).LastOffset()-s.base == int64(e.rel) {
			return int64(e.pos)
		}
	}
	s.distrust()
	return 0
}

// timeStart returns a time index entry, picked by pick, and the position of its
// batch, if the batch is what the entry says. Otherwise it returns false, and the
// index is dropped.
func (s *Segment) timeStart(h *handle, pick func(*index) (timeEntry, bool)) (e timeEntry, pos int64, ok bool, err error) {
	s.mu.Lock()
	e, ok = pick(s.loadLocked())
	s.mu.Unlock()
	if !ok {
		return e, 0, false, nil
	}
	at, ok := s.base+int64(e.rel), false
	err = s.walk(h, s.start(h, at), func(b record.Batch, p int64, _ int) bool {
		pos, ok = p, b.LastOffset() == at && b.Newest() == e.ts
		return b.LastOffset() < at
	})
	if err != nil || ok {
		return e, pos, ok, err
	}
	s.distrust()
	return e, 0, false, nil
}

// keep keeps what a lookup that passed many batches has learned.
func (s *Segment) keep(n *learned) {
	if len(n.offsets) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loadLocked().merge(n, s.Size())
}

// walk calls fn for the header of every batch from pos on, until fn returns
// false or the end of the readable bytes.
func (s *Segment) walk(h *handle, pos int64, fn func(b record.Batch, pos int64, size int) bool) error {
	end, next := s.Size(), s.base
	buf := make([]byte, 0, max(min(scanStep, end-pos), 0))
	bufAt := pos
	for pos < end {
		if pos < bufAt || pos+record.HeaderSize > bufAt+int64(len(buf)) {
			n := min(scanStep, end-pos)
			buf, bufAt = buf[:n], pos
			if _, err := h.f.ReadAt(buf, pos); err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read segment: %w", err)
			}
		}
		b := buf[pos-bufAt:]
		size, err := record.PeekSize(b)
		if err != nil || len(b) < record.HeaderSize || int64(size) > end-pos || !follows(b, next) {
			if s.Size() < end {
				return nil // it was cut meanwhile
			}
			return fmt.Errorf("%w at position %d of %s", ErrCorrupt, pos, s.Path())
		}
		next = record.Batch(b).LastOffset() + 1
		if !fn(record.Batch(b[:record.HeaderSize]), pos, size) {
			return nil
		}
		pos += int64(size)
	}
	return nil
}

// follows says whether a header's offsets may come after all below next. No
// checksum covers the base offset.
func follows(b record.Batch, next int64) bool {
	return b.BaseOffset() >= next && b.LastOffsetDelta() >= 0
}

// Find returns the position and size of the batch that holds offset, or of the
// first one after it; size 0 means that there is none.
func (s *Segment) Find(offset int64) (pos int64, size int, err error) {
	h, err := s.open()
	if err != nil {
		return 0, 0, fmt.Errorf("read segment: %w", err)
	}
	defer s.files.release(h)
	return s.find(h, offset)
}

func (s *Segment) find(h *handle, offset int64) (pos int64, size int, err error) {
	from := s.start(h, offset)
	passed := learned{base: s.base, from: from, maxTs: -1}
	defer s.keep(&passed)
	err = s.walk(h, from, func(b record.Batch, at int64, n int) bool {
		if b.LastOffset() < offset {
			passed.pass(b, at)
			return true
		}
		pos, size = at, n
		return false
	})
	return pos, size, err
}

// MaxTimestamp returns the largest timestamp in the segment and the last offset
// of the batch that has it; -1, -1 for an empty segment.
func (s *Segment) MaxTimestamp() (ts, offset int64, err error) {
	s.mu.Lock()
	known := s.known
	ts, offset = s.maxTs, s.maxAt
	s.mu.Unlock()
	if known || s.Size() == 0 {
		return ts, offset, nil
	}
	h, err := s.open()
	if err != nil {
		return 0, 0, fmt.Errorf("read segment: %w", err)
	}
	defer s.files.release(h)
	return s.rebuildTimes(h)
}

// rebuildTimes finds the timestamps of a segment that this process did not
// write: the time index knows all but what came after its last entry.
func (s *Segment) rebuildTimes(h *handle) (ts, at int64, err error) {
	ts, at = -1, -1
	e, from, ok, err := s.timeStart(h, (*index).lastTime)
	if err != nil {
		return 0, 0, err
	}
	if ok {
		ts, at = e.ts, s.base+int64(e.rel)
	}
	var begin first
	end := s.Size()
	passed := learned{base: s.base, from: from, maxTs: -1}
	if ok {
		passed.maxTs, passed.maxRel = e.ts, e.rel
	}
	err = s.walk(h, from, func(b record.Batch, pos int64, _ int) bool {
		passed.pass(b, pos)
		if pos == 0 {
			begin = first{b.Newest(), true}
		}
		if b.Newest() > ts {
			ts, at = b.Newest(), b.LastOffset()
		}
		return true
	})
	if err != nil {
		return 0, 0, err
	}
	s.keep(&passed)
	s.mu.Lock()
	defer s.mu.Unlock()
	if begin.known {
		s.first = begin
	}
	if s.Size() == end && !s.known {
		s.maxTs, s.maxAt, s.known = ts, at, true
	}
	return ts, at, nil
}

// FindTimestamp returns the first batch, whole, that has a timestamp of ts or
// later and reaches up to offset from or beyond; nil if there is none.
func (s *Segment) FindTimestamp(ts, from int64) (record.Batch, error) {
	top, _, err := s.MaxTimestamp()
	if err != nil || top < ts {
		return nil, err
	}
	h, err := s.open()
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	defer s.files.release(h)
	_, pos, _, err := s.timeStart(h, func(x *index) (timeEntry, bool) { return x.floorTime(ts) })
	if err != nil {
		return nil, err
	}
	pos = max(pos, s.start(h, from))
	var at int64
	var size int
	err = s.walk(h, pos, func(b record.Batch, p int64, n int) bool {
		if b.Newest() < ts || b.LastOffset() < from {
			return true
		}
		at, size = p, n
		return false
	})
	if err != nil || size == 0 {
		return nil, err
	}
	buf := make([]byte, size)
	if _, err := h.f.ReadAt(buf, at); err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	b, _, err := s.whole(buf, at, math.MaxInt64)
	return record.Batch(b), err
}

// Headers calls fn for the header of every batch that begins at or after
// offset, in order, until fn returns false.
func (s *Segment) Headers(offset int64, fn func(record.Batch) bool) error {
	h, err := s.open()
	if err != nil {
		return fmt.Errorf("read segment: %w", err)
	}
	defer s.files.release(h)
	return s.walk(h, s.start(h, offset), func(b record.Batch, _ int64, _ int) bool {
		return b.BaseOffset() < offset || fn(b)
	})
}
