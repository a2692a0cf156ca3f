package storage

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// reopen does for one log what a start does. The log is offline because the system refused a call,
// at the start or while its files were truncated; the maintenance goroutine tries again until the
// calls succeed or the bytes are found to be wrong. The log begins with its checkpoint entry, as at
// a start. It needs flushMu.
func (l *Log) reopen() error {
	lc, _ := l.checkpointed(true)
	r, f := &recovery{d: l.dir}, foundAs(l, &lc)
	if err := r.reopen(f); err != nil {
		l.dir.memory.evictAll([]*Log{l})
		l.forgetFiles(&lc)
		l.bound()
		if !isSystemError(err) && !l.dir.stopping() {
			l.giveUp(&lc, err)
		}
		return err
	}
	l.synced()
	l.bound()
	l.mu.Lock()
	l.life.found, l.life.cut = nil, nil
	if lc.QuarantineFile != "" {
		l.life.spent = append(l.life.spent, lc.QuarantineFile)
	}
	l.mu.Unlock()
	if err := l.dir.commit(l); err != nil {
		return err
	}
	for _, t := range r.after {
		if err := t.run(); err != nil {
			return err
		}
	}
	l.reopened()
	return nil
}

// reopen brings a log into synced segments.
func (r *recovery) reopen(f *found) error {
	l := f.l
	r.d.memory.evictAll([]*Log{l})
	if err := l.restore(f.lc); err != nil {
		return err
	}
	if err := r.prepare(f); err != nil {
		return err
	}
	if f.lc.QuarantineFile != "" {
		if err := f.replayQuarantined(l.writeFlushable); err != nil {
			return err
		}
	}
	if err := l.writeFlushable(); err != nil {
		return err
	}
	if active := l.active(); active != nil {
		if err := active.SyncBatches(); err != nil {
			return err
		}
	}
	return l.dir.opt.FS.SyncDir(l.path) // the call that failed may have been this one, after what it was to make durable
}

// reopened puts the log to use. Its end is another one than that with which it got its role, so a
// leader needs a new epoch, unless it is the only replica.
func (l *Log) reopened() {
	l.producersMu.Lock()
	if l.fence.role == loglife.Following {
		l.epochs.CutEnd(l.logEnd.Load())
	}
	l.holdLocked()
	l.producersMu.Unlock()
	o := l.observer()
	o.Advanced() // who reads it from now on needs the high watermark that its records have
	l.mu.Lock()
	files := l.life.spent
	l.life.spent = nil
	was := l.applyEventLocked(loglife.Mended, nil)
	l.mu.Unlock()
	l.dir.removeFrames(files)
	if was != loglife.Offline {
		return // it was deleted meanwhile
	}
	l.dir.stats.offline.Dec()
	l.dir.repaired(l)
	o.StartMoved()
	o.Reverted(l.logEnd.Load(), fmt.Errorf("%w: %s was offline", ErrFailed, l))
}
