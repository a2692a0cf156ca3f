package upload

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sort"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// Log is the log that is uploaded: a *storage.Hold. It may grow; the batches that it has must not
// change.
type Log interface {
	Read(offset, limit int64, max int, atLeastOne bool) (storage.Slice, error)
	AbortedIn(offset int64, s *storage.Slice) ([]txnindex.Entry, error)
	// Written returns when the records below an offset were written.
	Written(end int64) (time.Time, error)
}

// ErrLog marks errors of the log, and not of the store.
var ErrLog = errors.New("read the log to archive")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readSize is how many bytes are read from a log at a time, and worked on without a rest.
const readSize = 256 << 10

// source is a range of a log as the bytes of its batches. It holds one read of them in memory, and
// reads again what is asked for later.
type source struct {
	log       Log
	base, end int64 // offsets: base is the first batch's
	size      int64
	sum       uint32   // CRC-32C of the bytes
	reads     []readAt // in order
	epochs    []epochs.Entry
	aborted   []txnindex.Entry // whose markers are in the range
	later     []txnindex.Entry // that have records in it, and later markers, as far as the log has them

	mu     sync.Mutex // guards the following fields
	work   pause.Work // on what is held
	held   []byte     // those of one read
	heldAt int64      // their position; meaningless if held is empty
}

// readAt is where a read begins.
type readAt struct{ pos, offset int64 }

// scan finds the batches of a log that begin in [from, limit), until they have most bytes or more:
// most is exceeded by less than one read, of readSize bytes or one batch. The source ends at limit,
// or after the last batch if there may be more. It is empty if the range has no batch.
func (b *Batch) scan(ctx context.Context, log Log, from, limit, most int64) (*source, error) {
	s := &source{log: log, base: from, end: from, work: b.opt.Duty.Begin()}
	for s.end < limit && s.size < most {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		slice, err := log.Read(s.end, limit, int(min(readSize, most)), true)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLog, err)
		}
		if slice.Size == 0 { // a hole, up to the limit
			s.end = limit
			break
		}
		n := slice.Size
		err = s.add(&slice)
		slice.Release()
		s.work.Rest(n)
		if err == nil && b.opt.Spend != nil {
			err = b.opt.Spend(ctx, n)
			s.work.Restart()
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// add notes a read, and keeps its bytes.
func (s *source) add(slice *storage.Slice) error {
	at := s.end
	s.held, s.heldAt = appendParts(s.held[:0], slice), s.size
	s.sum = crc32.Update(s.sum, castagnoli, s.held)
	for rest := s.held; len(rest) > 0; {
		b, next, err := record.Next(rest)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLog, err)
		}
		if s.size == 0 {
			s.base = min(s.base, b.BaseOffset())
		}
		if n := len(s.epochs); n == 0 || s.epochs[n-1].Epoch != b.LeaderEpoch() {
			s.epochs = append(s.epochs, epochs.Entry{Epoch: b.LeaderEpoch(), Start: b.BaseOffset()})
		}
		s.size += int64(b.Size())
		s.end, rest = b.LastOffset()+1, next
	}
	s.reads = append(s.reads, readAt{s.heldAt, at})
	return s.findAborted(at, slice)
}

// findAborted adds the aborted transactions whose markers are in a read from an offset on, and
// notes those with records up to there and later markers.
func (s *source) findAborted(from int64, slice *storage.Slice) error {
	list, err := s.log.AbortedIn(from, slice)
	if err != nil {
		return fmt.Errorf("%w: its aborted transactions: %w", ErrLog, err)
	}
	s.later = nil
	for _, e := range list {
		switch {
		case e.Last >= s.end:
			s.later = append(s.later, e)
		case from <= e.Last:
			s.aborted = append(s.aborted, e)
		}
	}
	return nil
}

// firstAborted returns the least offset of a record of the transactions whose markers are in the
// range, -1 without any.
func (s *source) firstAborted() int64 {
	first := int64(-1)
	for _, e := range s.aborted {
		if first < 0 || e.First < first {
			first = e.First
		}
	}
	return first
}

// ReadAt implements io.ReaderAt. A call of Put that hangs may read while another one does.
func (s *source) ReadAt(p []byte, off int64) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(p) && off+int64(n) < s.size {
		at := off + int64(n) - s.heldAt
		if len(s.held) == 0 || at < 0 || at >= int64(len(s.held)) {
			if err := s.load(off + int64(n)); err != nil {
				return n, err
			}
			continue
		}
		n += copy(p[n:], s.held[at:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// load holds the read with the byte at a position. The log may return the same batches in smaller
// parts than before: a read of what is in memory ends elsewhere than one of files. The caller holds
// mu.
func (s *source) load(pos int64) error {
	i := sort.Search(len(s.reads), func(i int) bool { return s.reads[i].pos > pos }) - 1
	from, until := s.reads[i], readAt{s.size, s.end}
	if i+1 < len(s.reads) {
		until = s.reads[i+1]
	}
	size := int(until.pos - from.pos)
	s.work.Rest(len(s.held))
	b := s.held[:0]
	s.held = nil // until it is whole
	for at := from.offset; len(b) < size; {
		slice, err := s.log.Read(at, until.offset, size-len(b), true)
		if err != nil {
			return fmt.Errorf("%w again: %w", ErrLog, err)
		}
		if slice.Size == 0 || len(b)+slice.Size > size {
			slice.Release()
			return fmt.Errorf("%w again: %d bytes from offset %d on, and %d before", ErrLog, len(b)+slice.Size, from.offset, size)
		}
		at = slice.Next()
		b = appendParts(b, &slice)
		slice.Release()
	}
	s.held, s.heldAt = b, from.pos
	return nil
}

// appendParts appends the bytes of a slice.
func appendParts(b []byte, slice *storage.Slice) []byte {
	for _, p := range slice.Parts {
		b = append(b, p...)
	}
	return b
}
