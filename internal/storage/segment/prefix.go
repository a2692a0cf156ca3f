package segment

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/record"
)

// scanner reads the batches of a file one after the other.
type scanner struct {
	h    *handle
	size int64
	buf  []byte
	at   int64 // position of buf
}

// batch returns the batch at a position, whole, valid until the next call; nil
// where there is none.
func (s *scanner) batch(pos int64) (record.Batch, error) {
	if err := s.fill(pos, min(record.HeaderSize, s.size-pos)); err != nil {
		return nil, err
	}
	n, err := record.PeekSize(s.buf[pos-s.at:])
	if err != nil || int64(n) > s.size-pos {
		return nil, nil
	}
	if err := s.fill(pos, int64(n)); err != nil {
		return nil, err
	}
	b, _, err := record.Next(s.buf[pos-s.at:])
	if err != nil {
		return nil, nil
	}
	return b, nil
}

// prefix calls fn for the batches from a position on that are whole and in order, and
// returns the offset and the position behind them. An error of fn ends it.
func (s *scanner) prefix(pos, next int64, fn func(b record.Batch, pos int64) error) (int64, int64, error) {
	for pos < s.size {
		b, err := s.batch(pos)
		if err != nil {
			return 0, 0, fmt.Errorf("recover segment: %w", err)
		}
		if b == nil || !follows(b, next) || b.CheckCRC() != nil {
			break
		}
		if err := fn(b, pos); err != nil {
			return 0, 0, err
		}
		next = b.LastOffset() + 1
		pos += int64(len(b))
	}
	return next, pos, nil
}

// recoverStep is how much is read at a time, at least.
const recoverStep = 256 << 10

// fill makes n bytes at a position available.
func (s *scanner) fill(pos, n int64) error {
	if s.buf != nil && pos >= s.at && pos+n <= s.at+int64(len(s.buf)) {
		return nil
	}
	want := min(max(n, recoverStep), s.size-pos)
	if int64(cap(s.buf)) < want {
		s.buf = make([]byte, want)
	}
	s.buf, s.at = s.buf[:want], pos
	_, err := s.h.f.ReadAt(s.buf, pos)
	return err
}
