package segment

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Read is ReadInto with newly allocated memory.
func (s *Segment) Read(offset, limit int64, max int, atLeastOne bool) ([]byte, error) {
	var own bufpool.Pool
	_, b, err := s.ReadInto(&own, offset, limit, max, atLeastOne)
	return b, err
}

// ErrEnd means that a segment holds no batch at or after an offset; the next segment may.
var ErrEnd = errors.New("no batch at or after the offset in this segment")

// ReadInto returns whole batches with verified checksums, beginning with the batch that holds
// offset. It returns as many as fit in max bytes and in PartBytes and begin below limit, and at
// least one if atLeastOne. One that is larger than PartBytes is returned alone, if it fits in max
// bytes. No batches and no error means that the next batch does not fit or begins at or beyond
// limit; ErrEnd means that there is none. An error that matches ErrCorrupt means that stored bytes
// are damaged. The batches are valid until the caller releases the buffer, which is nil if there
// are none.
//
// If a reader continues where its last read ended, ReadInto reads the file once, because it
// remembers that position. Otherwise it uses the index.
func (s *Segment) ReadInto(pool *bufpool.Pool, offset, limit int64, max int, atLeastOne bool) (*bufpool.Buffer, []byte, error) {
	buf, b, _, err := s.ReadOrLend(pool, offset, limit, max, atLeastOne, NoLoans)
	if errors.As(err, new(LargerError)) {
		err = nil
	}
	return buf, b, err
}

// Loans are what a reader can use.
type Loans uint8

// The values of Loans.
const (
	NoLoans   Loans = iota // batches in memory only
	MayLend                // both
	OnlyLoans              // no batches in memory
)

// LargerError is the error of ReadOrLend if the next batch does not fit in the bytes that it may
// read into memory.
type LargerError struct{ Size int64 }

func (e LargerError) Error() string { return fmt.Sprintf("the next batch has %d bytes", e.Size) }

// ReadOrLend is ReadInto with another result if the next batch does not fit in max bytes:
// LargerError. If the reader can use a loan, ReadOrLend returns one instead of batches in memory,
// if enough bytes from the offset on are known to be valid and in the page cache.
func (s *Segment) ReadOrLend(pool *bufpool.Pool, offset, limit int64, max int, atLeastOne bool, loans Loans) (*bufpool.Buffer, []byte,
	*Loan, error) {
	r := reading{s: s, pool: pool, offset: offset, limit: limit, max: int64(max), one: atLeastOne, loans: loans}
	buf, b, loan, err := r.read()
	if err == nil && len(b) == 0 && loan == nil && r.larger > 0 {
		err = LargerError{r.larger}
	}
	return buf, b, loan, err
}

func (r *reading) read() (*bufpool.Buffer, []byte, *Loan, error) {
	s := r.s
	if err := s.inFlaw(r.offset); err != nil {
		return nil, nil, nil, err
	}
	var err error
	if r.h, err = s.open(); err != nil {
		return nil, nil, nil, fmt.Errorf("read segment: %w", err)
	}
	defer s.files.release(r.h)
	r.content = s.content.Load() // before the position is found, so that a truncation since then shows
	pos, cuts, known := s.positions.get(r.offset)
	if known {
		if loan := r.lend(pos, cuts); loan != nil {
			return nil, nil, loan, nil
		}
		if buf, b, next, err := r.guessed(pos); err == nil && len(b) > 0 {
			if loan := r.instead(buf, b, pos, cuts); loan != nil {
				return nil, nil, loan, nil
			}
			s.positions.put(cuts, next, pos+int64(len(b)))
			return buf, b, nil, nil
		}
		// Whatever went wrong, the index gives the right position.
	}
	for {
		buf, b, loan, err := r.indexed(cuts)
		was := cuts
		r.content = s.content.Load()
		if cuts = s.positions.count(); err == nil || cuts == was && !errors.Is(err, errMoved) {
			return buf, b, loan, err
		}
		// The file was truncated meanwhile, so the error may concern removed bytes.
	}
}

// guessed reads from a remembered position.
func (r *reading) guessed(pos int64) (*bufpool.Buffer, []byte, int64, error) {
	if r.loans == OnlyLoans {
		return nil, nil, 0, nil
	}
	return r.at(pos, record.HeaderSize, true)
}

// instead lends a batch that was read and verified although the reader had no memory for it.
func (r *reading) instead(buf *bufpool.Buffer, b []byte, pos, cuts int64) *Loan {
	if len(b) == 0 || int64(len(b)) <= r.max {
		return nil
	}
	loan := r.lend(pos, cuts)
	if loan != nil {
		buf.Release()
	}
	return loan
}

// indexed reads from the position that the index gives for the offset.
func (r *reading) indexed(cuts int64) (*bufpool.Buffer, []byte, *Loan, error) {
	pos, size, err := r.s.find(r.h, r.offset)
	switch {
	case err != nil:
		return nil, nil, nil, err
	case size == 0:
		return nil, nil, nil, ErrEnd
	case size > r.max && !r.one:
		r.s.positions.put(cuts, r.offset, pos)
		r.larger = size
		return nil, nil, nil, nil
	}
	if loan := r.lend(pos, cuts); loan != nil || r.loans == OnlyLoans {
		r.larger = size
		return nil, nil, loan, nil
	}
	buf, b, next, err := r.at(pos, size, false)
	if loan := r.instead(buf, b, pos, cuts); loan != nil {
		return nil, nil, loan, nil
	}
	if err == nil && len(b) > 0 {
		r.s.positions.put(cuts, next, pos+int64(len(b)))
	}
	return buf, b, nil, err
}

// PartBytes bounds what one ReadInto returns, so that its buffer is one that the pool keeps: 8 MiB.
// Memory for an answer of 50 MiB in one piece would be allocated and cleared each time, and each
// time the garbage collector would run.
const PartBytes = 8 << 20

// The most that one system call reads.
const (
	// readPiece is for a disk that others use at present (Files.YieldTo): their fdatasync waits for
	// the reads that the disk has begun. docs/performance-notes.md has figures for other sizes.
	readPiece = 128 << 10
	// freePiece is for a free disk. A kernel without preemption (PREEMPT_NONE, common on servers)
	// would copy up to 62 MiB from the page cache before another thread gets the processor.
	freePiece = 1 << 20
)

// A read slower than aheadPace, in GB/s, came from the disk. Reads of at least aheadLeast bytes
// gain from read-ahead (4 MiB: 0.8 → 1.1 GB/s). Smaller ones lose (1 MiB: 1.0 → 0.8), because the
// kernel reads as far ahead itself, and in larger pages. At most aheadMost bytes are read ahead.
const (
	aheadLeast = 2 << 20
	aheadMost  = 8 << 20
	aheadPace  = 2
)

// reading is one call of ReadInto.
type reading struct {
	s             *Segment
	h             *handle
	pool          *bufpool.Pool
	offset, limit int64
	max           int64
	one           bool
	loans         Loans
	larger        int64  // the size of the first batch, if it does not fit
	content       uint64 // Segment.content before the position was found
}

// errMoved: the batch is not at the position, because a remembered position was wrong or the file
// was truncated.
var errMoved = errors.New("the batch is not there")

// at reads from the batch at pos, of which the caller needs at least the first least bytes, and
// returns the offset after the last returned batch. With guess set, the batch must begin with the
// offset: only the index can find the first batch after a gap, and shows that it follows the batch
// before it. No batches and no error means that the batch at pos does not fit or begins at or
// beyond the limit. The buffer is nil if there are no batches.
func (r *reading) at(pos, least int64, guess bool) (buf *bufpool.Buffer, batches []byte, next int64, err error) {
	end := r.s.Size()
	n := min(max(min(r.max, PartBytes), least), end-pos)
	if n < least {
		return nil, nil, 0, errMoved
	}
	buf = r.pool.Get(int(n))
	defer func() {
		if len(batches) == 0 && buf != nil {
			buf.Release()
			buf = nil
		}
	}()
	p := buf.Bytes()
	if err := r.fill(p, pos, end); err != nil {
		if r.s.Size() < pos+n {
			return buf, nil, 0, errMoved
		}
		if !errors.Is(err, io.EOF) {
			return buf, nil, 0, fmt.Errorf("read segment: %w", err)
		}
		// The file was cut. The zeros in the place of its bytes are no batch, but damage.
	}
	size, err := record.PeekSize(p)
	if err == nil {
		first := record.Batch(p)
		switch {
		case first.BaseOffset() != r.offset && guess, first.LastOffset() < r.offset, int64(size) > end-pos:
			return buf, nil, 0, errMoved
		case int64(size) > r.max && !r.one:
			return buf, nil, 0, nil
		case int64(size) > n:
			buf.Release()
			return r.at(pos, int64(size), guess)
		}
	}
	batches, next, err = r.s.whole(p, pos, r.limit, r.content)
	if len(batches) >= lendLeast && len(batches) == size {
		r.confirm(pos, int64(size), next)
	}
	return buf, batches, next, err
}

// confirm records that the only batch of a read is verified, if the header of the batch behind it
// agrees; whole does not record such a batch. No checksum covers its base offset: if that were too
// high, readers of a loan would miss the batches behind it.
func (r *reading) confirm(pos, n, next int64) {
	var b [record.HeaderSize]byte
	if pos+n+record.HeaderSize > r.s.Size() {
		return
	}
	if _, err := r.h.f.ReadAt(b[:], pos+n); err != nil {
		return
	}
	if _, err := record.PeekSize(b[:]); err == nil && r.s.facts.Load().follows(record.Batch(b[:]), pos+n, next) {
		seen := verifying{v: &r.s.files.verified, content: r.content}
		seen.batch(pos, n, next)
		seen.end()
	}
}

// fill fills p. If a large read is slower than memory, its reader reads a log from the disk and is
// likely to continue. fill then starts reading the same number of bytes ahead, while the client
// processes this response, and does so again when the reader arrives there. While others need the
// disk, nothing is read ahead. After an error, the bytes that were not read are zeros; io.EOF means
// that the file does not have them.
func (r *reading) fill(p []byte, pos, end int64) error {
	begin, yields := time.Now(), false
	for rest, at := p, pos; len(rest) > 0; {
		n := freePiece
		if yields = r.s.files.yield(r.h); yields {
			n = readPiece
		}
		n = min(n, len(rest))
		if got, err := r.h.f.ReadAt(rest[:n], at); err != nil {
			clear(rest[got:])
			return err
		}
		rest, at = rest[n:], at+int64(n)
	}
	n := int64(len(p))
	if n < aheadLeast || yields {
		return nil
	}
	pos += n
	from := r.s.ahead.Load()
	arrived := pos > from-n && pos <= from
	if !arrived && time.Since(begin) < time.Duration(n)/aheadPace {
		return nil
	}
	if !arrived {
		from = pos
	}
	if to := min(pos+min(n, aheadMost), end); to > from {
		vfs.StartRead(r.h.f, from, to-from)
		r.s.ahead.Store(to)
	}
	return nil
}

// whole trims buf to whole batches that begin below limit and verifies their checksums. next is the
// offset after the last one.
//
// A batch after a gap is left to the next read if no batch follows it in buf: the next batch may
// show that there is no gap. content is Segment.content before buf was read.
func (s *Segment) whole(buf []byte, pos, limit int64, content uint64) (batches []byte, next int64, err error) {
	at, before, gap := 0, 0, false // before is where the last batch begins
	seen := verifying{v: &s.files.verified, content: content}
	defer seen.end()
	known, facts, last := s.flaws.Load(), s.facts.Load(), s.base
	next = s.base
	for at < len(buf) {
		b, _, err := record.Next(buf[at:])
		if errors.Is(err, record.ErrShort) {
			break
		}
		if err == nil {
			if b.BaseOffset() >= limit && facts.follows(b, pos+int64(at), next) {
				break
			}
			if err = b.CheckCRC(); err == nil {
				err = facts.check(b, pos+int64(at), next)
			}
		}
		if err != nil {
			seen.v.drop(content, pos+int64(at))
			if at > 0 {
				break // return the valid batches; the next read meets the damage first
			}
			return nil, 0, s.corrupt(pos, err, known)
		}
		if at > 0 {
			seen.batch(pos+int64(before), int64(at-before), next)
		}
		gap, before, last = at > 0 && b.BaseOffset() > next, at, next
		at += len(b)
		next = b.LastOffset() + 1
	}
	if gap {
		at, next = before, last
	} else if before > 0 { // see confirm
		seen.batch(pos+int64(before), int64(at-before), next)
	}
	return buf[:at:at], next, nil
}

// readPositions remembers where the last few readers will continue: the position of the batch that
// begins with an offset. Every use verifies the position against the bytes.
type readPositions struct {
	mu   sync.Mutex
	list [8]readPosition
	last int   // index of the entry that was replaced last
	cuts int64 // counts calls of forget
}

type readPosition struct {
	offset, pos int64 // pos 0: none; the first batch needs no entry
}

// get returns the position for an offset. The caller passes cuts to put.
func (p *readPositions) get(offset int64) (pos, cuts int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.list {
		if e := &p.list[i]; e.offset == offset && e.pos > 0 {
			pos = e.pos
			e.pos = 0 // its reader moves on
			return pos, p.cuts, true
		}
	}
	return 0, p.cuts, false
}

// put remembers a position, unless the segment was truncated since get.
func (p *readPositions) put(cuts, offset, pos int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cuts != p.cuts {
		return
	}
	for i := range p.list {
		if p.list[i].pos == 0 {
			p.list[i] = readPosition{offset, pos}
			return
		}
	}
	p.last = (p.last + 1) % len(p.list)
	p.list[p.last] = readPosition{offset, pos}
}

// count returns how often forget was called.
func (p *readPositions) count() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// forget drops all positions.
func (p *readPositions) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list, p.cuts = [8]readPosition{}, p.cuts+1
}
