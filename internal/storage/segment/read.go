package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/chronik-io/chronik/internal/record"
)

// scanStep is how much is read at a time when only headers are wanted.
const scanStep = 32 << 10

// loadLocked reads the indexes if they aren't in memory yet.
func (s *Segment) loadLocked() error {
	if s.x != nil {
		return nil
	}
	x, err := loadIndex(s.files.fs, s.stem(), s.Size())
	if err != nil {
		return err
	}
	s.x = x
	return nil
}

// start returns a position at or before the batch that holds offset. An index
// entry that does not point to the batch it names is not trusted: the search
// then begins at the start of the file, and the index is dropped.
func (s *Segment) start(h *handle, offset int64) (int64, error) {
	s.mu.Lock()
	if err := s.loadLocked(); err != nil {
		s.mu.Unlock()
		return 0, err
	}
	e, ok := s.x.floor(int32(min(max(offset-s.base, -1), math.MaxInt32)))
	s.mu.Unlock()
	if !ok {
		return 0, nil
	}
	var b [record.HeaderSize]byte
	if _, err := h.f.ReadAt(b[:], int64(e.pos)); err == nil {
		if last := record.Batch(b[:]).LastOffset(); last-s.base == int64(e.rel) {
			return int64(e.pos), nil
		}
	}
	s.mu.Lock()
	s.x = &index{savedOffsets: -1, savedTimes: -1}
	s.known = false
	s.mu.Unlock()
	return 0, nil
}

// walk calls fn for the header of every batch from pos on, until fn returns
// false or the end of the readable bytes.
func (s *Segment) walk(h *handle, pos int64, fn func(b record.Batch, pos int64, size int) bool) error {
	end := s.Size()
	buf := make([]byte, 0, scanStep)
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
		if err != nil || len(b) < record.HeaderSize || int64(size) > end-pos {
			return fmt.Errorf("%w at position %d of %s", ErrCorrupt, pos, s.Path())
		}
		if !fn(record.Batch(b[:record.HeaderSize]), pos, size) {
			return nil
		}
		pos += int64(size)
	}
	return nil
}

// Find returns the position and size of the batch that holds offset, or of the
// first one after it; size 0 means that there is none.
func (s *Segment) Find(offset int64) (pos int64, size int, err error) {
	h, err := s.files.acquire(s.Path(), false)
	if err != nil {
		return 0, 0, fmt.Errorf("read segment: %w", err)
	}
	defer s.files.release(h)
	return s.find(h, offset)
}

func (s *Segment) find(h *handle, offset int64) (pos int64, size int, err error) {
	from, err := s.start(h, offset)
	if err != nil {
		return 0, 0, err
	}
	err = s.walk(h, from, func(b record.Batch, at int64, n int) bool {
		if b.LastOffset() < offset {
			return true
		}
		pos, size = at, n
		return false
	})
	return pos, size, err
}

// Read returns whole batches, checksums compared, from the one that holds
// offset on: as many as fit into max bytes and begin below limit, and at least
// one if atLeastOne. Empty without an error means that nothing is there. An error that
// matches ErrCorrupt means that stored bytes are damaged.
func (s *Segment) Read(offset, limit int64, max int, atLeastOne bool) ([]byte, error) {
	h, err := s.files.acquire(s.Path(), false)
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	defer s.files.release(h)
	pos, size, err := s.find(h, offset)
	if err != nil || size == 0 || size > max && !atLeastOne {
		return nil, err
	}
	n := min(int64(max), s.Size()-pos)
	if n < int64(size) {
		n = int64(size)
	}
	buf := make([]byte, n)
	if _, err := h.f.ReadAt(buf, pos); err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	return s.whole(buf, pos, limit)
}

// whole trims buf to whole batches that begin below limit and compares their
// checksums.
func (s *Segment) whole(buf []byte, pos, limit int64) ([]byte, error) {
	at := 0
	for at < len(buf) {
		b, _, err := record.Next(buf[at:])
		if errors.Is(err, record.ErrShort) {
			break
		}
		if err == nil {
			if b.BaseOffset() >= limit {
				break
			}
			err = b.CheckCRC()
		}
		if err != nil {
			if at > 0 {
				break // hand out what is good; the next read meets the damage first
			}
			return nil, fmt.Errorf("%w at position %d of %s: %w", ErrCorrupt, pos, s.Path(), err)
		}
		at += len(b)
	}
	return buf[:at:at], nil
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
	return s.rebuildTimes()
}

// rebuildTimes finds the timestamps of a segment that this process did not
// write: the time index knows all but what came after its last entry.
func (s *Segment) rebuildTimes() (int64, int64, error) {
	h, err := s.files.acquire(s.Path(), false)
	if err != nil {
		return 0, 0, fmt.Errorf("read segment: %w", err)
	}
	defer s.files.release(h)
	s.mu.Lock()
	if err := s.loadLocked(); err != nil {
		s.mu.Unlock()
		return 0, 0, err
	}
	ts, rel := int64(-1), int32(-1)
	if n := len(s.x.times); n > 0 {
		ts, rel = s.x.times[n-1].ts, s.x.times[n-1].rel
	}
	s.mu.Unlock()
	from, at := int64(0), s.base+int64(rel)
	if rel >= 0 {
		if from, err = s.start(h, at); err != nil {
			return 0, 0, err
		}
	} else {
		at = -1
	}
	first := int64(-1)
	err = s.walk(h, from, func(b record.Batch, pos int64, _ int) bool {
		if pos == 0 {
			first = b.MaxTimestamp()
		}
		if b.MaxTimestamp() > ts {
			ts, at = b.MaxTimestamp(), b.LastOffset()
		}
		return true
	})
	if err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first >= 0 {
		s.firstT = first
	}
	s.maxTs, s.maxAt, s.known = ts, at, true
	return ts, at, nil
}

// FindTimestamp returns the first batch, whole, with a timestamp of ts or later;
// nil if there is none.
func (s *Segment) FindTimestamp(ts int64) (record.Batch, error) {
	top, _, err := s.MaxTimestamp()
	if err != nil || top < ts {
		return nil, err
	}
	h, err := s.files.acquire(s.Path(), false)
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	defer s.files.release(h)
	s.mu.Lock()
	err = s.loadLocked()
	var from timeEntry
	var ok bool
	if err == nil {
		from, ok = s.x.floorTime(ts)
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	pos := int64(0)
	if ok {
		if pos, err = s.start(h, s.base+int64(from.rel)); err != nil {
			return nil, err
		}
	}
	var at int64
	var size int
	err = s.walk(h, pos, func(b record.Batch, p int64, n int) bool {
		if b.MaxTimestamp() < ts {
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
	b, err := s.whole(buf, at, math.MaxInt64)
	return record.Batch(b), err
}

// Headers calls fn for the header of every batch that begins at or after
// offset, in order, until fn returns false.
func (s *Segment) Headers(offset int64, fn func(record.Batch) bool) error {
	h, err := s.files.acquire(s.Path(), false)
	if err != nil {
		return fmt.Errorf("read segment: %w", err)
	}
	defer s.files.release(h)
	from, err := s.start(h, offset)
	if err != nil {
		return err
	}
	return s.walk(h, from, func(b record.Batch, _ int64, _ int) bool {
		return b.BaseOffset() < offset || fn(b)
	})
}

// Recover finds the valid prefix of the file: batch by batch from pos on, where
// next is the offset that is expected there, with checksums, up to the first
// one that is damaged or out of order. It cuts the file there and returns the
// next offset. fn sees every batch that stays.
func (s *Segment) Recover(pos, next int64, interval int, fn func(record.Batch)) (int64, error) {
	s.mu.Lock()
	if err := s.loadLocked(); err != nil {
		s.mu.Unlock()
		return 0, err
	}
	s.x.cut(pos, int32(min(next-s.base, math.MaxInt32)))
	s.mu.Unlock()
	h, err := s.files.acquire(s.Path(), false)
	if err != nil {
		return 0, fmt.Errorf("recover segment: %w", err)
	}
	size, err := h.f.Size()
	if err != nil {
		s.files.release(h)
		return 0, fmt.Errorf("recover segment: %w", err)
	}
	buf := []byte(nil)
	for pos < size {
		b, ok, err := readBatch(h, pos, size, &buf)
		if err != nil {
			s.files.release(h)
			return 0, err
		}
		if !ok || b.BaseOffset() < next || b.CheckCRC() != nil {
			break
		}
		s.mu.Lock()
		s.noteBatch(b, pos, interval)
		s.mu.Unlock()
		if fn != nil {
			fn(b)
		}
		next = b.LastOffset() + 1
		pos += int64(len(b))
	}
	s.files.release(h)
	return next, s.Cut(pos, next)
}

// readBatch reads the whole batch at a position; ok is false where there is none.
func readBatch(h *handle, pos, size int64, buf *[]byte) (record.Batch, bool, error) {
	n := min(size-pos, scanStep)
	if int64(cap(*buf)) < n {
		*buf = make([]byte, n)
	}
	b := (*buf)[:n]
	if _, err := h.f.ReadAt(b, pos); err != nil {
		return nil, false, fmt.Errorf("recover segment: %w", err)
	}
	if len(b) < record.HeaderSize {
		return nil, false, nil
	}
	length := int64(int32(binary.BigEndian.Uint32(b[8:]))) + 12
	if length < record.HeaderSize || length > size-pos {
		return nil, false, nil
	}
	if length > n {
		if int64(cap(*buf)) < length {
			*buf = make([]byte, length)
		}
		b = (*buf)[:length]
		if _, err := h.f.ReadAt(b, pos); err != nil {
			return nil, false, fmt.Errorf("recover segment: %w", err)
		}
	}
	batch, _, err := record.Next(b)
	return batch, err == nil, nil
}
