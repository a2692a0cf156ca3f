package storage

import (
	"errors"
	"fmt"
	"time"
)

// switchMode changes between journalled and write-through, as the profile in
// force asks. Nobody commits meanwhile: the caller has given this task the
// right to, and it ends with disown. Appends wait in the queue.
//
// The order is the same both ways: nothing in flight → everything in segments,
// synced → a checkpoint says so, with the new mode → the next append goes the new way.
// The recovery point's LSN is the last one ever given: no frame of the log at or
// below it counts any more, lost ones included.
func (l *Log) switchMode() {
	defer l.disown()
	err := l.settleAll()
	if err == nil {
		l.mu.Lock()
		old := l.mode
		l.mode = l.cfg.Load().mode()
		l.rp.lsn = max(l.rp.lsn, l.dir.journal.Assigned())
		l.mu.Unlock()
		if err = l.dir.commitPoint(l.dir.opt.broken.has(silentSwitch)); err == nil {
			l.mu.Lock()
			l.unsettled = false
			l.mu.Unlock()
			return
		}
		// Either version of the checkpoint may be on the disk: no append may come
		// before one is known to be. The next attempt writes another.
		l.mu.Lock()
		l.mode, l.unsettled = old, true
		l.mu.Unlock()
	}
	l.dir.logOnce(l, "change of durability profile is delayed", err)
	l.refuseQueue(fmt.Errorf("%w: change of the durability profile of %s: %w", ErrFailed, l, err))
	if !errors.Is(err, ErrClosed) {
		l.dir.sleep(switchRetry) // disown tries again
	}
}

// refuseQueue answers what waits: the disk makes no progress. The caller owns
// the right to commit.
func (l *Log) refuseQueue(err error) {
	l.qmu.Lock()
	group := l.queue
	l.queue = nil
	l.qmu.Unlock()
	refuse(group, err)
}

// switchRetry is the pause after a failed change of mode.
const switchRetry = 50 * time.Millisecond

// hold keeps the log from taking appends.
func (l *Log) hold(err error) {
	l.mu.Lock()
	if l.failure == nil {
		l.failure = err
	}
	l.mu.Unlock()
}

// settleAll waits until nothing is in flight, and brings everything into synced
// segments. The caller owns the right to commit.
func (l *Log) settleAll() error {
	for wait := 50 * time.Microsecond; l.inFlight(); wait = min(2*wait, 5*time.Millisecond) {
		if err := l.Err(); err != nil {
			return err
		}
		if !l.dir.sleep(wait) {
			return ErrClosed
		}
	}
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if err := l.flushLocked(); err != nil {
		return err
	}
	return l.syncLocked()
}

// inFlight says whether the journal still has something of the log to do.
func (l *Log) inFlight() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := len(l.tail.chunks)
	return l.carrying || n > 0 && !l.tail.chunks[n-1].ready
}
