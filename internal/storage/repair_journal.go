package storage

import (
	"errors"
	"math"
	"slices"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// reopen brings the directory back after the journal failed: every log goes
// back to its durable end; what is durable and not in synced segments is
// brought there; a fresh file begins, and a checkpoint excludes what may have
// reached the dead one. Only then are records taken again.
func (d *Dir) reopen(err error) {
	failed := d.life.Load()
	for _, l := range d.Logs() {
		l.revert(err)
	}
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		again := d.flushJournal()
		if again == nil {
			again = d.begin()
		}
		if again == nil {
			break
		}
		d.logOnce(nil, "log directory could not be reopened", again)
		if !d.sleep(wait) {
			return
		}
	}
	if !d.onFrom(failed, loglife.Reopened, nil) || failed.state.Allows(loglife.Stops) {
		return // it failed once more, and that is the next to be looked at; or it is being closed
	}
	d.reopened()
	for _, l := range d.Logs() {
		l.recovered()
		l.Commit(nil)
	}
}

// begin starts a life of the journal: everything durable is in synced segments
// or kept aside; a fresh file is made, a checkpoint names it, entries may come.
func (d *Dir) begin() error {
	fresh, err := d.journal.Fresh(d.minLSN)
	if err != nil {
		return err
	}
	if err := d.checkpoint(&fresh); err != nil {
		return err
	}
	return d.journal.Resume()
}

// recovered moves the durable end to the recovery point, which a checkpoint holds: what
// was only written when the journal failed has been flushed from memory since. What is
// appended meanwhile may move it further.
func (l *Log) recovered() {
	l.mu.RLock()
	end := l.rp.Offset
	l.mu.RUnlock()
	for at := l.durable.Load(); at < end; at = l.durable.Load() {
		if l.durable.CompareAndSwap(at, end) {
			l.observer().Advanced()
		}
	}
}

// flushJournal brings everything that was acknowledged into synced segments, so that no file
// of the journal so far is needed. The frames of a log of which that is impossible
// are set aside, and one that needs none may stay as it is: one bad log does not stop a
// thousand others.
func (d *Dir) flushJournal() error {
	var first error
	for _, l := range d.Logs() {
		if l.Offline() != nil || l.is(loglife.Replay) {
			continue
		}
		if err := l.drain(); err != nil && first == nil && l.needsJournal() {
			first = err
		}
	}
	return first
}

// needsJournal reports whether a start would need frames of the journal for the log.
func (l *Log) needsJournal() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.life.state.Allows(loglife.Read) && l.oldestLocked() != math.MaxUint64
}

// drain flushes and syncs. If a segment fails, now or before, it is replaced or the
// log is set aside.
func (l *Log) drain() error {
	if l.flushAndSync() == nil {
		return nil
	}
	if err := l.dir.replaceFailedSegments(l); err != nil {
		return err
	}
	return l.flushAndSync()
}

// passes reports whether an error came from the system and not from what is stored: the
// next start may find nothing wrong.
func passes(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.ENOENT
}

// shortage reports whether an error is of the whole machine and may pass: no log is to
// blame for it.
func shortage(err error) bool {
	return noSpace(err) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// revert takes back what was numbered and will never count, because the journal failed:
// everything beyond what was acknowledged. It is the only rollback there is.
//
// What was acknowledged as written and is not durable stays: memory is the best copy
// now, and it is flushed to segments before the directory takes records again.
func (l *Log) revert(err error) {
	l.own()
	defer l.disown()
	l.flushMu.Lock()
	defer l.flushMu.Unlock()

	l.mu.Lock()
	if l.life.state.Allows(loglife.Replay) { // nothing of it is the journal's, and what is in memory is a cache
		l.mu.Unlock()
		return
	}
	l.tail.markWritten()
	end := l.flushed
	keep := l.tail.flushed
	for keep < len(l.tail.chunks) && l.tail.chunks[keep].ready {
		keep++
	}
	if keep > l.tail.flushed {
		end = l.tail.chunks[keep-1].next
	}
	gone := l.tail.cutEnd(end)
	l.mu.Unlock()
	l.rollBack(end, gone, err)
}

// revertQueued takes back what waits in the journal's queue, because the log is out of
// use: it could wait for room that the log itself keeps from being made. The caller owns
// the right to commit and holds flushMu.
func (l *Log) revertQueued(err error) {
	l.dir.journal.Drop(l.stream)
	l.mu.Lock()
	i := slices.IndexFunc(l.tail.chunks, func(c *chunk) bool { return c.dropped })
	if i < 0 {
		l.mu.Unlock()
		return
	}
	end := l.tail.chunks[i].base
	gone := l.tail.cutEnd(end)
	l.mu.Unlock()
	l.rollBack(end, gone, err)
}

// rollBack ends the log at end, beyond which gone were numbered.
func (l *Log) rollBack(end int64, gone []*chunk, err error) {
	l.dir.memory.drop(gone)
	if l.logEnd.Load() == end {
		return
	}
	l.logEnd.Store(end)
	l.smu.Lock()
	l.epochs.CutEnd(end)
	l.producers.Cut(end)
	l.smu.Unlock()
	l.observer().Reverted(end, err)
}
