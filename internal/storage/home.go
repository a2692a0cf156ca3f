package storage

import (
	"errors"
	"fmt"
	"math"
	"path"
	"syscall"

	"github.com/chronik-io/chronik/internal/storage/journal"
)

// homeAttempts is how often the bytes of one log are tried to be brought into
// synced segments before the others go on without it.
const homeAttempts = 5

// shortage says that an error is of the whole machine and may pass: no log is to
// blame for it.
func shortage(err error) bool {
	return noSpace(err) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// passes says that an error came from the system and not from what is stored: the
// next start may find nothing wrong.
func passes(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.ENOENT
}

// home brings everything that is durable into synced segments, so that no file
// of the journal so far is needed. A log of which that is impossible is left
// behind after a few attempts: one bad log does not stop a thousand others.
func (d *Dir) home(attempt int) error {
	var first error
	for _, l := range d.Logs() {
		if l.Offline() != nil {
			continue
		}
		err := l.bringHome()
		if err == nil || l.Offline() != nil {
			continue
		}
		if attempt >= homeAttempts && !shortage(err) {
			e := l.leaveBehind(err)
			if e == nil {
				continue
			}
			err = errors.Join(err, e)
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// bringHome flushes and syncs; a segment that fails is replaced first.
func (l *Log) bringHome() error {
	l.mu.RLock()
	broken := l.failure != nil
	l.mu.RUnlock()
	if broken {
		if err := l.replaceSegment(); err != nil {
			return err
		}
	}
	return l.flushAndSync()
}

// leaveBehind takes a log offline for the rest of this run: what the journal holds
// of it is kept aside, the checkpoints name that file, and the next start brings
// it back. The journal must stand still.
func (l *Log) leaveBehind(cause error) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	entry, oldest := l.checkpointed()
	if oldest != math.MaxUint64 {
		aside := newAside(l.dir)
		err := l.keepAside(aside, &entry, oldest)
		if err := errors.Join(err, aside.close()); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.asFound = &entry
	l.mu.Unlock()
	l.goOffline(cause)
	return nil
}

// keepAside copies the frames beyond the recovery point into a file and checks
// that they reach the durable end.
func (l *Log) keepAside(aside *aside, entry *logCheckpoint, oldest journal.LSN) error {
	f, j := found{l: l, lc: entry, end: entry.rp.offset}, l.dir.journal
	err := j.Read(j.Oldest(oldest), j.Notified(), func(fr journal.Frame) error {
		if fr.Stream != l.id || fr.LSN <= entry.rp.lsn {
			return nil
		}
		if err := f.extend(&fr); err != nil {
			return err
		}
		var err error
		entry.aside, err = aside.keep(&fr, l.dir.path, l.String())
		return err
	})
	if err == nil && f.end < l.durable.Load() {
		err = fmt.Errorf("%w: journal holds %s up to %d only, %d is needed", ErrCorrupt, l, f.end, l.durable.Load())
	}
	return err
}

// bringBack replays the frames that a run before kept aside.
func (f *found) bringBack() error {
	return journal.ReadKept(f.l.dir.opt.FS, path.Join(f.l.dir.path, f.lc.aside), func(fr journal.Frame) error {
		if err := f.extend(&fr); err != nil {
			return err
		}
		if fr.Carried && fr.NextEnd <= f.l.logEnd.Load() {
			return nil
		}
		return f.l.replay(&fr)
	})
}
