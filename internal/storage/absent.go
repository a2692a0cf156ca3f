package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A removed file stays readable and writable as long as it is open, so no read or write notices
// that it ends with the process. A goroutine of each directory therefore compares the segments with
// the listings. A log whose files are not there counts as flawed (Flaw), so that it is made again
// where another replica is whole. Nothing is written back: a copy of an open file may have bytes
// whose write-back has failed.
//
// Indexes and producer snapshots follow from the batches. They are not looked for.

// A check of all logs begins checkEvery after the end of the last one. It pauses after checkAtOnce
// logs, so that 10,000 of them, which take about a minute, do not hold up others.
const (
	checkEvery  = 30 * time.Second
	checkAtOnce = 100
	checkPause  = 500 * time.Millisecond
)

// Absent are the segments of a log whose files were removed or cut while it uses them.
type Absent struct {
	Files int
	First string // the path of one of them
}

// Error returns how many files are gone, and one of them.
func (a *Absent) Error() string {
	what := "files were"
	if a.Files == 1 {
		what = "file was"
	}
	return fmt.Sprintf("%d %s removed or cut while the broker uses it: %s", a.Files, what, a.First)
}

// sighting is what a check has found: segments whose files are not at their names, or too short.
type sighting map[*segment.Segment]bool

// Absent returns which files were removed or cut, nil if none was found.
func (l *Log) Absent() *Absent { return l.absent.Load() }

// checkFiles is the goroutine.
func (d *Dir) checkFiles() {
	label.Goroutine("storage files", d.path)
	last := sighting{}
	for d.sleep(checkEvery) {
		if now, ended := d.checkOnce(last, func() bool { return d.sleep(checkPause) }); ended {
			last = now
		}
	}
}

// checkOnce checks the files of all logs. It reports only what the last check has found, too: a
// segment may be on its way out. pause is called between parts of the check, and ends it with
// false.
func (d *Dir) checkOnce(last sighting, pause func() bool) (now sighting, ended bool) {
	now = sighting{}
	for i, l := range d.Logs() {
		if i%checkAtOnce == 0 && (!pause() || !d.there()) {
			return nil, false
		}
		found, err := l.lacking()
		if err != nil {
			continue // it proves nothing
		}
		var absent *Absent
		for _, s := range found {
			if now[s] = true; !last[s] {
				continue
			}
			if absent == nil {
				absent = &Absent{First: s.Path()}
			}
			absent.Files++
		}
		if l.absent.Store(absent); absent != nil {
			d.suspects.Name(l)
		}
	}
	return now, true
}

// there reports whether the directory is the one that was opened. Another one may be mounted in its
// place, or none, which is another fault.
func (d *Dir) there() bool {
	_, err := d.opt.FS.Stat(path.Join(d.path, IdentityFile))
	return err == nil
}

// lacking returns the segments whose files are not at their names, or too short. A log whose
// segments are being exchanged or truncated has none. One that cannot write its last segment may
// fail because its files are gone. Its repair removes that segment, but never the directory.
func (l *Log) lacking() (found []*segment.Segment, err error) {
	l.mu.RLock()
	state, segments := l.life.state, l.segments
	l.mu.RUnlock()
	if !state.Allows(loglife.Start) {
		return nil, nil
	}
	sizes := make([]int64, len(segments)) // before the files are listed, which may grow
	for i, s := range segments {
		sizes[i] = s.Size()
	}
	infos, err := l.dir.opt.FS.List(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && !state.Allows(loglife.Change) {
		segments = segments[:max(len(segments)-1, 0)]
	}
	for i, s := range segments {
		if sizes[i] == 0 || listed(infos, path.Base(s.Path())) >= sizes[i] {
			continue
		}
		// A listing may miss a file that is there.
		if in, err := l.dir.opt.FS.Stat(s.Path()); err == nil && in.Size >= sizes[i] {
			continue
		}
		found = append(found, s)
	}
	return found, nil
}

// listed returns the size of a listed file, -1 if it is not listed.
func listed(infos []vfs.Info, name string) int64 {
	i, ok := slices.BinarySearchFunc(infos, name, func(in vfs.Info, name string) int { return cmp.Compare(in.Name, name) })
	if !ok {
		return -1
	}
	return infos[i].Size
}
