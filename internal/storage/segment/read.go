package segment

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/chronik-io/chronik/internal/record"
)

// indexes returns the current indexes, read from their files if they are not in memory, and the
// value of changes at that time. It treats unreadable indexes as missing: without an index a lookup
// only takes longer.
func (s *Segment) indexes() (x index, changes int) {
	s.mu.Lock()
	if s.x == nil {
		changes, fresh := s.changes, &index{savedOffsets: -1, savedTimes: -1}
		var err error
		if !s.stale && s.stage.Load() == live { // otherwise the files describe other batches
			s.mu.Unlock()
			fresh, err = loadIndex(s.files.fs, s.stem(), s.Size())
			s.mu.Lock()
		}
		if s.changes != changes && s.x == nil { // it was truncated or appended to meanwhile
			s.mu.Unlock()
			return index{savedOffsets: -1, savedTimes: -1}, -1
		}
		if s.x == nil && err != nil {
			fresh, s.known = &index{savedOffsets: -1, savedTimes: -1}, false
		}
		if s.x == nil {
			s.x = fresh
		}
	}
	x, changes = *s.x, s.changes
	victims := s.cacheIndexLocked()
	s.mu.Unlock()
	evict(victims)
	return x, changes
}

// distrust drops indexes that contradict the batches, and returns the new value of changes. They
// are not read from the files again.
func (s *Segment) distrust() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropIndexLocked()
	s.stale, s.known = true, false
	s.changes++
	return s.changes
}

// floor returns a position at or before the batch that holds offset: 0 if no entry helps. right
// reports whether the entry matches its batch.
func (s *Segment) floor(h *handle, x *index, offset int64) (pos int64, right bool) {
	e, some := x.floor(int32(min(max(offset-s.base, -1), math.MaxInt32)))
	if !some {
		return 0, true
	}
	var b [record.HeaderSize]byte
	if _, err := h.f.ReadAt(b[:], int64(e.pos)); err != nil {
		return 0, false
	}
	_, err := record.PeekSize(b[:])
	return int64(e.pos), err == nil && record.Batch(b[:]).LastOffset()-s.base == int64(e.rel)
}

// start is floor for a lookup, which begins at the start of the file if the entry is wrong.
func (s *Segment) start(h *handle, x *index, offset int64) int64 {
	pos, right := s.floor(h, x, offset)
	if !right {
		s.distrust()
		return 0
	}
	return pos
}

// timeStart returns the position of the batch of the last time index entry below a timestamp:
// everything before it is older.
func (s *Segment) timeStart(h *handle, x *index, ts int64) (pos int64, err error) {
	e, some := x.floorTime(ts)
	if !some {
		return 0, nil
	}
	at, right := s.base+int64(e.rel), false
	err = s.walk(h, s.start(h, x, at), false, func(b record.Batch, p, _ int64) bool {
		pos, right = p, b.LastOffset() == at && b.Newest() == e.ts
		return b.LastOffset() < at
	})
	if err == nil && !right {
		s.distrust()
		return 0, nil
	}
	return pos, err
}

// find returns the position and size of the batch that holds offset, or of the first one after it;
// size 0 means that there is none. find checks a batch after offset against the header of the next
// batch, because no checksum covers its base offset.
func (s *Segment) find(h *handle, offset int64) (pos, size int64, err error) {
	x := s.complete(h)
	err = s.walk(h, s.start(h, &x, offset), true, func(b record.Batch, at, n int64) bool {
		switch {
		case size > 0:
			return false
		case b.LastOffset() >= offset:
			pos, size = at, n
		}
		return b.BaseOffset() > offset || size == 0
	})
	return pos, size, err
}

// MaxTimestamp returns the largest timestamp in the segment and the last offset of its batch; -1,
// -1 for an empty segment.
func (s *Segment) MaxTimestamp() (ts, offset int64, err error) {
	s.mu.Lock()
	known := s.known
	ts, offset = s.maxTs, s.maxAt
	s.mu.Unlock()
	if known || s.Size() == 0 {
		return ts, offset, nil
	}
	err = s.lookup(func(h *handle) (err error) {
		ts, offset, err = s.build(h)
		return err
	})
	return ts, offset, err
}

// lookup calls fn with the open file. It returns ErrReplaced if the file was truncated meanwhile:
// fn may have found a mixture of removed and new batches.
func (s *Segment) lookup(fn func(h *handle) error) error {
	h, err := s.open()
	if err != nil {
		return fmt.Errorf("read segment: %w", err)
	}
	defer s.files.release(h)
	cuts, end := s.positions.count(), s.Size()
	err = fn(h)
	if s.positions.count() != cuts || s.Size() < end {
		return fmt.Errorf("%w: %s was truncated", ErrReplaced, s.Path())
	}
	return err
}

// FindTimestamp returns the first whole batch that has a timestamp of ts or later and whose last
// offset is at or beyond from; nil if there is none.
func (s *Segment) FindTimestamp(ts, from int64) (b record.Batch, err error) {
	// MaxTimestamp usually needs no disk I/O. Damage in the segment may lie behind the answer.
	if top, _, err := s.MaxTimestamp(); err != nil && !errors.Is(err, ErrCorrupt) || err == nil && top < ts {
		return nil, err
	}
	err = s.lookup(func(h *handle) (err error) {
		b, err = s.findTimestamp(h, ts, from)
		return err
	})
	return b, err
}

func (s *Segment) findTimestamp(h *handle, ts, from int64) (record.Batch, error) {
	x := s.complete(h)
	pos, err := s.timeStart(h, &x, ts)
	if err != nil {
		return nil, err
	}
	pos = max(pos, s.start(h, &x, from))
	var at, size int64
	err = s.walk(h, pos, false, func(b record.Batch, p, n int64) bool {
		if b.Newest() < ts || b.LastOffset() < from {
			return true
		}
		at, size = p, n
		return false
	})
	if err != nil || size == 0 {
		return nil, err
	}
	buf, content := make([]byte, size), s.content.Load()
	if got, err := h.f.ReadAt(buf, at); errors.Is(err, io.EOF) { // the file was cut, which whole finds
		clear(buf[got:])
	} else if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	b, _, err := s.whole(buf, at, math.MaxInt64, content)
	return record.Batch(b), err
}

// Headers calls fn for the header of every batch that begins at or after offset, in order, until fn
// returns false.
func (s *Segment) Headers(offset int64, fn func(record.Batch) bool) error {
	return s.lookup(func(h *handle) error {
		x, _ := s.indexes()
		return s.walk(h, s.start(h, &x, offset), false, func(b record.Batch, _, _ int64) bool {
			return b.BaseOffset() < offset || fn(b)
		})
	})
}
