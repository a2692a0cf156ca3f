package storage

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Open opens the directories concurrently and recovers their logs. It leaves out a directory that
// cannot be used, which Failed then lists: a failed disk takes only its own partitions offline.
// Open fails, with a DirError for each failed directory, if none can be used or if the cause is not
// a disk; see refusesStart. A broker that only votes has no directories, and no log can be made.
//
// If two directories hold the same log or have the same identity, the one that comes later in
// places is left out. One is a copy of the other, and the order of the configuration is the only
// order that an operator can see and change.
//
// A directory whose recovery makes no progress for openPatience is also left out if another one is
// open by then. When its disk answers, its recovery ends, and its files stay as they are until the
// next start.
func Open(locations []Location, opt Options) (*Manager, error) {
	if len(locations) == 0 { // the broker only votes
		return newManager(), nil
	}
	opt.share(len(locations))
	dirs, errs := openAll(locations, opt)
	m := newManager()
	refused := opt.Interrupted != nil && opt.Interrupted() != nil
	for i, d := range dirs {
		if d != nil {
			errs[i] = m.admit(d, locations[i])
		}
		if failed := (*DirError)(nil); errors.As(errs[i], &failed) {
			refused = refused || refusesStart(failed)
			m.failed = append(m.failed, failed)
		}
	}
	if len(m.failed) == 0 || len(m.dirs) > 0 && !refused {
		m.resumeMoves()
		return m, nil
	}
	m.Unused()
	_ = m.Close() // after an error the next start recovers
	return nil, errors.Join(errs...)
}

// openPatience is how long the recovery of a directory may make no progress before the broker
// starts without it.
const openPatience = 5 * time.Minute // longer than a datasync of a whole segment on a slow disk

// opening is the recovery of one directory.
type opening struct {
	at   int // in places
	dir  *Dir
	err  error
	seen uint64 // its progress at the last tick
	// decided: it has ended, or Open no longer waits for it; the first of both counts.
	decided atomic.Bool
}

// openAll opens directories and returns, for each place, the directory or an error.
func openAll(locations []Location, opt Options) ([]*Dir, []error) {
	opt.setDefaults()
	dirs, errs := make([]*Dir, len(locations)), make([]error, len(locations))
	ended, running, open := make(chan *opening, len(locations)), map[*opening]bool{}, 0
	for i, loc := range locations {
		if loc.Hung {
			errs[i] = hungAtStart(loc, "for some seconds")
			continue
		}
		own := opt
		o := &opening{at: i, dir: newDir(loc, &own)}
		running[o] = true
		go func() {
			if o.err = o.dir.open(); o.decided.CompareAndSwap(false, true) {
				ended <- o
				return
			}
			o.leave()
		}()
	}
	for tick := opt.openTick(); len(running) > 0; {
		select {
		case o := <-ended:
			delete(running, o)
			if o.err != nil {
				errs[o.at] = o.dir.failure(locations[o.at], o.err)
			} else {
				dirs[o.at], open = o.dir, open+1
			}
		case <-tick:
			tick = opt.openTick()
			for o := range running {
				before := o.seen
				if o.seen = o.dir.steps.Load(); o.seen == before && open > 0 && o.giveUp() {
					delete(running, o)
					errs[o.at] = hungAtStart(locations[o.at], "for "+openPatience.String())
				}
			}
		}
	}
	return dirs, errs
}

// giveUp makes the broker start without a directory. It reports false if the recovery has ended.
func (o *opening) giveUp() bool {
	o.dir.late.Store(true)
	return o.decided.CompareAndSwap(false, true)
}

// leave releases a directory whose disk has answered too late.
func (o *opening) leave() {
	if o.err == nil {
		// The next start must still see the unclean stop, because no leader epoch was raised.
		o.dir.unused = true
		o.err = o.dir.Close()
	}
	o.dir.log.Warn("the disk of a log directory that hung at the start answers; the next start uses the directory", zap.Error(o.err))
}

func hungAtStart(loc Location, since string) *DirError {
	err := fmt.Errorf("%w: its disk has not answered %s; check the disk and the kernel log, and restart the broker", ErrFailed, since)
	return &DirError{Path: loc.Path, Journal: loc.Journal, Err: err}
}

// share divides broker-wide bounds among the directories.
func (o *Options) share(dirs int) {
	setDefault(&o.OpenFiles, openFiles(dirs))
	o.Cleaning = o.Cleaning.share(dirs)
}

// refusesStart reports whether an error of one directory keeps the broker from starting with the
// others. The cause of such an error is not a disk: another broker or a tool has the directory, a
// newer version wrote it, the configuration names something else, or the process is out of
// descriptors or memory. The operator corrects it, or a later start succeeds; until then no
// partition should be offline because of it.
func refusesStart(err error) bool {
	return errors.Is(err, ErrLocked) || errors.Is(err, statefile.ErrNewer) || errors.Is(err, statelog.ErrNewerFormat) ||
		errors.Is(err, journal.ErrNewer) || errors.Is(err, syscall.ENOTDIR) ||
		shortage(err) && !vfs.Full(err)
}

// admit adds an open directory. If it is a copy of a directory that was added earlier, admit closes
// it and returns a DirError.
func (m *Manager) admit(d *Dir, loc Location) error {
	if err := m.isCopy(d); err != nil {
		// The next start must still see the unclean stop, because no leader epoch was raised.
		d.unused = true
		_ = d.Close() // after an error the next start recovers it
		return &DirError{Path: loc.Path, Journal: loc.Journal, ID: d.ident.Dir, Err: err, Replicated: d.opt.Replicated}
	}
	m.dirs = append(m.dirs, d)
	for _, l := range d.Logs() {
		m.logs[l.id] = l
	}
	return nil
}

// isCopy returns an error if a directory shares its identity or a log with one that was added
// earlier.
func (m *Manager) isCopy(d *Dir) error {
	for _, other := range m.dirs {
		if other.ident.Dir == d.ident.Dir {
			return foreign("it has the same identity as %s, which comes first in log.dirs and is used: "+
				"one is a copy of the other; delete the copy, or remove it from log.dirs", other.path)
		}
	}
	for _, l := range d.Logs() {
		if other := m.logs[l.id]; other != nil {
			return foreign("%s is in both %s and %s; the first in log.dirs is used: "+
				"remove the partition from one of them, or remove one of them from log.dirs",
				l, other.dir.path, d.path)
		}
	}
	return nil
}
