package storage

import (
	"errors"
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

// home brings everything that was acknowledged into synced segments, so that no file
// of the journal so far is needed. After a few attempts the frames of a log of which that
// is impossible are set aside: one bad log does not stop a thousand others.
func (d *Dir) home(attempt int) error {
	var first error
	var failed []*Log
	for _, l := range d.Logs() {
		if l.Offline() != nil || l.isAside() {
			continue
		}
		err := l.bringHome()
		switch {
		case err == nil || l.Offline() != nil:
		case attempt >= homeAttempts && !shortage(err):
			failed = append(failed, l)
		case first == nil:
			first = err
		}
	}
	return errors.Join(first, d.copyAside(failed))
}

func (l *Log) isAside() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.aside != nil
}

// bringHome flushes and syncs; a segment that fails is replaced first.
func (l *Log) bringHome() error {
	if err := l.dir.mend(l); err != nil {
		return err
	}
	return l.flushAndSync()
}

// bringBack replays the frames that a run before kept aside.
func (f *found) bringBack() error {
	return journal.ReadKept(f.l.dir.opt.FS, path.Join(f.l.dir.path, f.lc.aside), func(fr journal.Frame) error {
		if fr.NextEnd <= f.lc.rp.offset {
			return nil // a repair that the process before did not finish came that far
		}
		if err := f.extend(&fr); err != nil {
			return err
		}
		if fr.Carried && fr.NextEnd <= f.l.logEnd.Load() {
			return nil
		}
		return f.l.replay(&fr)
	})
}
