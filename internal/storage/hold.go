package storage

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// ErrNotHeld means that a log has not kept what a Hold was to keep.
var ErrNotHeld = errors.New("the log no longer has what it had")

// Hold keeps what a log has, for a reader that needs exactly that: compaction replaces no segment,
// and those below a later log start stay, where the Hold still reads them. Appends, retention,
// deletions of records and truncations continue, and the log start moves.
//
// After Ease, a Hold keeps nothing from compaction and retention, but still what others may miss:
// what a deletion of records takes, and what local retention does because the object store has it.
// After Loosen it keeps nothing, and neither while the disk lacks space. It notes what is lost: its
// reads of that fail, and Kept and Expired tell. All methods may be called concurrently.
type Hold struct {
	l *Log

	// The following fields are guarded by Log.mu.
	start    int64 // what is left of the log's records begins here
	expired  int64 // retention has taken the records below since
	low      int64 // the least end to which the log was truncated since; MaxInt64: it was not
	eased    bool
	loose    bool
	replaced bool // compaction has replaced segments
}

// Hold returns a Hold of what the log has now. It takes the log's lock, and waits for no disk.
func (l *Log) Hold() *Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &Hold{l: l, start: l.logStart.Load(), low: math.MaxInt64}
	l.holds = append(l.holds, h)
	return h
}

// First returns the log start that the Hold began with, or a later one below which segments are
// gone.
func (h *Hold) First() int64 {
	h.l.mu.RLock()
	defer h.l.mu.RUnlock()
	return h.start
}

// Expired returns the offset below which retention has taken the records since the Hold began, 0 if
// it has taken none. The Hold may still have them.
func (h *Hold) Expired() int64 {
	h.l.mu.RLock()
	defer h.l.mu.RUnlock()
	return h.expired
}

// Ease ends the effect of the Hold on compaction and retention. It does not wait.
func (h *Hold) Ease() { h.weaken(&h.eased) }

// Loosen ends the effect of the Hold, and not its notes. It does not wait.
func (h *Hold) Loosen() { h.weaken(&h.loose) }

func (h *Hold) weaken(flag *bool) {
	h.l.mu.Lock()
	*flag = true
	h.l.mu.Unlock()
	h.l.freeHeld()
}

// Release ends the Hold. It does not wait. A second call has no effect.
func (h *Hold) Release() {
	l := h.l
	l.mu.Lock()
	l.holds = slices.DeleteFunc(slices.Clone(l.holds), func(x *Hold) bool { return x == h })
	l.mu.Unlock()
	l.freeHeld()
}

// freeHeld has the segments removed that holds have kept and keep no longer. It does not wait.
func (l *Log) freeHeld() {
	l.mu.RLock()
	due := l.retained && len(l.segments) > 0 && l.end(0) <= min(l.startSynced.Load(), l.heldFromLocked())
	l.mu.RUnlock()
	if due {
		l.dir.run(func() { l.dropBelow(&StartMove{Log: l, To: l.startSynced.Load()}) })
	}
}

// heldFromLocked returns the offset from which on holds keep segments, MaxInt64 if none does. The
// caller holds mu, for reading at least.
func (l *Log) heldFromLocked() int64 {
	from := int64(math.MaxInt64)
	for _, h := range l.holds {
		switch {
		case h.loose:
		case h.eased:
			from = min(from, max(h.start, h.expired))
		default:
			from = min(from, h.start)
		}
	}
	if from < math.MaxInt64 && l.holdsYield() {
		return math.MaxInt64
	}
	return from
}

// boundLocked reports whether a hold keeps segments from compaction. The caller holds mu, for
// reading at least.
func (l *Log) boundLocked() bool {
	return slices.ContainsFunc(l.holds, func(h *Hold) bool { return !h.eased && !h.loose }) && !l.holdsYield()
}

// holdsYield reports whether holds keep nothing because the disk needs the space.
func (l *Log) holdsYield() bool { return l.dir.CanCreate() != nil || l.dir.opt.broken.has(looseHolds) }

// holdPause is how often a compaction that waits for holds asks again.
const holdPause = 20 * time.Millisecond

// awaitHolds returns with flushMu and mu held when no hold keeps segments from compaction. It fails
// if the directory is being closed, and then holds neither.
func (l *Log) awaitHolds() error {
	for {
		l.flushMu.Lock()
		l.mu.Lock()
		if !l.boundLocked() || l.unusableLocked() != nil { // it may be about to be deleted
			return nil
		}
		l.mu.Unlock()
		l.flushMu.Unlock()
		if !l.dir.sleep(holdPause) {
			return fmt.Errorf("%w: the directory of %s is being closed", errAbandoned, l)
		}
	}
}

// noteLocked tells holds that the log has lost records or other bytes. The caller holds mu.
func (l *Log) noteLocked(note func(*Hold)) {
	for _, h := range l.holds {
		note(h)
	}
}

// lostLocked tells holds that the log no longer has the records below an offset. The caller holds
// mu.
func (l *Log) lostLocked(end int64) { l.noteLocked(func(h *Hold) { h.start = max(h.start, end) }) }

// Steady waits until a replacement of segments that began before the Hold has ended. From then on
// equal reads return equal bytes. It waits for the log's flush, which may wait for the disk. It
// fails if a step of the replacement failed.
func (h *Hold) Steady() error {
	l := h.l
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if x := l.life.swap; x != nil {
		return fmt.Errorf("%w: a compaction of %s has failed half-way: %w", ErrFailed, l, l.Err())
	}
	return nil
}

// Kept returns nil if the log still has, unchanged, all records from the Hold's First up to end
// that it had. Otherwise the error matches ErrNotHeld.
func (h *Hold) Kept(end int64) error {
	h.l.mu.RLock()
	defer h.l.mu.RUnlock()
	switch {
	case h.replaced:
		return fmt.Errorf("%w: %s was compacted", ErrNotHeld, h.l)
	case h.low < end:
		return fmt.Errorf("%w: %s was truncated to %d", ErrNotHeld, h.l, h.low)
	}
	return nil
}

// Read is Log.Read from the Hold's First on, which may be below the log start. What the log has
// removed nevertheless is out of range.
func (h *Hold) Read(offset, limit int64, max int, atLeastOne bool) (Slice, error) {
	return h.l.read(offset, limit, max, atLeastOne, segment.NoLoans, h)
}

// AbortedIn is Log.AbortedIn from the Hold's First on, for all batches of s.
func (h *Hold) AbortedIn(offset int64, s *Slice) ([]txnindex.Entry, error) {
	return h.l.abortedIn(offset, s, math.MaxInt, h)
}

// Written is Log.Written.
func (h *Hold) Written(end int64) (time.Time, error) { return h.l.Written(end) }

// Changes returns how often the log has lost or replaced what it had, except at its beginning:
// while that is the same, the log is the same and has only grown.
func (l *Log) Changes() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.changes
}

// SizeFrom returns how many bytes the log has from an offset on, at least: without those of the
// segment that also has earlier records. It does not read the disk.
func (l *Log) SizeFrom(offset int64) (n int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, s := range l.segments {
		if s.Base() >= offset {
			n += s.Size()
		}
	}
	for _, c := range l.tail.chunks[l.tail.flushed:] {
		if c.base >= offset {
			n += int64(len(c.data))
		}
	}
	return n
}

// SizeOf estimates the bytes of the batches in [from, end): it takes all offsets of the log for
// equally large. It does not read the disk.
func (l *Log) SizeOf(from, end int64) int64 {
	e, size := l.Ends(), l.Size()
	if from = max(from, e.LogStart); from >= end || e.LogEnd <= e.LogStart {
		return 0
	}
	return int64(float64(size) * min(1, float64(end-from)/float64(e.LogEnd-e.LogStart)))
}
