package storage

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// Slice is the result of a read: whole batches, the first of which may begin below the requested
// offset. Release must be called once, when the bytes are no longer needed.
type Slice struct {
	Loan  *segment.Loan // of the batches before those in Parts; nil without any, and never set by Read
	Parts [][]byte
	Size  int
	// Larger is the size of the first batch if the slice is empty because that does not fit in the
	// bytes that the reader has memory for.
	Larger int
	held   []*bufpool.Buffer
}

// Pooled returns a slice of whole batches, which are the first n bytes of a buffer. Its Release
// releases the buffer.
func Pooled(buf *bufpool.Buffer, n int) Slice {
	return Slice{Parts: [][]byte{buf.Bytes()[:n:n]}, Size: n, held: []*bufpool.Buffer{buf}}
}

// Release releases the memory.
func (s *Slice) Release() {
	for _, b := range s.held {
		b.Release()
	}
	if s.Loan != nil {
		s.Loan.Release()
	}
	s.held, s.Parts, s.Loan = nil, nil, nil
}

// Read returns the batch that holds offset and the following batches that begin below limit, up to
// max bytes in total. If atLeastOne is set, it returns the first batch even if that is larger. At
// the limit or the log end the slice is empty. Errors match ErrOffsetOutOfRange, ErrCorrupt,
// ErrFailed, ErrClosed.
func (l *Log) Read(offset, limit int64, max int, atLeastOne bool) (Slice, error) {
	return l.read(offset, limit, max, atLeastOne, segment.NoLoans, nil)
}

// Lend is Read for a reader to which the system can send bytes of a file. If the first bytes are in
// a file, were verified a short time ago and are still in memory, the slice has a loan of them.
func (l *Log) Lend(offset, limit int64, max int, atLeastOne bool) (Slice, error) {
	return l.read(offset, limit, max, atLeastOne, segment.MayLend, nil)
}

// LendOnly is Lend for a reader that has no memory: the slice has a loan, or is empty.
func (l *Log) LendOnly(offset, limit int64, max int, atLeastOne bool) (Slice, error) {
	return l.read(offset, limit, max, atLeastOne, segment.OnlyLoans, nil)
}

// read returns what Read, Lend and LendOnly do, for the reader of a Hold if h is not nil.
func (l *Log) read(offset, limit int64, max int, atLeastOne bool, loans segment.Loans, h *Hold) (Slice, error) {
	at, cuts := offset, 0 // [offset, at) is known to be a hole, unless the log was truncated since
	for {
		l.mu.RLock()
		if l.cuts != cuts {
			at, cuts = offset, l.cuts
		}
		most, one := max, atLeastOne
		if loans == segment.OnlyLoans {
			most, one = 1, false // a batch has more
		}
		s, done, err := l.readMemoryLocked(at, limit, most, one, h)
		if done {
			l.mu.RUnlock()
			return s, err
		}
		seg, next := l.segmentAt(at)
		flushed, lacking := l.flushed, l.refusedLocked(loglife.Whole)
		l.mu.RUnlock()
		if lacking != nil && at >= flushed {
			return Slice{}, lacking // the offset is being replayed
		}
		if at >= flushed {
			return Slice{}, nil
		}
		if seg == nil { // a gap is all that was flushed
			at = flushed
			continue
		}
		buf, b, loan, err := seg.ReadOrLend(l.dir.memory.pool, at, min(limit, flushed), max, atLeastOne, loans)
		if loan != nil && loan.Next() > next { // a base offset is too high, or the segment was truncated
			loan.Release()
			if loans == segment.OnlyLoans {
				return Slice{Larger: 1}, nil // a batch, at least
			}
			loans = segment.NoLoans
			continue
		}
		if loan != nil {
			s := l.lent(loan)
			if loans != segment.OnlyLoans {
				l.readOn(&s, seg, min(limit, flushed), max, cuts)
			}
			return s, nil
		}
		larger := segment.LargerError{}
		switch {
		case errors.As(err, &larger):
			return Slice{Larger: int(larger.Size)}, nil
		case errors.Is(err, segment.ErrReplaced): // the log has another one now
		case errors.Is(err, segment.ErrEnd):
			at = next
		default:
			s, err := l.fromDisk(buf, b, err, seg)
			if errors.Is(err, segment.ErrReplaced) {
				continue
			}
			if s.Size > 0 {
				l.readOn(&s, seg, min(limit, flushed), max, cuts)
			}
			return s, err
		}
	}
}

// readOn appends the following batches of a segment to a slice that has some, if max is more than
// one read returns. It returns early at any error: the next read meets it
// first.
func (l *Log) readOn(s *Slice, seg *segment.Segment, limit int64, max, cuts int) {
	for max > segment.PartBytes {
		at, room := s.Next(), max-s.Size
		if at >= limit || room < s.last() { // the next batch is probably as large
			return
		}
		buf, b, err := seg.ReadInto(l.dir.memory.pool, at, limit, room, false)
		if err != nil || len(b) == 0 {
			return
		}
		if l.wasCut(cuts) {
			buf.Release()
			return
		}
		s.Parts, s.held, s.Size = append(s.Parts, b), append(s.held, buf), s.Size+len(b)
	}
}

// last returns the size of the last batch, 0 if it is not known.
func (s *Slice) last() int {
	if len(s.Parts) == 0 {
		return 0
	}
	return len(lastOf(s.Parts[len(s.Parts)-1]))
}

// lent returns a slice with a loan.
func (l *Log) lent(loan *segment.Loan) Slice {
	l.dir.stats.lentReads.Inc()
	l.lastSegmentRead.Store(time.Now().UnixNano())
	return Slice{Loan: loan, Size: loan.Size()}
}

// lastOf returns the last of one or more batches.
func lastOf(batches []byte) record.Batch {
	for {
		b, rest, err := record.Next(batches)
		if err != nil || len(rest) == 0 {
			return b
		}
		batches = rest
	}
}

// wasCut reports whether the log was truncated since cuts was read.
func (l *Log) wasCut(cuts int) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.cuts != cuts
}

// ReadMemory is Read without disk access. It never blocks; ok is false if the disk would be needed.
func (l *Log) ReadMemory(offset, limit int64, max int, atLeastOne bool) (s Slice, ok bool, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.readMemoryLocked(offset, limit, max, atLeastOne, nil)
}

// readMemoryLocked is ReadMemory for a caller that holds mu.
func (l *Log) readMemoryLocked(offset, limit int64, max int, atLeastOne bool, h *Hold) (s Slice, ok bool, err error) {
	if err := l.readableLocked(offset, h); err != nil {
		return Slice{}, true, err
	}
	if offset >= limit || max <= 0 && !atLeastOne {
		return Slice{}, true, nil
	}
	if start, held := l.tail.start(); !held || offset < start {
		return Slice{}, false, nil
	}
	if !l.life.state.Allows(loglife.Whole) && l.tail.find(offset) == len(l.tail.chunks) {
		return Slice{}, false, nil // the offset is being replayed
	}
	l.dir.stats.cacheReads.Inc()
	return l.readTailLocked(offset, limit, max, atLeastOne), true, nil
}

// readableLocked returns why an offset cannot be read, nil if it can. The caller holds mu.
func (l *Log) readableLocked(offset int64, h *Hold) error {
	if err := l.refusedLocked(loglife.Read); err != nil {
		return err
	}
	if start, end := l.firstLocked(h), l.logEnd.Load(); offset < start || offset > end {
		return fmt.Errorf("%w: offset %d of %s, which holds [%d, %d)", ErrOffsetOutOfRange, offset, l, start, end)
	}
	return nil
}

// firstLocked returns where the reader of a Hold, or any reader, may begin. The caller holds mu.
func (l *Log) firstLocked(h *Hold) int64 {
	if h == nil {
		return l.logStart.Load()
	}
	return h.start
}

// fromDisk returns the result of a read from a segment as a slice. buf holds b; nil if there is
// none.
func (l *Log) fromDisk(buf *bufpool.Buffer, b []byte, err error, seg *segment.Segment) (Slice, error) {
	l.dir.stats.diskReads.Inc()
	switch {
	case errors.Is(err, segment.ErrReplaced):
		return Slice{}, err
	case err != nil && (l.Offline() != nil || !l.hasSegment(seg)):
		return Slice{}, segment.ErrReplaced // if the log is out of use, the next attempt returns the reason
	case errors.Is(err, segment.ErrCorrupt):
		if l.examine(seg, err) {
			return Slice{}, segment.ErrReplaced // the data behind the damage can be read now
		}
		return Slice{}, fmt.Errorf("%w: %s: %w", ErrCorrupt, l, err)
	case err != nil:
		l.dir.segmentError(l, "segment could not be read", err)
		return Slice{}, fmt.Errorf("%w: %s: %w", ErrFailed, l, err)
	case len(b) == 0:
		return Slice{}, nil
	}
	l.lastSegmentRead.Store(time.Now().UnixNano())
	return Slice{Parts: [][]byte{b}, Size: len(b), held: []*bufpool.Buffer{buf}}, nil
}

// hasSegment reports whether a segment is in the log's list.
func (l *Log) hasSegment(seg *segment.Segment) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Contains(l.segments, seg)
}

// inlineParts holds the parts of a small slice, to save allocations.
type inlineParts struct {
	parts [8][]byte
	held  [8]*bufpool.Buffer
}

// readTailLocked reads batches from memory. The caller holds mu.
func (l *Log) readTailLocked(offset, limit int64, max int, atLeastOne bool) Slice {
	room := new(inlineParts)
	s := Slice{Parts: room.parts[:0], held: room.held[:0]}
	for i := l.tail.find(offset); i < len(l.tail.chunks); i++ {
		c := l.tail.chunks[i]
		if c.base >= limit {
			break
		}
		if c.gap {
			continue
		}
		p := c.data
		if c.base < offset {
			p = p[c.batchAt(offset):]
		}
		n := trim(p, limit, max-s.Size, atLeastOne && s.Size == 0)
		if n == 0 {
			// The batch may also begin at the limit, behind a hole with the offset: then more room
			// does not help.
			if b, _, err := record.Next(p); s.Size == 0 && err == nil && b.BaseOffset() < limit {
				s.Larger = len(b)
			}
			break
		}
		c.buf.Retain()
		s.held = append(s.held, c.buf)
		s.Parts = append(s.Parts, p[:n:n])
		s.Size += n
		if n < len(p) {
			break
		}
	}
	return s
}
