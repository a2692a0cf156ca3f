package segment

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Bytes that were verified a short time ago, and that are still in the page cache, may be sent to a
// client without another copy and checksum. verified remembers which bytes those are.
//
// The file is divided into blocks of verifiedBlock bytes. A stretch is the batches that begin in
// one block, from one of them on. The stretch of the next block begins where the last one of this
// block ends, so that readers that began at different batches use the same stretches.
//
// The memory is bounded: a stretch replaces another one that has the same slot. One that is lost
// is verified again.
type verified struct {
	clock func() time.Duration // monotonic
	mu    sync.Mutex
	pages [verifiedSlots / verifiedPage]*[verifiedPage]stretch // each nil until the first add
}

// stretch is a range of verified bytes.
type stretch struct {
	content  uint64 // Segment.content at that time; 0: none
	from, to int64  // positions
	next     int64  // offset after the last batch
	at       time.Duration
}

const (
	// verifiedBlock is small, because a loan ends with a block before the reader's limits.
	verifiedBlock = 128 << 10
	// verifiedSlots times verifiedBlock is the most that is remembered: 4 GiB, in 1.3 MiB of
	// memory.
	verifiedSlots = 32 << 10
	// verifiedPage is how many slots are allocated at once, for blocks that follow each other: a
	// log directory with a few small segments has no use for the others.
	verifiedPage = 256
	// verifiedFor is how long bytes count as verified. Within it, bytes may leave the page cache
	// and return, read by another reader, without being verified again. (Those that are not in the
	// page cache when they are needed are verified.)
	verifiedFor = time.Minute
)

// renew forgets which bytes of the segment are verified, and ends its loans. The content is 0 while
// the bytes change: nothing is remembered then, and nothing lent.
func (s *Segment) renew() { s.content.Store(s.files.contents.Add(1)) }

// Content returns a number that changes when bytes of the segment may have been replaced or cut.
// Appends do not change it. It is 0 while the bytes change.
func (s *Segment) Content() uint64 { return s.content.Load() }

// stopwatch returns a clock that begins now.
func stopwatch() func() time.Duration {
	begin := time.Now()
	return func() time.Duration { return time.Since(begin) }
}

// slot returns the slot of a block; nil if its page has none yet. The caller must hold mu.
func (v *verified) slot(content uint64, pos int64) *stretch {
	page, at := v.place(content, pos)
	if *page == nil {
		return nil
	}
	return &(*page)[at]
}

func (v *verified) place(content uint64, pos int64) (page **[verifiedPage]stretch, at uint64) {
	slot := (content*0x9e3779b1 + uint64(pos)/verifiedBlock) % verifiedSlots
	return &v.pages[slot/verifiedPage], slot % verifiedPage
}

// add records that the batches in [from, to) are verified. They begin in one block. next is the
// offset after the last one.
func (v *verified) add(content uint64, from, to, next int64) {
	now := v.clock()
	v.mu.Lock()
	defer v.mu.Unlock()
	page, at := v.place(content, from)
	if *page == nil {
		*page = new([verifiedPage]stretch)
	}
	e, fresh := &(*page)[at], stretch{content, from, to, next, now}
	more := e.from < from || e.to > to
	if more && e.known(content, now) && from <= e.to && e.from <= to { // they touch
		fresh.from, fresh.at = min(from, e.from), e.at
		if e.to > to {
			fresh.to, fresh.next = e.to, e.next
		}
	}
	*e = fresh
}

// known reports whether e is a stretch of these bytes, and not too old.
func (e *stretch) known(content uint64, now time.Duration) bool {
	return e.content == content && now-e.at < verifiedFor
}

// drop forgets the stretch of the block of pos.
func (v *verified) drop(content uint64, pos int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.slot(content, pos); e != nil && e.content == content {
		*e = stretch{}
	}
}

// until follows the verified stretches from pos on, where a batch begins, up to max bytes and up to
// the offset limit. It returns the position and the offset where they end.
func (v *verified) until(content uint64, pos, max, limit int64) (to, next int64) {
	now := v.clock()
	v.mu.Lock()
	defer v.mu.Unlock()
	to, next = pos, -1
	for {
		e := v.slot(content, to)
		if e == nil || !e.known(content, now) || e.from > to || e.to <= to || e.to-pos > max || e.next > limit {
			break
		}
		to, next = e.to, e.next
	}
	return to, next
}

// verifying collects the batches of a segment that are verified one after the other.
type verifying struct {
	v        *verified
	content  uint64
	from, to int64 // of the present stretch
	next     int64
}

// batch adds the next batch, which begins at a position and has n bytes. next is the offset after
// it.
func (m *verifying) batch(pos, n, next int64) {
	if m.to != pos || m.from/verifiedBlock != pos/verifiedBlock {
		m.end()
		m.from = pos
	}
	m.to, m.next = pos+n, next
}

// end records the last stretch.
func (m *verifying) end() {
	if m.from < m.to && m.content > 0 {
		m.v.add(m.content, m.from, m.to, m.next)
	}
	m.from, m.to = 0, 0
}

// Loan is a range of a segment's file with whole batches that were verified, for a client to which
// the system can send them without a copy. The file stays open until Release, which must be called
// once. A loan uses no memory. It has no maximum age, although bytes may leave the page cache and
// be read from the disk again while a slow client receives it: a slow client whose loan ends would
// fetch the same bytes again, as slowly, and never receive them all. Its checksums find damage.
type Loan struct {
	s       *Segment
	h       *handle
	content uint64
	pos     int64
	size    int
	next    int64
}

// Size returns the number of bytes.
func (l *Loan) Size() int { return l.size }

// Next returns the offset after the last batch.
func (l *Loan) Next() int64 { return l.next }

// Release ends the loan.
func (l *Loan) Release() { l.s.files.takeBack(l.h) }

// errCut: the batches of a loan were truncated.
var errCut = errors.New("the segment was truncated")

// SendTo sends up to n bytes, from position off of the loan on, to a socket; see vfs.SendTo.
func (l *Loan) SendTo(socket int, off, n int) (int, error) {
	if l.cut() {
		return 0, fmt.Errorf("send from segment: %w", errCut)
	}
	sent, err := vfs.SendTo(socket, l.h.f, l.pos+int64(off), min(n, l.size-off))
	if err == nil && (l.cut() || sent == 0 && n > 0) {
		err = errCut
	}
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		err = fmt.Errorf("send from segment: %w", err)
	}
	return sent, err
}

// ReadAt reads from the loan, for a client to which SendTo cannot send.
func (l *Loan) ReadAt(p []byte, off int64) (int, error) {
	n, err := l.h.f.ReadAt(p, l.pos+off)
	if l.cut() {
		return 0, fmt.Errorf("send from segment: %w", errCut)
	}
	return n, err
}

// cut reports whether the loan has ended, because the segment may have other bytes there by now.
func (l *Loan) cut() bool { return l.s.content.Load() != l.content }

// lend returns a loan that begins with the batch at pos, which must hold the offset; nil if too
// little from there on was verified and is in memory.
func (r *reading) lend(pos, cuts int64) *Loan {
	s, v := r.s, &r.s.files.verified
	if r.loans == NoLoans || r.content == 0 || !vfs.CanSend(r.h.f) {
		return nil
	}
	first := r.first(pos)
	if first == 0 || first > r.max && !r.one {
		return nil
	}
	// A reader without memory for its first batch gets it in any case, and then better as a loan.
	to, next := v.until(r.content, pos, min(max(r.max, first), s.beforeFlaw(pos)-pos), r.limit)
	if to-pos < lendLeast {
		return nil
	}
	if most := r.cached(pos, to-pos); most < to-pos {
		if to, next = v.until(r.content, pos, most, r.limit); to-pos < lendLeast {
			return nil
		}
	}
	if !s.files.lend(r.h) {
		return nil
	}
	l := &Loan{s: s, h: r.h, content: r.content, pos: pos, size: int(to - pos), next: next}
	if s.content.Load() != r.content { // it was truncated since pos was found, and may have other bytes there by now
		l.Release()
		return nil
	}
	s.positions.put(cuts, next, to)
	return l
}

// lendLeast is the least that is lent, in bytes: below it a copy costs no more.
const lendLeast = 64 << 10

// beforeFlaw returns the position of the first known flaw at or after pos, or else the size.
func (s *Segment) beforeFlaw(pos int64) int64 {
	end := s.Size()
	for _, f := range s.Flaws() {
		if f.Pos+f.Size > pos {
			end = min(end, f.Pos)
		}
	}
	return end
}

// first returns the size of the batch at pos, 0 if that does not hold the offset.
func (r *reading) first(pos int64) int64 {
	var b [record.HeaderSize]byte
	if _, err := r.h.f.ReadAt(b[:], pos); err != nil {
		return 0
	}
	n, err := record.PeekSize(b[:])
	h := record.Batch(b[:])
	if err != nil || h.BaseOffset() > r.offset || r.offset > h.LastOffset() {
		return 0
	}
	return int64(n)
}

// cached returns how many of n bytes from pos on are in memory, in steps of PartBytes.
func (r *reading) cached(pos, n int64) (most int64) {
	for most < n {
		step := min(PartBytes, n-most)
		if !vfs.Cached(r.h.f, pos+most, step) {
			break
		}
		most += step
	}
	return most
}
