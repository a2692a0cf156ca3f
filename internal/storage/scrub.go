package storage

import (
	"encoding/binary"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Disks lose bytes that no client reads. So a goroutine of each directory reads all sealed segments
// within an interval, one log after the other, and what it finds damaged counts like damage that a
// read finds. The disk belongs to the clients: the goroutine reads a piece at a time, keeps nothing
// in the page cache, and pauses after each piece.
//
// How far it is stands in a state file of kind "scrub", so that a start continues there. Per log,
// little endian: topic id 16, partition i32, and three i64: the time in ms since which its sealed
// segments were read, the time at which the pass in progress began, 0 if there is none, and the
// offset below which that has read.

// ScrubFile is the name of the state file in a log directory.
const ScrubFile = "chronik.scrub"

const (
	scrubKind, scrubVersion = "scrub", 1
	scrubEntry              = 16 + 4 + 3*8
)

// The sizes of the pieces, and bytes per second: on a free disk, and while clients wait for it (see
// journal.SmallTraffic). Even the slower rate reads 2 TB in a week.
const (
	scrubPiece, scrubRate             = 1 << 20, 64 << 20
	scrubGentlePiece, scrubGentleRate = 128 << 10, 4 << 20
)

// scrubLook is how often the goroutine looks for a log that is due, scrubSave how often it saves
// how far it is, and scrubRetry when it tries again to read a log with a segment that could not be
// read.
const scrubLook, scrubSave, scrubRetry = time.Minute, time.Minute, time.Hour

// scrubbing is the state of the goroutine. Others use changed only.
type scrubbing struct {
	changed chan struct{} // capacity 1: SetCleaning has changed the interval
	logs    map[ID]*scrubbed
	saved   time.Time
	dirty   bool
}

// scrubbed is the progress of reading a log.
type scrubbed struct {
	done  time.Time // the segments that were sealed then have been read since
	began time.Time // of the pass in progress; zero: none
	next  int64     // the pass has read the segments below it
	retry time.Time // not before
}

// scrub is the goroutine.
func (d *Dir) scrub() {
	label.Goroutine("storage scrub", d.path)
	d.loadScrubbed()
	timer := time.NewTimer(min(scrubLook, firstRetentionDelay))
	defer timer.Stop()
	for {
		select {
		case <-d.quit:
			d.saveScrubbed()
			return
		case <-d.scrubbing.changed:
		case <-timer.C:
		}
		for d.scrubNext() {
		}
		d.saveScrubbed()
		timer.Reset(min(scrubLook, max(d.scrubInterval(), time.Second)))
	}
}

// scrubInterval returns the interval, negative if nothing is to be read.
func (d *Dir) scrubInterval() time.Duration { return d.cleaning.Load().Scrub }

// scrubNext reads the next segment of the log that is due for longest, and reports whether there
// was one.
func (d *Dir) scrubNext() bool {
	interval, now := d.scrubInterval(), d.now()
	if d.stopping() || interval < 0 || d.Err() != nil {
		return false
	}
	l, oldest := d.scrubDue(now, interval)
	d.stats.scrub.oldest.Set(now.Sub(oldest).Seconds())
	if l == nil {
		return false
	}
	x := d.scrubbing.logs[l.id]
	if x.began.IsZero() {
		x.began, x.next = now, 0
	}
	d.scrubbing.dirty = true
	s, end := l.sealedAt(x.next)
	switch {
	case s == nil:
		x.done, x.began, x.next = x.began, time.Time{}, 0
	case d.scrubSegment(l, s):
		x.next = end
	case !d.stopping():
		x.began, x.retry = time.Time{}, now.Add(scrubRetry)
	}
	if now.Sub(d.scrubbing.saved) > scrubSave {
		d.saveScrubbed()
	}
	return true
}

// scrubDue returns the log that is due for longest, preferably one that was begun, nil if none is,
// and since when all sealed segments of the directory have been read.
func (d *Dir) scrubDue(now time.Time, interval time.Duration) (due *Log, oldest time.Time) {
	k := &d.scrubbing
	logs := d.Logs()
	there := make(map[ID]bool, len(logs))
	oldest = now
	var first *scrubbed
	for _, l := range logs {
		there[l.id] = true
		x := k.logs[l.id]
		if s, _ := l.sealedAt(0); s == nil || x == nil || x.done.After(now) {
			k.logs[l.id] = &scrubbed{done: now} // what it has was written just now
			k.dirty = k.dirty || x == nil
			continue
		}
		if x.done.Before(oldest) {
			oldest = x.done
		}
		ready := !x.began.IsZero() || now.Sub(x.done) >= interval && !now.Before(x.retry)
		if ready && (first == nil || x.began.After(first.began) || x.began.Equal(first.began) && x.done.Before(first.done)) {
			due, first = l, x
		}
	}
	for id := range k.logs {
		if !there[id] {
			delete(k.logs, id)
			k.dirty = true
		}
	}
	return due, oldest
}

// sealedAt returns the first sealed segment that has offsets at or beyond an offset, and its end;
// nil if there is none.
func (l *Log) sealedAt(offset int64) (s *segment.Segment, end int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i := range max(len(l.segments)-1, 0) {
		if end := l.end(i); end > offset {
			return l.segments[i], end
		}
	}
	return nil, 0
}

// scrubSegment reads a segment and reports whether it was read, or is gone. The damage that it
// meets is examined and recorded like that of a read.
func (d *Dir) scrubSegment(l *Log, s *segment.Segment) bool {
	var at segment.Point
	err := l.readAll(s, &at, func(f vfs.File) vfs.File { return &scrubFile{File: f, d: d} })
	if now, _ := l.sealedAt(s.Base()); err == nil || now != s {
		return true
	}
	if !errors.Is(err, ErrClosed) && !errors.Is(err, segment.ErrCorrupt) {
		d.segmentError(l, "segment could not be read", err)
	}
	return false
}

// readAll reads all batches of a segment from a point on, and moves the point. It skips damage,
// which it examines and records.
func (l *Log) readAll(s *segment.Segment, at *segment.Point, wrap func(vfs.File) vfs.File) (err error) {
	for {
		*at, err = s.Scrub(*at, wrap)
		if err == nil || !errors.Is(err, segment.ErrCorrupt) || !l.examine(s, err) {
			return err
		}
	}
}

// scrubFile is a file that is read in pieces, with pauses.
type scrubFile struct {
	vfs.File
	d *Dir
}

// ReadAt implements vfs.File.
func (f *scrubFile) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		begin, piece, rate := time.Now(), scrubPiece, scrubRate
		if f.d.journal.SmallTraffic(begin) {
			piece, rate = scrubGentlePiece, scrubGentleRate
		}
		got, err := vfs.ReadUncached(f.File, p[n:min(n+piece, len(p))], off+int64(n))
		n += got
		f.d.stats.scrub.bytes.Add(float64(got))
		if err != nil {
			return n, err
		}
		pause := time.Duration(got)*time.Second/time.Duration(rate) - time.Since(begin)
		if !f.d.sleep(max(pause, 0)) {
			return n, ErrClosed
		}
	}
	return n, nil
}

// saveScrubbed saves how far the reading is. After an error the next start repeats some of it.
func (d *Dir) saveScrubbed() {
	k := &d.scrubbing
	if !k.dirty {
		return
	}
	k.dirty, k.saved = false, d.now()
	b := make([]byte, 0, len(k.logs)*scrubEntry)
	for id, x := range k.logs {
		b = append(b, id.Topic[:]...)
		b = binary.LittleEndian.AppendUint32(b, uint32(id.Partition))
		b = binary.LittleEndian.AppendUint64(b, uint64(x.done.UnixMilli()))
		began := int64(0)
		if !x.began.IsZero() {
			began = x.began.UnixMilli()
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(began))
		b = binary.LittleEndian.AppendUint64(b, uint64(x.next))
	}
	if err := statefile.Write(d.opt.FS, path.Join(d.path, ScrubFile), scrubKind, scrubVersion, b); err != nil {
		d.logOnce(nil, "progress of reading sealed segments could not be saved", err)
	}
}

// loadScrubbed reads what saveScrubbed saved. Without it, all logs count as read now.
func (d *Dir) loadScrubbed() {
	k := &d.scrubbing
	k.logs, k.saved = map[ID]*scrubbed{}, d.now()
	b, err := statefile.Read(d.opt.FS, path.Join(d.path, ScrubFile), scrubKind, scrubVersion)
	if err != nil {
		return
	}
	for entry := range slices.Chunk(b, scrubEntry) {
		if len(entry) < scrubEntry {
			return
		}
		id := ID{Topic: [16]byte(entry), Partition: int32(binary.LittleEndian.Uint32(entry[16:]))}
		at := func(i int) int64 { return int64(binary.LittleEndian.Uint64(entry[i:])) }
		x := &scrubbed{done: time.UnixMilli(at(20)), next: at(36)}
		if began := at(28); began != 0 {
			x.began = time.UnixMilli(began)
		}
		k.logs[id] = x
	}
}
