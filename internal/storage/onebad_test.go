package storage

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/vfs/crashfs"
	"github.com/chronik-io/chronik/internal/vfs/errfs"
)

// JOURNAL rule 16: what one log's files do wrong stops no other log.

// A start at which one log's files can't be read or written serves the others.
// What the journal held of that log is safe, over further starts and losses of
// power, and is back as soon as the files are.
func TestStartGoesOnWithoutOneLog(t *testing.T) {
	for _, op := range []errfs.Op{errfs.List, errfs.Open | errfs.Create, errfs.Write, errfs.Datasync, errfs.Truncate | errfs.Write} {
		for _, err := range []error{syscall.EIO, syscall.EACCES} {
			disk := crashfs.New(1)
			d := mustOpen(t, disk, "sync")
			for _, l := range makeLogs(t, d, 2, "sync") {
				put(t, l, 4, 700)
				if err := l.flushAndSync(); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.checkpoint(nil); err != nil {
				t.Fatal(err)
			}
			for _, l := range d.Logs() {
				put(t, l, 5, 3000) // some of it flushed, all of it in the journal
				_ = l.flush()
				put(t, l, 2, 100)
			}
			image, others := disk.PowerLossImage(crashfs.KeepSectors, 1), int64(11)
			for range 2 {
				errs := errfs.New(image)
				for _, p := range []string{"/d/t-0", "/d/t-0/*"} {
					errs.Add(errfs.Rule{Ops: op, Path: p, Err: err})
				}
				d = mustOpen(t, errs, "sync")
				if byPartition(t, d, 0).Offline() == nil {
					t.Fatalf("%v: the log does not need its files", op)
				}
				put(t, byPartition(t, d, 1), 3, 2000)
				others += 3
				holds(t, byPartition(t, d, 1), others)
				image = image.PowerLossImage(crashfs.DropUnsynced, 2)
			}
			for range 2 { // after a crash, and after a clean stop
				d = mustOpen(t, image, "sync")
				holds(t, byPartition(t, d, 0), 11)
				holds(t, byPartition(t, d, 1), others)
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				if left := framesIn(t, image); len(left) > 0 {
					t.Errorf("%v: left behind: %v", op, left)
				}
			}
			d = mustOpen(t, image, "sync")
			put(t, byPartition(t, d, 0), 1, 10)
			holds(t, byPartition(t, d, 0), 12)
		}
	}
}

// A start that is out of descriptors, memory or space blames no log for it: it fails, and the
// next one has every log.
func TestAStartInAShortageBlamesNoLog(t *testing.T) {
	for _, short := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC} {
		disk := crashfs.New(1)
		d := mustOpen(t, disk, "sync")
		for _, l := range makeLogs(t, d, 2, "sync") {
			put(t, l, 4, 700)
		}
		image := disk.PowerLossImage(crashfs.KeepSectors, 1)
		errs := errfs.New(image)
		errs.Add(errfs.Rule{Ops: errfs.Open | errfs.Create | errfs.Write, Path: "/d/t-0/*", Err: short})
		if _, err := openDir(errs, "sync"); !errors.Is(err, short) {
			t.Fatalf("%v: opened with %v", short, err)
		}
		d = mustOpen(t, image, "sync")
		holds(t, byPartition(t, d, 0), 4)
		holds(t, byPartition(t, d, 1), 4)
	}
}

func framesIn(t *testing.T, fsys *crashfs.FS) (names []string) {
	t.Helper()
	infos, err := fsys.List("/d")
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range infos {
		if strings.HasSuffix(in.Name, ".frames") {
			names = append(names, in.Name)
		}
	}
	return names
}

// A stop while a log is offline is not a clean one: the next start must look at
// that log as after a crash.
func TestStopBesideAnOfflineLogIsNotClean(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "os")
	logs := makeLogs(t, d, 2, "os")
	cfg := testConfig("os")
	cfg.Segment.Bytes = 2000
	logs[0].Configure(cfg)
	put(t, logs[0], 10, 900)
	put(t, logs[1], 1, 900)
	errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/d/t-0/*.log", Count: 1, Err: syscall.EIO})
	_ = logs[0].sync()
	if logs[0].Offline() == nil {
		t.Fatal("the log is not offline")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = mustOpen(t, disk.KillImage(1), "os")
	if d.Clean() {
		t.Error("the stop counts as clean")
	}
	holds(t, byPartition(t, d, 0), 10)
	holds(t, byPartition(t, d, 1), 1)
}

// The journal fails while one log's files fail: the directory takes records
// again without that log, which the next start brings back whole.
func TestReopenGoesOnWithoutOneLog(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	logs := makeLogs(t, d, 3, "sync")
	for _, l := range logs {
		put(t, l, 3, 1000)
		_ = l.flush()
		put(t, l, 3, 1000)
	}
	for _, p := range []string{"/d/t-0", "/d/t-0/*"} {
		errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync | errfs.Create | errfs.Open, Path: p, Err: syscall.EIO})
	}
	failed := errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "*.journal", Count: 1, Err: syscall.EIO, Drop: errfs.DropCached})
	_ = send(logs[1], testBatch(t, 10, nil))
	eventually(t, "the directory reopened", func() bool { return failed.Hits() > 0 && d.Err() == nil && logs[0].Offline() != nil })
	put(t, logs[1], 4, 100)
	put(t, logs[2], 4, 100)
	eventually(t, "its memory is the others'", func() bool { return len(logs[0].memoryHeld()) == 0 })
	want := logs[1].Ends().Durable
	for _, image := range []*crashfs.FS{disk.KillImage(1), disk.PowerLossImage(crashfs.DropUnsynced, 1)} {
		again := mustOpen(t, image, "sync")
		holds(t, byPartition(t, again, 0), 6)
		holds(t, byPartition(t, again, 1), want)
		put(t, byPartition(t, again, 0), 1, 10)
	}
	// Deleted instead, it leaves nothing.
	if err := d.Delete(logs[0]); err != nil {
		t.Fatal(err)
	}
	if left := framesIn(t, disk); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func (l *Log) memoryHeld() []*chunk {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.tail.chunks
}

// A disk that is full, or a process without descriptors, is nobody's fault: no
// log is left behind, and the directory waits.
func TestReopenWaitsOutAShortage(t *testing.T) {
	for _, short := range []error{syscall.ENOSPC, syscall.EMFILE} {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		d := mustOpen(t, errs, "sync")
		logs := makeLogs(t, d, 2, "sync")
		put(t, logs[0], 3, 1000)
		lack := errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Create, Path: "/d/t-*/*.log", Err: short})
		errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "*.journal", Count: 1, Err: syscall.EIO, Drop: errfs.DropCached})
		_ = send(logs[1], testBatch(t, 10, nil))
		eventually(t, "more attempts than one log has", func() bool { return lack.Hits() > homeAttempts+1 })
		if logs[0].Offline() != nil || d.Err() == nil {
			t.Errorf("%v: log %v, directory %v", short, logs[0].Offline(), d.Err())
		}
		errs.Clear()
		eventually(t, "the directory reopened", func() bool { return d.Err() == nil })
		put(t, logs[0], 1, 10)
		holds(t, logs[0], 4)
	}
}

// What was kept aside and does not read back takes its log offline for good.
func TestDamagedAsideIsNamed(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	for _, l := range makeLogs(t, d, 2, "sync") {
		put(t, l, 3, 1000)
	}
	image := disk.KillImage(1)
	errs := errfs.New(image)
	errs.Add(errfs.Rule{Ops: errfs.List, Path: "/d/t-0", Err: syscall.EIO})
	mustOpen(t, errs, "sync")
	image = image.KillImage(2)
	names := framesIn(t, image)
	if len(names) != 1 {
		t.Fatalf("kept aside: %v", names)
	}
	change(t, image, "/d/"+names[0], 300, []byte{0xff})
	for range 2 {
		d = mustOpen(t, image, "sync")
		if err := byPartition(t, d, 0).Offline(); err == nil || !strings.Contains(err.Error(), journal.ErrDamaged.Error()) {
			t.Errorf("partition 0: %v", err)
		}
		holds(t, byPartition(t, d, 1), 3)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
