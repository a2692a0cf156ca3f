package storage

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// A log is deleted while its new start waits for the commit. The commit does not overwrite the log
// that was created under its id since.
func TestACommitIgnoresADeletedLogWhoseIDIsReused(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	logs := makeLogs(t, d, 2, "sync")
	old := logs[0]
	put(t, old, 5, 100)
	put(t, logs[1], 5, 100)
	must(t, old.flushAndSync())
	logs[1].flushMu.Lock() // the second move waits, and with it the commit of both
	ended := make(chan struct{})
	moves := []StartMove{{Log: old, To: 2}, {Log: logs[1], To: 1}}
	go func() { d.MoveStarts(moves); close(ended) }()
	eventually(t, "the first has moved", func() bool { return old.logStart.Load() == 2 })
	must(t, d.Delete(old))
	again, err := d.Create([]Spec{{ID: old.id, Topic: "t", Config: testConfig("sync")}})
	must(t, err)
	logs[1].flushMu.Unlock()
	<-ended
	must(t, errors.Join(moves[0].Err, moves[1].Err))
	put(t, again[0], 3, 10)
	l := byPartition(t, mustOpen(t, disk.KillImage(1), "sync"), 0)
	holds(t, l, 3)
}

// Another process that opens the directory then must not find a different checkpoint in it.
func TestNothingIsCommittedAfterClose(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	logs := makeLogs(t, d, 3, "sync")
	must(t, d.Close())
	before := errs.Calls(errfs.Write | errfs.Create | errfs.Rename)
	for _, l := range logs {
		if err := d.commit(l); err == nil {
			t.Error("a commit succeeded after Close")
		}
	}
	if after := errs.Calls(errfs.Write | errfs.Create | errfs.Rename); after != before {
		t.Errorf("%d writes after the lock was given back", after-before)
	}
}

// The LSNs of lost frames lie between the old redo pointer and a fresh journal file. A start that
// reads from the former must not expect them.
func TestACommitDuringAReopeningLeadsToTheFreshFile(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	logs := makeLogs(t, d, 2, "sync")
	put(t, logs[0], 5, 100)
	put(t, logs[1], 5, 100)
	d.ckptMu.Lock() // both the commit and the checkpoint that begins a fresh journal file wait
	release := sync.OnceFunc(d.ckptMu.Unlock)
	t.Cleanup(release)
	known := d.journal.Durable()
	ended := make(chan error)
	go func() { ended <- logs[1].SetLogStart(2) }()
	eventually(t, "the start has moved in memory", func() bool { return logs[1].logStart.Load() == 2 })
	errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Write, Count: 1, Err: syscall.EIO}))
	for range 20 {
		send(logs[0], testBatch(t, 100, nil))
	}
	eventually(t, "a fresh file has begun", func() bool { return !d.is(loglife.Journal) && d.journal.Durable() > known })
	var images []*crashfs.FS
	errs.Add(errfs.Rule{Ops: errfs.Create, Path: "/d/checkpoint/*", Before: func(errfs.Call) {
		images = append(images, disk.KillImage(1), disk.PowerLossImage(crashfs.KeepAll, 1))
	}})
	release()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	eventually(t, "it takes records again", func() bool { return d.Err() == nil })
	for _, image := range images {
		again := mustOpen(t, image, "sync")
		holds(t, byPartition(t, again, 0), 5)
	}
}

// The records of a deleted log do not reappear because creating a log with its id failed.
func TestACreationThatFailsLeavesTheTombstone(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	logs := makeLogs(t, d, 2, "sync")
	put(t, logs[0], 3, 10)
	put(t, logs[1], 3, 10)
	must(t, d.Delete(logs[0]))
	errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/d/checkpoint/*", Count: 1, Err: syscall.EIO})
	if _, err := d.Create([]Spec{{ID: logs[0].id, Topic: "t", Config: testConfig("sync")}}); err == nil {
		t.Fatal("no error")
	}
	errs.Clear()
	must(t, logs[1].SetLogStart(1))
	image := disk.KillImage(1)
	mustOpen(t, image, "sync")
	infos, _ := image.List("/d")
	for _, in := range infos {
		if strings.HasSuffix(in.Name, FramesSuffix) {
			t.Errorf("%s: records of a deleted log came back", in.Name)
		}
	}
}

// A deletion that returns without an error is durable, even if the first attempt failed.
func TestARepeatedDeletionIsDurable(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	logs := makeLogs(t, d, 2, "sync")
	put(t, logs[0], 3, 10)
	f := errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/checkpoint/*", Count: 1, Err: syscall.EIO})
	if err := d.Delete(logs[0]); err == nil {
		t.Fatal("no error", f.Hits())
	}
	if err := d.Delete(logs[0]); err != nil && !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if n := len(mustOpen(t, disk.KillImage(1), "sync").Logs()); n != 1 {
		t.Errorf("%d logs are there after a deletion that returned without error", n)
	}
}

// A log whose deletion failed is out of use and holds no memory.
func TestAFailedDeletionReleasesMemory(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	logs := makeLogs(t, d, 2, "sync")
	put(t, logs[0], 3, 10000)
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/checkpoint/*", Count: 1, Err: syscall.EIO})
	if err := d.Delete(logs[0]); err == nil {
		t.Fatal("no error")
	}
	if n := d.memory.deferred.Load(); n != 0 {
		t.Errorf("%d bytes wait for nothing", n)
	}
}

// A commit that fails is reported for all who ask: the caller may be a follower that tries again.
func TestAFailedCommitIsReported(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	core, said := observer.New(zap.ErrorLevel)
	d := mustOpen(t, errs, "sync", func(o *Options) { o.Logger = zap.New(core) })
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 3, 10)
	reported := func() int { return said.FilterMessage("checkpoint could not be written").Len() }
	errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/d/checkpoint/*", Count: 2, Err: syscall.EIO})
	for i, what := range []string{"changes", "the whole state"} { // which is written after a failure
		if err := l.SetLogStart(int64(i + 1)); !errors.Is(err, syscall.EIO) {
			t.Fatal(what, err)
		}
		if n := reported(); n != i+1 {
			t.Fatalf("%s: a failure was reported %d times, in all", what, n)
		}
	}
	must(t, l.SetLogStart(3))
	must(t, d.Close())
	_ = d.commit(l)
	if n := reported(); n != 2 {
		t.Errorf("%d failures were reported instead of 2", n)
	}
}
