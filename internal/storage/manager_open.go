package storage

import (
	"errors"
	"sync"
	"syscall"

	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage/statefile"
)

// Open opens the directories concurrently and recovers their logs. It leaves out a directory that
// cannot be used, which Failed then lists: a failed disk takes only its own partitions offline.
// Open fails, with a DirError for each failed directory, if none can be used or if the cause is not
// a disk; see refusesStart.
//
// If two directories hold the same log or have the same identity, the one that comes later in
// places is left out. One is a copy of the other, and the order of the configuration is the only
// order that an operator can see and change.
func Open(places []Place, opt Options) (*Manager, error) {
	if len(places) == 0 {
		return nil, errors.New("no log directory is configured")
	}
	opt.share(len(places))
	dirs, errs := make([]*Dir, len(places)), make([]error, len(places))
	var wg sync.WaitGroup
	for i, p := range places {
		wg.Go(func() { dirs[i], errs[i] = OpenDir(p, opt) })
	}
	wg.Wait()
	m := newManager()
	refused := opt.Interrupted != nil && opt.Interrupted() != nil
	for i, d := range dirs {
		if d != nil {
			errs[i] = m.admit(d, places[i])
		}
		if failed := (*DirError)(nil); errors.As(errs[i], &failed) {
			refused = refused || refusesStart(failed)
			m.failed = append(m.failed, failed)
		}
	}
	if len(m.failed) == 0 || len(m.dirs) > 0 && !refused {
		return m, nil
	}
	m.Unused()
	_ = m.Close() // after an error the next start recovers
	return nil, errors.Join(errs...)
}

// share divides broker-wide bounds among the directories.
func (o *Options) share(dirs int) {
	setDefault(&o.OpenFiles, openFiles(dirs))
	o.Cleaning = o.Cleaning.share(dirs)
}

// refusesStart reports whether an error of one directory keeps the broker from starting with the
// others. The cause of such an error is not a disk: another process has the directory, a newer
// version wrote it, the configuration names something else, or the process is out of descriptors or
// memory. The operator corrects it, or a later start succeeds; until then no partition should be
// offline because of it.
func refusesStart(err error) bool {
	return errors.Is(err, ErrLocked) || errors.Is(err, statefile.ErrNewer) || errors.Is(err, statelog.ErrNewerFormat) ||
		errors.Is(err, syscall.ENOTDIR) ||
		shortage(err) && !noSpace(err)
}

// admit adds an open directory. If it is a copy of a directory that was added earlier, admit closes
// it and returns a DirError.
func (m *Manager) admit(d *Dir, place Place) error {
	if err := m.isCopy(d); err != nil {
		// The next start must still see the unclean stop, because no leader epoch was raised.
		d.unused = true
		_ = d.Close() // after an error the next start recovers it
		return &DirError{Path: place.Path, Journal: place.Journal, ID: d.ident.Dir, Err: err}
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
