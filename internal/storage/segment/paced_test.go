package segment

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"

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
// write more at once. Its pieces are a quarter of it, within bounds. A plain append sends much at
// once.
func TestAPacedAppendSendsPieces(t *testing.T) {
	const all = 8 << 20
	for _, c := range []struct {
		paced, uncached    bool
		batches, batch     int
		most, least, ahead int64
	}{
		{true, false, 2, 100 << 10, paceLeast, paceLeast, all},
		{true, true, 2, 200 << 10, paceLeast, paceLeast, 2 * paceLeast},
		{true, true, 2, 1 << 20, 512<<10 + page, 512 << 10, 1<<20 + 2*page},
		{true, true, 6, 1 << 20, backAt, backAt, 2 * backAt},
		{false, false, 2, 1 << 20, all, 2<<20 - page, all},
		{false, true, 2, 1 << 20, all, 2<<20 - page, all},
	} {
		fsys := &backFS{FS: memory(t)}
		files := NewFiles(fsys, 4)
		files.YieldTo(func() bool { return c.paced })
		s, err := Create(files, testDir, 0, 0)
		ok(t, err)
		var first [][]byte
		for i := range c.batches {
			first = append(first, batch(t, int64(i), 1, 1, strings.Repeat("v", c.batch)))
		}
		second := [][]byte{batch(t, int64(c.batches), 1, 1, strings.Repeat("v", 100)), batch(t, int64(c.batches)+1, 1, 1, "v")}
		ok(t, s.append(first, interval, c.uncached))
		if fsys.most > c.most || fsys.most < c.least || fsys.ahead > c.ahead {
			t.Errorf("%+v: %d bytes at once, %d of %d on the disk, %d ahead of it", c, fsys.most, fsys.backed, fsys.written, fsys.ahead)
		}
		ok(t, s.append(second, interval, c.uncached))
		if c.paced && fsys.written-fsys.backed >= c.most+page {
			t.Errorf("%+v: %d of %d bytes on the disk", c, fsys.backed, fsys.written)
		}
		want := bytes.Join(append(first, second...), nil)
		if got := content(t, fsys.FS, s.Path()); !bytes.Equal(got, want) || s.Size() != int64(len(want)) {
			t.Errorf("%+v: %d bytes in the file, %d count, want %d", c, len(got), s.Size(), len(want))
		}
		ok(t, s.Sync())
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
