package storage

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// JOURNAL rule 16: a failure of one log's files stops no other log.

// A start at which one log's files cannot be read or written serves the other logs. The journal's
// frames of that log are safe over further starts and losses of power, and come back as soon as the
// files work again.
func TestStartGoesOnWithoutOneLog(t *testing.T) {
	unswept := func(o *Options) { o.JournalBytes = 1 << 20 } // frames of a log stay in the journal
	for _, op := range []errfs.Op{errfs.List, errfs.Open | errfs.Create, errfs.Write, errfs.Datasync, errfs.Truncate | errfs.Write} {
		for _, err := range []error{syscall.EIO, syscall.EACCES} {
			disk := crashfs.New(1)
			d := mustOpen(t, disk, "sync", unswept)
			for _, l := range makeLogs(t, d, 2, "sync") {
				put(t, l, 4, 700)
				must(t, l.flushAndSync())
			}
			must(t, d.checkpoint(nil))
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
				d = mustOpen(t, errs, "sync", unswept)
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
				must(t, d.Close())
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

// A start that is out of descriptors, memory or space does not blame a log: it fails, and the next
// start has every log.
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
	must(t, err)
	for _, in := range infos {
		if strings.HasSuffix(in.Name, ".frames") {
			names = append(names, in.Name)
		}
	}
	return names
}

// A stop with a log whose segments fail is not clean: the next start must replay the quarantined
// frames.
func TestAStopWithAQuarantinedLogIsNotClean(t *testing.T) {
	for _, profile := range []string{"sync", "os"} {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		d := mustOpen(t, errs, profile)
		logs := makeLogs(t, d, 2, profile)
		put(t, logs[0], 10, 900)
		must(t, logs[0].flush())
		put(t, logs[1], 1, 900)
		errs.Add(errfs.Rule{Ops: errfs.Datasync | errfs.Create, Path: "/d/t-0/*.log", Err: syscall.EIO, Drop: errfs.DropCached})
		_ = logs[0].sync()
		eventually(t, "the log is quarantined", logs[0].isQuarantined)
		holds(t, logs[0], 10) // out of memory
		if err := d.Close(); err == nil {
			t.Error("the stop met no error")
		}
		for _, image := range []*crashfs.FS{disk.KillImage(1), disk.PowerLossImage(crashfs.DropUnsynced, 1)} {
			d = mustOpen(t, image, profile)
			if d.Clean() {
				t.Error("the stop counts as clean")
			}
			holds(t, byPartition(t, d, 0), 10)
			holds(t, byPartition(t, d, 1), 1)
			if left := framesIn(t, image); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		}
	}
}

// The journal and one log's files fail together. The directory accepts records again without that
// log, which the next start restores completely.
func TestReopenGoesOnWithoutOneLog(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	var reopened atomic.Int32
	d := mustOpen(t, errs, "sync", countReopened(&reopened))
	logs := makeLogs(t, d, 3, "sync")
	for _, l := range logs { // so few that no sweep syncs them
		put(t, l, 1, 1000)
		_ = l.flush()
		put(t, l, 1, 1000)
	}
	for _, p := range []string{"/d/t-0", "/d/t-0/*"} {
		errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync | errfs.Create | errfs.Open, Path: p, Err: syscall.EIO})
	}
	errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached}))
	_ = send(logs[1], testBatch(t, 10, nil))
	eventually(t, "the directory reopened", func() bool { return reopened.Load() == 1 && logs[0].isQuarantined() })
	put(t, logs[1], 4, 100)
	put(t, logs[2], 4, 100)
	if n := d.memory.deferred.Load(); n > 4000 {
		t.Errorf("%d bytes of memory are not the others'", n)
	}
	want := logs[1].Ends().Durable
	for _, image := range []*crashfs.FS{disk.KillImage(1), disk.PowerLossImage(crashfs.DropUnsynced, 1)} {
		again := mustOpen(t, image, "sync")
		holds(t, byPartition(t, again, 0), 2)
		holds(t, byPartition(t, again, 1), want)
		put(t, byPartition(t, again, 0), 1, 10)
	}
	// If the log is deleted instead, it leaves nothing once the directory is known to be the log's.
	if err := d.Delete(logs[0]); !errors.Is(err, syscall.EIO) {
		t.Errorf("deleted: %v", err)
	}
	errs.Clear()
	must(t, d.finishDeletion(d.leftOf([]ID{logs[0].id})))
	if left, names := framesIn(t, disk), namesIn(t, disk, "/d", "t-0"); len(left) > 0 || names != "" {
		t.Errorf("left behind: %v, %s", left, names)
	}
}

// A log that cannot be repaired and needs no frames of the journal does not keep its directory from
// being reopened.
func TestReopenGoesOnWithoutALogThatNeedsNothing(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	logs := makeLogs(t, d, 2, "sync")
	cfg := testConfig("sync")
	cfg.Preallocate = true
	logs[0].Configure(cfg)
	put(t, logs[0], 3, 100)
	must(t, logs[0].flushAndSync())
	bad := errs.Add(errfs.Rule{Ops: errfs.Truncate | errfs.Create | errfs.Remove, Path: "/d/t-0/*", Err: syscall.EIO})
	if err := logs[0].roll(); err == nil || logs[0].Err() == nil {
		t.Fatal("the segment was sealed")
	}
	failed := errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached}))
	_ = send(logs[1], testBatch(t, 10, nil))
	// A hit alone may be seen before the directory has recorded the failure.
	eventually(t, "the directory reopened", func() bool { return failed.Hits() > 0 && send(logs[1], testBatch(t, 10, nil)).Err == nil })
	bad.Off()
	eventually(t, "the log takes records", func() bool { return send(logs[0], testBatch(t, 100, nil)).Err == nil })
	holds(t, logs[0], 4)
}

// On a full disk, or in a process without free descriptors, a reopening waits.
func TestReopenWaitsOutAShortage(t *testing.T) {
	for _, short := range []error{syscall.ENOSPC, syscall.EMFILE} {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		d := mustOpen(t, errs, "sync")
		logs := makeLogs(t, d, 2, "sync")
		put(t, logs[0], 3, 1000)
		lack := errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Create,
			When: func(c errfs.Call) bool { return !strings.HasSuffix(c.Path, ".journal") }, Err: short})
		errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached}))
		_ = send(logs[1], testBatch(t, 10, nil))
		eventually(t, "several attempts", func() bool { return lack.Hits() > 5 })
		if logs[0].Offline() != nil || d.Err() == nil {
			t.Errorf("%v: log %v, directory %v", short, logs[0].Offline(), d.Err())
		}
		errs.Clear()
		eventually(t, "the directory reopened", func() bool { return d.Err() == nil })
		eventually(t, "the log takes records", func() bool { return send(logs[0], testBatch(t, 10, nil)).Err == nil })
		holds(t, logs[0], 4)
	}
}

// A damaged quarantine file takes its log offline permanently.
func TestADamagedQuarantineFileIsReported(t *testing.T) {
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
		t.Fatalf("quarantine files: %v", names)
	}
	change(t, image, "/d/"+names[0], 300, []byte{0xff})
	for range 2 {
		d = mustOpen(t, image, "sync")
		if err := byPartition(t, d, 0).Offline(); err == nil || !strings.Contains(err.Error(), journal.ErrDamaged.Error()) {
			t.Errorf("partition 0: %v", err)
		}
		holds(t, byPartition(t, d, 1), 3)
		must(t, d.Close())
	}
}
