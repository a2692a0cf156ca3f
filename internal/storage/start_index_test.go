package storage

import (
	"path"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A start after a kill syncs what it replayed. It leaves the indexes, which are caches, to the next
// stop.
func TestAStartLeavesIndexesToTheStop(t *testing.T) {
	disk, image := vfs.Memory(), vfs.Memory()
	d := mustOpen(t, disk, "sync", large)
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 100, 1000)
	copyTree(t, disk, "/d", image, "/d") // like after a kill
	errs := errfs.New(image)
	indexes := errs.Add(errfs.Rule{Ops: errfs.Create | errfs.Open | errfs.Write, Path: "*index*"})
	again, err := openDir(errs, "sync", large)
	must(t, err)
	if n := indexes.Hits(); n != 0 {
		t.Errorf("the start made %d calls for index files", n)
	}
	back := again.Logs()[0]
	if end := back.Ends().Durable; end != 100 {
		t.Errorf("the log is back up to %d", end)
	}
	name := path.Join(back.path, segment.Name(0)+".index")
	must(t, again.Close())
	if _, err := image.Stat(name); err != nil {
		t.Errorf("after the stop: %v", err)
	}
}
