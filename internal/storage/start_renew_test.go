package storage

import (
	"bytes"
	"path"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A start writes the journal's records to the segment file that the kill left. It truncates the
// file first, since nothing in it counts, however long it is; it does not replace it by a new one.
func TestAStartEmptiesSegmentsInsteadOfRemovingThem(t *testing.T) {
	disk, image := vfs.Memory(), vfs.Memory()
	d := mustOpen(t, disk, "sync", large)
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 100, 1000)
	must(t, l.flush())
	name := path.Join(l.path, segment.Name(0)+segment.LogSuffix)
	copyTree(t, disk, "/d", image, "/d") // like after a kill
	junk(t, image, name)
	errs := errfs.New(image)
	removed := errs.Add(errfs.Rule{Ops: errfs.Remove, Path: "/d/*-*/*" + segment.LogSuffix})
	again, err := openDir(errs, "sync", large)
	must(t, err)
	if n := removed.Hits(); n != 0 {
		t.Errorf("%d segments were removed", n)
	}
	holds(t, again.Logs()[0], 100)
	must(t, again.Close())
	was, err := disk.Stat(name)
	must(t, err)
	if is, err := image.Stat(name); err != nil || is.Size != was.Size {
		t.Errorf("the segment has %d bytes, it had %d: %v", is.Size, was.Size, err)
	}
	last := mustOpen(t, image, "sync", large)
	holds(t, last.Logs()[0], 100)
}

// junk overwrites a file with more bytes than it has.
func junk(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	defer f.Close()
	if _, err := f.WriteAt(bytes.Repeat([]byte("junk"), 100_000), 0); err != nil {
		t.Fatal(err)
	}
}
