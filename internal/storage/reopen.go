package storage

import (
	"errors"
	"syscall"
	"time"
)

// reopen brings the directory back after the journal failed: every log goes
// back to its durable end; what is durable and not in synced segments is
// brought there; a fresh file begins, and a checkpoint excludes what may have
// reached the dead one. Only then are records taken again.
func (d *Dir) reopen(err error) {
	failed := d.failed.Load()
	for _, l := range d.Logs() {
		l.revert(err)
	}
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		again := d.home()
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
	if !d.failed.CompareAndSwap(failed, nil) {
		return // it failed once more, and that is the next to be looked at
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

// home brings everything that was acknowledged into synced segments, so that no file
// of the journal so far is needed. The frames of a log of which that is impossible
// are set aside: one bad log does not stop a thousand others.
func (d *Dir) home() error {
	var first error
	for _, l := range d.Logs() {
		if l.Offline() != nil || l.isAside() {
			continue
		}
		if err := l.bringHome(); err != nil && l.Offline() == nil && !l.isAside() && first == nil {
			first = err
		}
	}
	return first
}

func (l *Log) isAside() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.aside != nil
}

// bringHome flushes and syncs. If a segment fails, now or before, it is replaced or the
// log is set aside.
func (l *Log) bringHome() error {
	if l.flushAndSync() == nil {
		return nil
	}
	if err := l.dir.mend(l); err != nil {
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
