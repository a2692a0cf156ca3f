package storage

import (
	"errors"
	"math"
	"slices"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/vfs"
)

// reopenBackoff bounds the pause after an attempt to reopen a directory.
var reopenBackoff = pause.Backoff{First: 10 * time.Millisecond, Most: 10 * time.Second}

// reopen brings the directory back after the journal failed. It rolls every log back to its
// acknowledged end, flushes durable records that synced segments lack, begins a new journal file,
// and writes a checkpoint that excludes frames that may have reached the failed file. Only then
// does the directory accept records again.
func (d *Dir) reopen(err error) {
	failed := d.life.Load()
	d.markSyncFailure()
	for _, l := range d.Logs() {
		l.revert(err)
	}
	for failures := 1; ; failures++ {
		again := d.flushJournal()
		if again == nil {
			d.syncFailed.Store(false) // all written records are in synced segments
			again = d.begin()
		}
		if again == nil {
			break
		}
		d.logOnce(nil, "log directory could not be reopened", again)
		if !d.sleep(reopenBackoff.After(failures)) {
			return
		}
	}
	if !d.applyEventFrom(failed, loglife.Reopened, nil) || failed.state.Allows(loglife.Stops) {
		return // it failed again, which the next call handles, or it is being closed
	}
	for _, l := range d.Logs() {
		l.recovered()
		l.Commit(nil)
	}
	if d.Err() == nil {
		d.reopened()
	}
}

// begin makes a new journal file, writes a checkpoint that names it, and lets the journal accept
// entries. By now all durable records are in synced segments or in quarantine.
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

// recovered advances the durable end to the recovery point, which a checkpoint holds: records that
// were only written when the journal failed have been flushed from memory since. Concurrent appends
// may advance it further.
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

// flushJournal flushes and syncs all acknowledged records, so that none of the journal's files is
// needed. If that is impossible for a log, its frames are quarantined; a log that needs no frames
// may stay as it is. One bad log must not stop a thousand others.
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

// needsJournal reports whether recovery would need frames of the journal for the log.
func (l *Log) needsJournal() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.life.state.Allows(loglife.Read) && l.oldestLocked() != math.MaxUint64
}

// drain flushes and syncs the log. If a segment has failed, drain replaces it or quarantines the
// log's frames.
func (l *Log) drain() error {
	if l.flushAndSync() == nil {
		return nil
	}
	if err := l.dir.replaceFailedSegments(l)[l]; err != nil {
		return err
	}
	return l.flushAndSync()
}

// isSystemError reports whether an error came from the system and not from the stored bytes, so
// that the next start may succeed.
func isSystemError(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.ENOENT
}

// shortage reports whether an error is a temporary shortage of the whole machine, which is not the
// fault of a log.
func shortage(err error) bool {
	return vfs.Full(err) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// revert rolls back everything beyond the acknowledged end, because the journal failed. It and
// revertQueued are the only callers of rollBack.
//
// Records that were acknowledged as written and are not durable stay: memory now has the best copy,
// and they are flushed to segments before the directory accepts records again.
func (l *Log) revert(err error) {
	l.acquireCommit()
	defer l.releaseCommit()
	l.flushMu.Lock()
	defer l.flushMu.Unlock()

	l.mu.Lock()
	if l.life.state.Allows(loglife.Replay) { // no record depends on the journal, and the chunks in memory are a cache
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
	l.cuts++
	l.mu.Unlock()
	l.rollBack(end, gone, err)
}

// revertQueued rolls back appends that wait in the journal's queue, because the log is out of use.
// They might wait for space that only this log can free. The caller owns the right to commit and
// holds flushMu.
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
	l.cuts++
	l.mu.Unlock()
	l.rollBack(end, gone, err)
}

// rollBack ends the log at end; gone are the chunks beyond it. A leading log accepts no appends
// then until it has a new epoch, because a follower may have received these chunks.
func (l *Log) rollBack(end int64, gone []*chunk, err error) {
	l.dir.memory.drop(gone)
	if l.logEnd.Load() == end {
		return
	}
	l.producersMu.Lock()
	l.logEnd.Store(end)
	l.epochs.CutEnd(end)
	l.producers.Cut(end)
	l.noteUnstableLocked()
	l.holdLocked()
	l.producersMu.Unlock()
	l.observer().Reverted(end, err)
}
