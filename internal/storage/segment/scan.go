package segment

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// The least number of bytes read at a time: for headers only, and for whole batches.
const (
	headerStep = 32 << 10
	batchStep  = 256 << 10
)

// scanner reads the batches of a file one after the other, through a window.
type scanner struct {
	vfs.Window
	facts *Facts
}

func newScanner(f vfs.File, size, step int64, facts *Facts) scanner {
	return scanner{vfs.Window{File: f, Size: size, Step: step}, facts}
}

// header returns the header and the size of the batch at a position; nil if there is no whole
// batch.
func (s *scanner) header(pos int64) (record.Batch, int64, error) {
	b, err := s.Fill(pos, record.HeaderSize)
	if err != nil || len(b) < record.HeaderSize {
		return nil, 0, err
	}
	n, err := record.PeekSize(b)
	if err != nil || int64(n) > s.Size-pos {
		return nil, 0, nil
	}
	return record.Batch(b[:record.HeaderSize]), int64(n), nil
}

// batch returns the whole batch at a position, valid until the next call; nil if there is none.
func (s *scanner) batch(pos int64) (record.Batch, error) {
	h, n, err := s.header(pos)
	if h == nil {
		return nil, err
	}
	p, err := s.Fill(pos, n)
	if err != nil {
		return nil, err
	}
	b, _, err := record.Next(p)
	if err != nil {
		return nil, nil
	}
	return b, nil
}

// prefix calls fn for the whole batches in order from a position on, and returns the offset and the
// position after them. It stops at an error of fn.
func (s *scanner) prefix(pos, next int64, fn func(b record.Batch) error) (int64, int64, error) {
	for pos < s.Size {
		b, err := s.batch(pos)
		if err != nil {
			return 0, 0, err
		}
		if b == nil || s.facts.check(b, pos, next) != nil || b.CheckCRC() != nil {
			break
		}
		if err := fn(b); err != nil {
			return 0, 0, err
		}
		next = b.LastOffset() + 1
		pos += int64(len(b))
	}
	return next, pos, nil
}

// Prefix finds the valid prefix of a file, from a position at which offset next is expected,
// without changing the file. It returns the offset and the position after the prefix, and stops at
// an error of fn.
func Prefix(fsys vfs.FS, dir string, base, pos, next, size int64, fn func(record.Batch) error) (int64, int64, error) {
	f, err := fsys.Open(newSegment(nil, dir, base).Path())
	if err != nil {
		return 0, 0, fmt.Errorf("read segment: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	s := newScanner(f, size, batchStep, nil)
	return s.prefix(pos, next, fn)
}

// Batches calls fn for every batch, with its checksum verified, beginning with the batch that holds
// offset or is the first after it. It stops at an error of fn, which it returns. The batch is valid
// during the call. Damage matches ErrCorrupt. Batches uses the memory of the largest batch.
func (s *Segment) Batches(offset int64, fn func(record.Batch) error) error {
	h, err := s.open()
	if err != nil {
		return fmt.Errorf("read segment: %w", err)
	}
	defer s.files.release(h)
	sc := newScanner(h.f, s.Size(), batchStep, s.facts.Load())
	known := s.flaws.Load()
	x, _ := s.indexes()
	_, pos, err := sc.prefix(s.start(h, &x, offset), s.base, func(b record.Batch) error {
		if b.LastOffset() < offset {
			return nil
		}
		return fn(b)
	})
	if err == nil && pos < sc.Size {
		err = s.corrupt(pos, errNoBatch, known)
	}
	return err
}

// walk calls fn for the header of every batch from pos on, until fn returns false or the readable
// bytes end. Bytes that are not a batch cause an error that matches ErrCorrupt. With skip,
// walk skips those whose end Examine found.
func (s *Segment) walk(h *handle, pos int64, skip bool, fn func(b record.Batch, pos, size int64) bool) error {
	sc, next, known := newScanner(h.f, s.Size(), headerStep, s.facts.Load()), s.base, s.flaws.Load()
	for pos < sc.Size {
		if f := flawAt(known, pos); f != nil && skip {
			pos, next = pos+f.Size, f.To
			continue
		}
		b, size, err := sc.header(pos)
		if err != nil {
			return err
		}
		if b == nil || !sc.facts.follows(b, pos, next) {
			if s.Size() < sc.Size {
				return nil // it was truncated meanwhile
			}
			return s.corrupt(pos, errNoBatch, known)
		}
		next = b.LastOffset() + 1
		if !fn(b, pos, size) {
			return nil
		}
		pos += size
	}
	return nil
}
