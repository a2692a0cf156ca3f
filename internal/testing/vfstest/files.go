package vfstest

import (
	"bytes"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/vfs"
)

func createNeedsAFreeName(t *testing.T, f vfs.FS, dir string) {
	h := create(t, f, dir+"/a")
	if h.Name() != dir+"/a" {
		t.Errorf("Name() = %q", h.Name())
	}
	wantContent(t, h, "")
	_, err := f.Create(dir + "/a")
	wantErr(t, "Create of a file that exists", err, fs.ErrExist)
	_, err = f.Create(dir)
	wantErr(t, "Create of a directory that exists", err, fs.ErrExist)
	_, err = f.Create(dir + "/missing/a")
	wantErr(t, "Create in a missing directory", err, fs.ErrNotExist)
	_, err = f.Create(dir + "/a/b")
	wantErr(t, "Create below a file", err, syscall.ENOTDIR)
	if err != nil && !strings.Contains(err.Error(), dir+"/a/b") {
		t.Errorf("the error does not name the file: %v", err)
	}
}

func openNeedsAFile(t *testing.T, f vfs.FS, dir string) {
	_, err := f.Open(dir + "/a")
	wantErr(t, "Open of a missing file", err, fs.ErrNotExist)
	_, err = f.Open("")
	wantErr(t, "Open of no name", err, fs.ErrNotExist)
	_, err = f.Open(dir)
	wantErr(t, "Open of a directory", err, syscall.EISDIR)
	Put(t, f, dir+"/a", "x")
	if got := Get(t, f, dir+"/a"); got != "x" {
		t.Errorf("read %q", got)
	}
}

func writesBeyondTheEnd(t *testing.T, f vfs.FS, dir string) {
	h := create(t, f, dir+"/a")
	write(t, h, "x", 0)
	write(t, h, "y", 9000)
	wantContent(t, h, "x"+strings.Repeat("\x00", 8999)+"y")
	write(t, h, "", 20000)
	if size, err := h.Size(); size != 9001 || err != nil {
		t.Errorf("after a write of nothing beyond the end: size %d, %v", size, err)
	}
	write(t, h, "zz", 4095)
	wantContent(t, h, "x"+strings.Repeat("\x00", 4094)+"zz"+strings.Repeat("\x00", 4903)+"y")
}

func writeVec(t *testing.T, f vfs.FS, dir string) {
	h := create(t, f, dir+"/a")
	var bufs [][]byte
	for i := range 2500 { // more than two calls of IOV_MAX pieces
		bufs = append(bufs, bytes.Repeat([]byte{byte('a' + i%26)}, i%7))
	}
	whole := bytes.Join(bufs, nil)
	keep := bytes.Join(bufs, nil)
	first := bufs[1]
	if n, err := h.WriteVecAt(bufs, 3); n != len(whole) || err != nil {
		t.Fatalf("WriteVecAt: %d, %v; want %d", n, err, len(whole))
	}
	wantContent(t, h, "\x00\x00\x00"+string(whole))
	if len(bufs) != 2500 || &bufs[1][0] != &first[0] || !bytes.Equal(bytes.Join(bufs, nil), keep) {
		t.Error("WriteVecAt changed its argument")
	}
	for _, nothing := range [][][]byte{nil, {}, {nil}, {{}, nil, {}}} {
		if n, err := h.WriteVecAt(nothing, 1<<20); n != 0 || err != nil {
			t.Errorf("WriteVecAt of nothing: %d, %v", n, err)
		}
	}
	wantContent(t, h, "\x00\x00\x00"+string(whole))
}

func truncate(t *testing.T, f vfs.FS, dir string) {
	h := create(t, f, dir+"/a")
	write(t, h, strings.Repeat("x", 5000), 0)
	ok(t, h.Truncate(3))
	wantContent(t, h, "xxx")
	ok(t, h.Truncate(6))
	wantContent(t, h, "xxx\x00\x00\x00")
	ok(t, h.Truncate(5000))
	wantContent(t, h, "xxx"+strings.Repeat("\x00", 4997))
	ok(t, h.Truncate(0))
	wantContent(t, h, "")
}

func allocate(t *testing.T, f vfs.FS, dir string) {
	h := create(t, f, dir+"/a")
	write(t, h, "abc", 0)
	ok(t, h.Allocate(1, 1))
	wantContent(t, h, "abc")
	ok(t, h.Allocate(2, 6))
	wantContent(t, h, "abc\x00\x00\x00\x00\x00")
	wantErr(t, "Allocate of no bytes", h.Allocate(0, 0), syscall.EINVAL)
	wantErr(t, "Allocate of a negative number", h.Allocate(0, -1), syscall.EINVAL)
}

func negativePositions(t *testing.T, f vfs.FS, dir string) {
	h := create(t, f, dir+"/a")
	for what, call := range map[string]func() error{
		"ReadAt":     func() error { _, err := h.ReadAt(make([]byte, 1), -1); return err },
		"WriteAt":    func() error { _, err := h.WriteAt([]byte("x"), -1); return err },
		"WriteVecAt": func() error { _, err := h.WriteVecAt([][]byte{[]byte("x")}, -1); return err },
		"Truncate":   func() error { return h.Truncate(-1) },
		"Allocate":   func() error { return h.Allocate(-1, 5) },
	} {
		if err := call(); err == nil {
			t.Errorf("%s of a negative position succeeds", what)
		}
	}
	wantContent(t, h, "")
}

func closedFiles(t *testing.T, f vfs.FS, dir string) {
	h := create(t, f, dir+"/a")
	ok(t, h.Close())
	for what, call := range map[string]func() error{
		"ReadAt":     func() error { _, err := h.ReadAt(make([]byte, 1), 0); return err },
		"WriteAt":    func() error { _, err := h.WriteAt([]byte("x"), 0); return err },
		"WriteVecAt": func() error { _, err := h.WriteVecAt([][]byte{[]byte("x")}, 0); return err },
		"Datasync":   h.Datasync,
		"Truncate":   func() error { return h.Truncate(1) },
		"Allocate":   func() error { return h.Allocate(0, 1) },
		"Size":       func() error { _, err := h.Size(); return err },
		"Close":      h.Close,
	} {
		wantErr(t, what+" after Close", call(), fs.ErrClosed)
	}
	if h.Name() != dir+"/a" {
		t.Errorf("Name() = %q after Close", h.Name())
	}
}

func openFileOutlivesItsName(t *testing.T, f vfs.FS, dir string) {
	h := create(t, f, dir+"/a")
	write(t, h, "one", 0)
	ok(t, f.Rename(dir+"/a", dir+"/b"))
	write(t, h, "two", 3)
	if got := Get(t, f, dir+"/b"); got != "onetwo" {
		t.Errorf("the renamed file holds %q", got)
	}
	ok(t, f.Remove(dir+"/b"))
	write(t, h, "three", 6)
	ok(t, h.Datasync())
	wantContent(t, h, "onetwothree")
	Put(t, f, dir+"/b", "new")
	wantContent(t, h, "onetwothree")
}

func twoHandles(t *testing.T, f vfs.FS, dir string) {
	a := create(t, f, dir+"/a")
	b, err := f.Open(dir + "/a")
	ok(t, err)
	write(t, a, "x", 0)
	write(t, b, "y", 1)
	wantContent(t, a, "xy")
	ok(t, b.Close())
	wantContent(t, a, "xy")
}

func concurrent(t *testing.T, f vfs.FS, dir string) {
	const writers, size = 8, 1000
	h := create(t, f, dir+"/a")
	ok(t, h.Truncate(writers*size))
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			want := bytes.Repeat([]byte{byte('a' + i)}, size)
			if _, err := h.WriteAt(want, int64(i*size)); err != nil {
				t.Error(err)
			}
			if err := h.Datasync(); err != nil {
				t.Error(err)
			}
			got := make([]byte, size)
			if _, err := h.ReadAt(got, int64(i*size)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("writer %d read back %q, %v", i, got[:10], err)
			}
		})
	}
	wg.Wait()
}
