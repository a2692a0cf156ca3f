package storage

import (
	"fmt"
	"math"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/states"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// life is the state of a log (see loglife), the reason for it, and the unfinished work of the
// state.
type life struct {
	state loglife.State
	cause error // why the log is not fully in use; nil while it is online

	// After a deletion these stay until the deletion is committed.
	cut        *cutting          // Cutting, CutStuck: the truncation
	swap       *swap             // Swapping, SwapStuck, QuarantinedStuck: the swap
	quarantine *quarantineFrames // Quarantined, QuarantinedStuck: the quarantine file
	replaying  bool              // Quarantined: the frames of that file are being written to segments
	spent      []string          // replayed quarantine files, which the next commit of the log does not name
	found      *checkpoint.Log   // Offline, Damaged: the entry that checkpoints repeat
}

// applyEvent is applyEventLocked for a caller that does not hold mu.
func (l *Log) applyEvent(e loglife.Event, cause error) (was loglife.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.applyEventLocked(e, cause)
}

// applyEventLocked records an event and returns the state before it. If cause is nil, the current
// cause stays. The caller holds mu and, unless the log is being opened or deleted, flushMu: a
// goroutine that holds flushMu sees no other change of the state than a deletion.
func (l *Log) applyEventLocked(e loglife.Event, cause error) (was loglife.State) {
	was = l.life.state
	next, answer := was.On(e)
	l.dir.answered(l.String(), was, e, answer)
	switch {
	case answer != states.Moved:
		return was
	case next.Allows(loglife.Append):
		cause = nil
	case cause == nil:
		cause = l.life.cause
	}
	l.life.state, l.life.cause = next, cause
	l.dir.changed(l, was, e, next)
	return was
}

// answered reports an event that is impossible in the state. Such an event is a bug. The state
// stays as it is, and so do the guarantees of the log or the directory.
func (d *Dir) answered(of string, state, event fmt.Stringer, a states.Answer) {
	if d.opt.answered != nil {
		d.opt.answered(state, event, a)
	}
	if a != states.Refused {
		return
	}
	if bufpool.Invariants {
		panic(fmt.Sprintf("%s is %s: %s", of, state, event))
	}
	d.log.Error("BUG: event is impossible in this state", zap.String("of", of), zap.Stringer("state", state), zap.Stringer("event", event))
}

// Err returns why the log accepts no appends, nil if it accepts them. The log may be offline or
// temporarily out of use.
func (l *Log) Err() error {
	if err := l.dir.Err(); err != nil {
		return err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.unusableLocked()
}

// unusableLocked returns why the log accepts no appends, nil if it does. It ignores
// faults of the directory. The caller holds mu.
func (l *Log) unusableLocked() error {
	if l.dir.stopping() {
		return fmt.Errorf("%s: %w", l, ErrClosed)
	}
	return l.refusedLocked(loglife.Append)
}

// refusedLocked returns why the state does not allow a use, nil if it does. The caller holds mu.
func (l *Log) refusedLocked(u loglife.Use) error {
	if l.life.state.Allows(u) {
		return nil
	}
	return l.life.cause
}

// refused is refusedLocked for a caller that does not hold mu.
func (l *Log) refused(u loglife.Use) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.refusedLocked(u)
}

// state returns the log's state.
func (l *Log) state() loglife.State {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.life.state
}

// is reports whether the log's state allows at least one of the given uses.
func (l *Log) is(u loglife.Use) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.life.state.Allows(u)
}

// Offline returns why the log neither accepts nor serves records, nil if it does.
func (l *Log) Offline() error { return l.refused(loglife.Read) }

// Reopens reports whether the log is offline because the system refused a call, and is tried again.
func (l *Log) Reopens() bool { return l.state() == loglife.Offline }

// goOffline stops all use of the log, until reopen succeeds (Unreadable) or permanently
// (FoundDamaged).
// Checkpoints repeat found as the log's entry; if it is nil, the current entry.
func (l *Log) goOffline(e loglife.Event, found *checkpoint.Log, err error) {
	if found == nil {
		now, _ := l.checkpointed(true)
		found = &now
	}
	err = fmt.Errorf("%w: %s is offline: %w", ErrFailed, l, err)
	l.mu.Lock()
	was := l.applyEventLocked(e, err)
	if l.life.cause != err { //nolint:errorlint // this very error: otherwise it was out of use before
		l.mu.Unlock()
		return
	}
	l.life.found = found
	end := max(l.written.Load(), l.durable.Load())
	l.mu.Unlock()
	if !was.Allows(loglife.AsFound) {
		l.dir.stats.offline.Inc()
	}
	l.dir.log.Error("partition is offline; see its finding in chronikctl cluster health", zap.Stringer("log", l), zap.Error(err))
	// The goroutine that commits may still be assigning offsets, and those batches are also lost.
	// It may wait for flushMu, which the caller may hold.
	tell := func() {
		l.acquireCommit()
		defer l.releaseCommit()
		l.flushMu.Lock()
		defer l.flushMu.Unlock()
		if l.is(loglife.AsFound) { // otherwise reopen was faster
			l.dir.memory.evictAll([]*Log{l})
			l.observer().Reverted(end, err)
		}
	}
	if !l.dir.run(tell) {
		l.observer().Reverted(end, err)
	}
}

// giveUp takes the log offline permanently: its stored bytes are wrong, or acknowledged records are
// lost. Checkpoints repeat entry, and no frame of the journal counts for the log any longer.
func (l *Log) giveUp(entry *checkpoint.Log, err error) {
	entry.Offline, entry.LSN = err.Error(), math.MaxInt64
	l.goOffline(loglife.FoundDamaged, entry, err)
}

// dirLife is the state of a directory and why it accepts no records; the cause is nil if it does.
type dirLife struct {
	state loglife.DirState
	cause error
}

// applyEvent records an event and returns the state before it. A stop keeps the current cause.
func (d *Dir) applyEvent(e loglife.DirEvent, cause error) (was loglife.DirState) {
	for {
		now := d.life.Load()
		if e == loglife.Stop {
			cause = now.cause
		}
		if d.applyEventFrom(now, e, cause) {
			return now.state
		}
	}
}

// applyEventFrom records an event unless the state has changed since now. It reports whether it
// did.
func (d *Dir) applyEventFrom(now *dirLife, e loglife.DirEvent, cause error) bool {
	next, answer := now.state.On(e)
	if answer == states.Moved && !d.life.CompareAndSwap(now, &dirLife{next, cause}) {
		return false
	}
	d.answered(d.path, now.state, e, answer)
	return true
}

// journalFailed is called by the journal after the owners of all lost entries were notified.
// The directory accepts no records until the maintenance goroutine has reopened it.
func (d *Dir) journalFailed(err error) {
	d.stats.journalErrors.Inc()
	err = fmt.Errorf("%w: log directory %s: %w", ErrFailed, d.path, err)
	d.applyEvent(loglife.JournalFailed, err)
	d.log.Error("log directory accepts no records until its journal can be written; check the disk", zap.Error(err))
	select {
	case d.failures <- err:
	default: // another failure is pending
	}
}

// reopened is called when the directory accepts records again after a failure of its journal.
func (d *Dir) reopened() {
	d.log.Info("log directory accepts records again")
	d.failed.Ended("")
	if d.opt.reopened != nil {
		d.opt.reopened(d)
	}
}

// is reports whether the directory's state allows at least one of the given uses.
func (d *Dir) is(u loglife.DirUse) bool { return d.life.Load().state.Allows(u) }

// stopping reports whether the directory is being closed.
func (d *Dir) stopping() bool { return d.is(loglife.Stops) }

// Err returns why the directory accepts no records, nil if it does.
func (d *Dir) Err() error { return d.life.Load().cause }
