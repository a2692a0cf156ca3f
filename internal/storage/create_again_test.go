package storage

import (
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/diskguard"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// The checkpoint of a creation may be on the disk although writing it failed. Whatever is
// tried after that, with the same topic or another one of its name, every start finds the
// directory of each log that a checkpoint names.
func TestACreationAfterAFailedOneTakesNoLogsDirectory(t *testing.T) {
	for _, id := range []byte{1, 2} {
		for failing := 1; failing < 5; failing++ {
			for _, next := range []errfs.Op{errfs.Mkdir, errfs.Create, errfs.Datasync} {
				disk := crashfs.New(1)
				errs := errfs.New(disk)
				d := mustOpen(t, errs, "sync")
				spec := []Spec{{ID: ID{Topic: [16]byte{1}}, Topic: "u", Config: testConfig("sync")}}
				errs.Add(errfs.Rule{Ops: errfs.SyncDir, Path: "/d", From: failing, Count: 1, Err: syscall.EIO})
				_, first := d.Create(spec)
				errs.Add(errfs.Rule{Ops: next, Path: "/d/u-0*", Err: syscall.EIO})
				errs.Add(errfs.Rule{Ops: next, Path: "/d/u-0/*", Err: syscall.EIO})
				spec[0].ID.Topic = [16]byte{id}
				if first != nil {
					_, _ = d.Create(spec)
				}
				for _, image := range []*crashfs.FS{disk.KillImage(1), disk.PowerLossImage(crashfs.DropUnsynced, 1),
					disk.PowerLossImage(crashfs.KeepAll, 1)} {
					for _, l := range mustOpen(t, image, "sync").Logs() {
						if err := l.Offline(); err != nil {
							t.Fatalf("sync %d of the directory fails, then %v: %v", failing, next, err)
						}
					}
				}
			}
		}
	}
}

// A log whose creation failed in one directory is not made in another one: a checkpoint of
// the first may name it.
func TestALogWhoseCreationFailedStaysInItsDirectory(t *testing.T) {
	for failing := 1; failing < 5; failing++ {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		m := mustManage(t, errs)
		errs.Add(errfs.Rule{Ops: errfs.SyncDir, Path: "/a", From: failing, Count: 1, Err: syscall.EIO})
		spec := specsOf('t', 1)
		if _, err := m.Create(spec); err != nil {
			m.dirs[0].guard.last.Store(&Space{Level: diskguard.Low}) // any other log is made in /b
			if _, err := m.Create(spec); err != nil {
				t.Fatal(err)
			}
			m.dirs[0].guard.last.Store(&Space{})
		}
		put(t, m.Get(spec[0].ID), 2, 10)
		for _, image := range []*crashfs.FS{disk.KillImage(1), disk.PowerLossImage(crashfs.DropUnsynced, 1)} {
			again := mustManage(t, image)
			if len(again.Failed()) > 0 {
				t.Errorf("sync %d fails: %v", failing, again.Failed())
			}
			holds(t, again.Get(spec[0].ID), 2)
		}
	}
}

// A log whose creation failed and that was deleted is there after no start.
func TestALogWhoseCreationFailedIsDeleted(t *testing.T) {
	for failing := 1; failing < 5; failing++ {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		m := mustManage(t, errs)
		errs.Add(errfs.Rule{Ops: errfs.SyncDir, Path: "/a", From: failing, Count: 1, Err: syscall.EIO})
		spec := specsOf('t', 1)
		_, _ = m.Create(spec)
		errs.Clear()
		must(t, m.Delete(spec[0].ID))
		for _, image := range []vfs.FS{disk.KillImage(1), disk.PowerLossImage(crashfs.DropUnsynced, 1)} {
			if left := mustManage(t, image).Logs(); len(left) > 0 {
				t.Errorf("sync %d fails: %v is left", failing, left)
			}
		}
	}
}

// A checkpoint has a log or its tombstone, never both: a start would use the log and remove
// its files.
func TestACheckpointHasALogOrItsTombstone(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	logs := makeLogs(t, d, 2, "sync")
	logs[0].producersMu.Lock() // a checkpoint comes to a stop once it has the list of logs
	ended := make(chan error)
	go func() { ended <- d.checkpoint(nil) }()
	eventually(t, "the checkpoint has begun", func() bool {
		if d.ckptMu.TryLock() {
			d.ckptMu.Unlock()
			return false
		}
		return true
	})
	d.putTombstones(logs[1:], []checkpoint.Log{{ID: logs[1].id, Topic: "t"}})
	logs[0].producersMu.Unlock()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	c, err := ReadState(disk, "/d")
	must(t, err)
	seen := map[ID]bool{}
	for i := range c.Logs {
		if seen[c.Logs[i].ID] {
			t.Errorf("%v is there twice", c.Logs[i].ID)
		}
		seen[c.Logs[i].ID] = true
	}
}
