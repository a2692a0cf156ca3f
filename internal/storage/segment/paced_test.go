package segment

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
)

// backFS records how its files are written and sent to the disk.
type backFS struct {
	vfs.FS
	backed  int64 // bytes that are on the disk, from the start of the file on
	most    int64 // bytes that were sent to the disk at once
	written int64
	ahead   int64 // most bytes that were written and not on the disk
	fail    error // of the next Writeback
}

type backFile struct {
	vfs.File
	fs *backFS
}

func (f *backFS) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	if err != nil || !strings.HasSuffix(name, LogSuffix) {
		return file, err
	}
	return &backFile{file, f}, nil
}

func (f *backFile) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	n, err := f.File.WriteVecAt(bufs, off)
	f.fs.written = off + int64(n)
	f.fs.ahead = max(f.fs.ahead, f.fs.written-f.fs.backed)
	return n, err
}

func (f *backFile) WriteVecUncached(bufs [][]byte, off int64) (int, error) {
	return f.WriteVecAt(bufs, off)
}

func (f *backFile) StartWriteback(off, n int64) { _ = f.Writeback(off, n) }

func (f *backFile) Writeback(off, n int64) error {
	if off > f.fs.backed || off+n > f.fs.written {
		return errors.New("a range that leaves something out")
	}
	f.fs.backed, f.fs.most = off+n, max(f.fs.most, n)
	return f.fs.fail
}

// A paced append sends one piece after the other to the disk, and an uncached one does not even
// write more at once. A plain append sends much at once.
func TestAPacedAppendSendsPieces(t *testing.T) {
	for _, c := range []struct {
		paced, uncached bool
		most, ahead     int64
	}{
		{true, false, paceLeast, 3 << 20},
		{true, true, paceLeast, 2 * paceLeast},
		{false, false, 3 << 20, 3 << 20},
		{false, true, 3 << 20, 3 << 20},
	} {
		fsys := &backFS{FS: memory(t)}
		files := NewFiles(fsys, 4)
		files.YieldTo(func() bool { return c.paced })
		s, err := Create(files, testDir, 0, 0)
		ok(t, err)
		value := strings.Repeat("v", 1<<20)
		first := [][]byte{batch(t, 0, 1, 1, value), batch(t, 1, 1, 1, value)}
		ok(t, s.append(first, interval, c.uncached))
		if fsys.most > c.most || fsys.ahead > c.ahead || c.paced && fsys.written-fsys.backed >= c.most+page {
			t.Errorf("%+v: %d bytes at once, %d of %d on the disk, %d ahead of it", c, fsys.most, fsys.backed, fsys.written, fsys.ahead)
		}
		second := [][]byte{batch(t, 2, 1, 1, value[:paceLeast/2]), batch(t, 3, 1, 1, value[:1])}
		ok(t, s.append(second, interval, c.uncached))
		want := bytes.Join(append(first, second...), nil)
		if got := content(t, fsys.FS, s.Path()); !bytes.Equal(got, want) || s.Size() != int64(len(want)) {
			t.Errorf("%+v: %d bytes in the file, %d count, want %d", c, len(got), s.Size(), len(want))
		}
		ok(t, s.Sync())
	}
}

// The pieces become larger while appends are busy for most of the time, up to a bound, and smaller
// when they are not, or after a pause.
func TestPiecesGrowWhileAppendsFallBehind(t *testing.T) {
	var p pace
	now := time.Now()
	load := func(busy, idle time.Duration) {
		for range 4 {
			begin := now
			now = now.Add(busy)
			p.took(begin, now)
			now = now.Add(idle)
		}
	}
	for _, c := range []struct {
		busy, idle time.Duration
		want       int64
	}{
		{time.Millisecond, 39 * time.Millisecond, paceLeast},
		{30 * time.Millisecond, 10 * time.Millisecond, paceMost},
		{30 * time.Millisecond, 0, paceMost},
		{10 * time.Millisecond, 20 * time.Millisecond, paceMost}, // neither
		{2 * time.Millisecond, 38 * time.Millisecond, paceLeast},
		{40 * time.Millisecond, 0, paceMost},
		{40 * time.Millisecond, 2 * time.Second, paceLeast},
	} {
		if load(c.busy, c.idle); p.size() != c.want {
			t.Errorf("appends of %v with pauses of %v: pieces of %d bytes, want %d", c.busy, c.idle, p.size(), c.want)
		}
	}
}

// The disk reports a lost write while an append waits for it, and not again to a later sync: the
// segment accepts nothing more.
func TestALostPieceEndsTheSegment(t *testing.T) {
	for _, uncached := range []bool{false, true} {
		fsys := &backFS{FS: memory(t)}
		files := NewFiles(fsys, 4)
		files.YieldTo(func() bool { return true })
		s, err := Create(files, testDir, 0, 0)
		ok(t, err)
		ok(t, s.append([][]byte{batch(t, 0, 1, 1, "v")}, interval, uncached))
		before := s.Size()
		fsys.fail = syscall.EIO
		err = s.append([][]byte{batch(t, 1, 1, 1, strings.Repeat("v", 1<<20))}, interval, uncached)
		fsys.fail = nil
		if !errors.Is(err, syscall.EIO) || !errors.Is(s.Err(), syscall.EIO) || s.Size() != before {
			t.Errorf("uncached %v: append %v, segment %v with %d bytes", uncached, err, s.Err(), s.Size())
		}
		if s.Sync() == nil || s.Synced() != 0 {
			t.Errorf("uncached %v: the segment counts as synced", uncached)
		}
	}
}
