package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/vfs"
)

// segmentCopy is the copy of a segment.
type segmentCopy struct {
	content uint64 // Segment.Content of what was copied
	at      segment.Point
	whole   bool // the file is synced, and the other files of the segment are there
	// failed: a write or a sync of the file has failed, so that no later sync says what it has.
	// Another file takes its place (I5).
	failed  bool
	aborted txnindex.Mark
}

// movePiece is how much is copied at once, and moveGentlePiece while clients wait for one of the
// disks: then each piece waits until the disk has the one before.
const movePiece, moveGentlePiece = 1 << 20, 128 << 10

// copyPass copies what the target lacks of the segments, and removes what the log has no longer. It
// returns how many bytes it copied. The last segment is complete only if rest is set.
func (m *Manager) copyPass(ctx context.Context, x *move, l *Log, rest bool) (n int64, err error) {
	segments, err := l.snapshot()
	if err != nil {
		return 0, err
	}
	var want int64
	now := map[int64]bool{}
	for _, s := range segments {
		now[s.Base()] = true
		want += s.Size()
	}
	for base := range x.copies {
		if !now[base] {
			if err := segment.Open(x.to.files, x.path(), base, 0).Remove(); err != nil {
				return 0, err
			}
			delete(x.copies, base)
		}
	}
	x.want.Store(want)
	x.count()
	if err := x.fits(want); err != nil {
		return 0, err
	}
	for i, s := range segments {
		got, err := m.copySegment(ctx, x, l, s, rest, rest || i+1 < len(segments))
		if n += got; errors.Is(err, segment.ErrReplaced) {
			return restBytes + 1, nil // the next pass finds the segment that has replaced it
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// path returns the directory of the copies.
func (x *move) path() string { return path.Join(x.to.path, FutureName(x.id)) }

// count counts what is copied.
func (x *move) count() {
	var copied, end int64
	for _, c := range x.copies {
		copied, end = copied+c.at.Pos, max(end, c.at.Next)
	}
	x.copied.Store(copied)
	x.end.Store(end)
}

// fits returns an error if the target has no room for the rest of the bytes above its reserve.
func (x *move) fits(want int64) error {
	if s := x.to.LastSpace(); s.Known && s.MinFree > 0 && s.Free-s.Owed-s.MinFree < want-x.copied.Load() {
		return fmt.Errorf("%w: %d bytes are to be copied, and %s has %d bytes above its reserve of %d: "+
			"free some, or move other logs away", ErrLowSpace, want-x.copied.Load(), x.to.path, max(s.Free-s.Owed-s.MinFree, 0), s.MinFree)
	}
	return x.to.CanCreate()
}

// copySegment copies what the target lacks of a segment. With rest, the log takes no appends
// meanwhile. With seal, the copy is complete and synced then. ErrReplaced means that the segment
// has other bytes by now.
func (m *Manager) copySegment(ctx context.Context, x *move, l *Log, s *segment.Segment, rest, seal bool) (n int64, err error) {
	c, from, fsys := x.copies[s.Base()], s.Content(), x.to.opt.FS
	if c != nil && c.content == from && c.at.Pos == s.Size() && c.whole {
		return 0, nil
	}
	if from == 0 {
		return 0, segment.ErrReplaced
	}
	if s.Size() == 0 {
		return 0, nil // no entry needs its file
	}
	name := path.Join(x.path(), segment.Name(s.Base())+segment.LogSuffix)
	var f vfs.File
	if c == nil || c.failed || c.content != from {
		delete(x.copies, s.Base())
		if err := segment.Open(x.to.files, x.path(), s.Base(), 0).Remove(); err != nil {
			return 0, err
		}
		if f, err = fsys.Create(name); err == nil {
			c = &segmentCopy{content: from}
			x.copies[s.Base()] = c
		}
	} else {
		f, err = fsys.Open(name)
	}
	if err != nil {
		return 0, err
	}
	c.whole = false
	began := c.at.Pos
	err = l.readAll(s, &c.at, func(file vfs.File) vfs.File { return &copiedFile{file, f, m, x, l, c, ctx, rest} })
	x.count()
	if err == nil && from != s.Content() {
		err = segment.ErrReplaced
	}
	if err == nil && seal {
		err = x.complete(l, s, c, f)
	}
	if !c.whole && !c.failed { // a later pass continues it, and no process sees a write-back that fails meanwhile
		err = cmp.Or(err, x.sync(c, f))
	}
	if e := f.Close(); e != nil {
		c.failed, c.whole, err = true, false, cmp.Or(err, e)
	}
	return c.at.Pos - began, err
}

// complete makes the copy of a segment durable, with the other files of the segment.
func (x *move) complete(l *Log, s *segment.Segment, c *segmentCopy, f vfs.File) error {
	fsys := x.to.opt.FS
	err := f.Truncate(c.at.Pos) // a flaw at the end has no bytes, preallocated space too many
	if err != nil {
		c.failed = true
		return err
	}
	if err := x.sync(c, f); err != nil {
		return err
	}
	written, err := s.Written()
	if err == nil {
		err = fsys.SetModified(path.Join(x.path(), path.Base(s.Path())), written)
	}
	if err != nil {
		return err
	}
	for _, name := range s.Accompanying() { // the indexes are caches: a wrong entry is found by its batch
		b, err := vfs.ReadFile(l.dir.opt.FS, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = vfs.WriteFile(fsys, path.Join(x.path(), path.Base(name)), b, true)
		}
		if err != nil {
			return err
		}
	}
	c.aborted = txnindex.Mark{}
	if s.HasAborted() {
		l.flushMu.Lock()
		entries, err := l.usableAborted(s)
		l.flushMu.Unlock()
		if err == nil {
			c.aborted = txnindex.MarkOf(entries)
			err = vfs.WriteFile(fsys, path.Join(x.path(), path.Base(s.AbortedPath())), txnindex.Encode(nil, entries), true)
		}
		if err != nil {
			return err
		}
	}
	c.whole = true
	return nil
}

// sync makes what was copied durable.
func (x *move) sync(c *segmentCopy, f vfs.File) error {
	if x.to.opt.broken.has(skipMoveSync) {
		return nil
	}
	err := f.Datasync()
	c.failed = err != nil
	return err
}

// copiedFile is the file of a segment. Each read also writes what it has read to the copy.
type copiedFile struct {
	vfs.File
	to  vfs.File
	m   *Manager
	x   *move
	l   *Log
	c   *segmentCopy
	ctx context.Context

	rest bool // appends wait
}

// ReadAt implements vfs.File.
func (f *copiedFile) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && err == nil {
		if err := f.stop(); err != nil {
			return n, err
		}
		now := time.Now()
		piece, gentle := movePiece, f.l.dir.journal.SmallTraffic(now) || f.x.to.journal.SmallTraffic(now)
		if gentle {
			piece = moveGentlePiece
		}
		var got int
		got, err = vfs.ReadUncached(f.File, p[n:min(n+piece, len(p))], off+int64(n))
		if got > 0 {
			_, err := vfs.WriteVecUncached(f.to, [][]byte{p[n : n+got]}, off+int64(n))
			if err == nil && gentle {
				err = vfs.Writeback(f.to, off+int64(n), int64(got))
			}
			if err != nil {
				f.c.failed = true
				return n, err
			}
			f.x.to.guard.count(got)
			f.x.to.steps.Add(1)
		}
		n += got
		if err := f.await(got); err != nil {
			return n, err
		}
	}
	return n, err
}

// await waits until n copied bytes are within the rate of moves, which may take minutes, or until
// that is changed. It returns the reason if the copy must end before. What is copied while appends
// wait counts, and the next copies wait for it.
func (f *copiedFile) await(n int) error {
	rate := f.m.moveRate.Load()
	until := time.Now().Add(f.m.movePace.Count(n, float64(rate)))
	if f.rest {
		return nil
	}
	for left := time.Until(until); left > 0 && f.m.moveRate.Load() == rate; left = time.Until(until) {
		if err := f.stop(); err != nil {
			return err
		}
		_ = pause.Sleep(f.ctx, min(left, noticed)) // stop returns its error
	}
	return nil
}

// noticed bounds how long a copy that waits may not notice that it must end.
const noticed = 100 * time.Millisecond

// stop returns why the copy must end, nil if it may continue.
func (f *copiedFile) stop() error {
	switch {
	case f.x.canceled.Load():
		return ErrMoveCanceled
	case f.ctx.Err() != nil, f.l.dir.stopping(), f.x.to.stopping():
		return ErrClosed
	}
	if err := f.x.to.CanCreate(); err != nil {
		return err
	}
	return f.x.to.Err()
}
