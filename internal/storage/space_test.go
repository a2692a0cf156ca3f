package storage

import (
	"sync/atomic"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/diskguard"
	"github.com/chronik-io/chronik/internal/vfs"
)

// shrinking is one file system with continuous writes by others.
type shrinking struct {
	vfs.FS
	free atomic.Int64
}

// Free implements vfs.FS.
func (s *shrinking) Free(string) (available, total uint64, err error) {
	return uint64(s.free.Add(-4096)), 2 << 30, nil
}

// A journal in its own directory on the file system of the logs counts as being on the same one,
// even while others write to it.
func TestTheSameDiskUnderLoad(t *testing.T) {
	fsys := &shrinking{FS: vfs.Memory()}
	fsys.free.Store(1 << 30)
	d, err := OpenDir(Location{Path: "/d", Journal: "/j"}, Options{FS: fsys})
	must(t, err)
	defer d.Close()
	if limit := d.Usage().JournalLimit; limit != 2<<30/8 {
		t.Errorf("the journal may have %d MiB of 2 GiB", limit/mib)
	}
}

// A small disk that was full accepts records again when its topics are deleted: the journal does
// not keep the space.
func TestASmallDiskHasSpaceAgain(t *testing.T) {
	fsys := newGauge(150 * mib)
	fsys.total.Store(150 * mib)
	d, err := OpenDir(Location{Path: "/d"}, Options{FS: fsys, MinFree: func() int64 { return diskguard.Auto },
		Config: func(string, ID) Config { return testConfig("sync") }})
	must(t, err)
	defer d.Close()
	if s := d.LastSpace(); s.MinFree != 150*mib/4 {
		t.Fatalf("%+v", s)
	}
	l := makeLogs(t, d, 1, "sync")[0]
	for sent, data := 0, testBatch(t, 64<<10, nil); sent < 200*mib; sent += len(data) { // several times the journal's size
		eventually(t, "the guard lets it", func() bool { return send(l, data).Err == nil })
	}
	eventually(t, "all counts", func() bool { return l.AckEnd() >= l.logEnd.Load() })
	must(t, d.Delete(l))
	var took int64
	infos, err := fsys.List(d.JournalPath())
	must(t, err)
	for _, in := range infos {
		took += in.Size
	}
	if took > 150*mib/4 {
		t.Errorf("the journal has %d MiB in %d files", took/mib, len(infos))
	}
}

// A batch of about the size of the whole journal does not stop the logs of the directory.
func TestABatchMayBeAsLargeAsTheJournal(t *testing.T) {
	for _, size := range []int{150 << 10, 200 << 10, 240 << 10, 400 << 10} {
		d := mustOpen(t, vfs.Memory(), "sync")
		logs := makeLogs(t, d, 2, "sync")
		put(t, logs[0], 1, size)
		put(t, logs[1], 40, 3000)
		put(t, logs[0], 2, size)
		put(t, logs[1], 40, 3000)
	}
}
