package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Who removes or cuts files of a log while the broker runs is not noticed by reads and writes of
// open files. So a goroutine of each directory compares what the logs believe to be on the disk
// with the listings of their directories:
//
//   - A file that is removed and still open is put back: its bytes are copied to a new file. If
//     that fails, the file stays open and the next look tries again.
//   - A sealed segment that is removed and not open is damaged as a whole, like bytes that a read
//     finds damaged: another replica leads, and this one is made again. If the file comes back,
//     it is damaged no longer.
//   - A segment that is too short is read from there on, which finds the damage.
//
// Indexes and producer snapshots follow from the batches. They are not checked.

// A check of all logs begins checkEvery after the end of the last one. It pauses after checkAtOnce
// logs, so that 10,000 of them, which take about a minute, do not hold up others.
const (
	checkEvery  = 30 * time.Second
	checkAtOnce = 100
	checkPause  = 500 * time.Millisecond
)

// Removed is what is known of a log's files that were removed while they were in use.
type Removed struct {
	PutBack int       // how many were put back since the start
	At      time.Time // the last of them
	// Unsaved is why files that are only open could not be put back; nil: all were.
	Unsaved error
}

// Removed returns what is known of files that were removed while they were in use.
func (l *Log) Removed() Removed {
	if r := l.removed.Load(); r != nil {
		return *r
	}
	return Removed{}
}

// watchFiles is the goroutine.
func (d *Dir) watchFiles() {
	label.Goroutine("storage files", d.path)
	var cut map[*segment.Segment]int64
	for d.sleep(checkEvery) {
		cut = d.checkFiles(cut)
	}
}

// checkFiles compares the files of all logs. cut are the segments that the last look found too
// short, with the sizes of their files. The result is that of this one.
func (d *Dir) checkFiles(cut map[*segment.Segment]int64) map[*segment.Segment]int64 {
	now := map[*segment.Segment]int64{}
	for i, l := range d.Logs() {
		if i%checkAtOnce == 0 && (!d.sleep(checkPause) || !d.usable()) {
			return cut
		}
		if differs, _ := l.compare(); !differs {
			continue
		}
		for s, size := range l.amend() {
			if now[s] = size; cut[s] != size {
				l.readCut(s, size)
			}
		}
	}
	return now
}

// usable reports whether the directory is there and in use. Another one may be mounted in its
// place, or none: nothing must be put back then.
func (d *Dir) usable() bool {
	_, err := d.opt.FS.Stat(path.Join(d.path, IdentityFile))
	return err == nil && d.Err() == nil
}

// absent is a segment whose file is not at its name, or is too short.
type absent struct {
	s     *segment.Segment
	place segment.Whereabouts
	size  int64 // of the file at the name
	back  bool  // it was gone, and is there
}

// misses is how the files of a log differ from what the log believes.
type misses struct {
	dir, meta bool // the directory is missing, the file with the topic id is
	segments  []absent
}

// compare compares the files of the log with what it believes. Without flushMu, the result may be
// wrong, because the log has changed meanwhile. A log whose segments are being exchanged is not
// compared, and neither is one that is out of use, or whose directory can't be read. One whose
// segment failed is: it could not be opened, perhaps.
func (l *Log) compare() (differs bool, m misses) {
	l.mu.RLock()
	usable, segments := l.life.state.Allows(loglife.Start), l.segments
	l.mu.RUnlock()
	if !usable {
		return false, m
	}
	infos, err := l.dir.opt.FS.List(l.path)
	if m.dir = errors.Is(err, fs.ErrNotExist); err != nil && !m.dir {
		return false, m
	}
	find := func(name string) (int64, bool) {
		i, there := slices.BinarySearchFunc(infos, name, func(in vfs.Info, name string) int { return cmp.Compare(in.Name, name) })
		if !there {
			return 0, false
		}
		return infos[i].Size, true
	}
	_, there := find(PartitionFile)
	m.meta = !there
	for _, s := range segments {
		size, there := find(s.Name())
		p, err := s.Whereabouts(there)
		if err != nil {
			continue // it proves nothing
		}
		a := absent{s: s, place: p, size: size, back: p.There && s.Gone()}
		if a.back || !p.There && !s.Gone() || p.There && size < s.Size() {
			m.segments = append(m.segments, a)
		}
	}
	return m.dir || m.meta || len(m.segments) > 0 || l.Removed().Unsaved != nil, m
}

// amend compares the log again while nothing changes its files, and does what can be done about the
// difference. It returns the segments that are too short.
func (l *Log) amend() (cut map[*segment.Segment]int64) {
	d := l.dir
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	differs, m := l.compare()
	if !differs || !d.usable() {
		return nil
	}
	if !m.meta && !Belongs(d.opt.FS, l.path, l.id) {
		d.logOnce(l, "the directory of a log has another topic id", fmt.Errorf("%w: %s", ErrFailed, l.path))
		return nil
	}
	cut, lost := map[*segment.Segment]int64{}, false
	was, now := l.Removed(), Removed{}
	now.PutBack, now.At = was.PutBack, was.At
	var back []*segment.Segment
	for _, a := range m.segments {
		switch {
		case a.back:
			lost = a.s.Regain() || lost
		case a.place.There:
			cut[a.s] = a.size
		case a.place.Open || a.s.Size() == 0:
			a.s.Pin()
			back = append(back, a.s)
		case a.s.Lose(l.endOf(a.s)):
			lost = true
			d.log.Error("a file of a log was removed, and is not open; its records can't be served; see chronikctl cluster health",
				zap.Stringer("log", l), zap.String("file", a.s.Path()))
		}
	}
	n, err := l.putBack(m, back)
	if now.Unsaved = err; n > 0 {
		now.PutBack, now.At = now.PutBack+n, d.now()
		d.log.Error("files of a log were removed while the broker used them; they are put back from the open ones",
			zap.Stringer("log", l), zap.Int("files", n))
	}
	if err != nil {
		d.logOnce(l, "files of a log were removed while the broker used them, and can't be put back; they exist until it stops", err)
	}
	l.removed.Store(&now)
	if lost {
		l.noteFlawed()
		l.storeFlaws()
	}
	return cut
}

// putBack makes the log's directory and files again, and returns how many files were missing. The
// caller holds flushMu.
func (l *Log) putBack(m misses, segments []*segment.Segment) (n int, err error) {
	if !m.dir && !m.meta && len(segments) == 0 {
		return 0, nil
	}
	d := l.dir
	if err := d.CanCreate(); err != nil {
		return 0, err
	}
	if err := d.opt.FS.MkdirAll(l.path); err != nil {
		return 0, err
	}
	if m.meta {
		if err := writePartitionMeta(d.opt.FS, l.path, l.id); err != nil {
			return 0, err
		}
		n++
	}
	for _, s := range segments {
		if err = s.PutBack(); err != nil {
			break
		}
		n++
	}
	return n, errors.Join(err, d.opt.FS.SyncDir(l.path), d.opt.FS.SyncDir(d.path))
}

// readCut reads the end of a segment whose file is too short, which finds what is damaged there.
func (l *Log) readCut(s *segment.Segment, size int64) {
	at, err := s.Before(size)
	if err == nil {
		err = l.readAll(s, &at, func(f vfs.File) vfs.File { return &scrubFile{File: f, d: l.dir} })
	}
	if err != nil && !errors.Is(err, segment.ErrReplaced) {
		l.dir.logOnce(l, "a segment that is too short could not be read", err)
	}
}
