package raftstore

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// fill makes the log of every member longer than it may be.
func fill(t *testing.T, s *Store, round int) {
	t.Helper()
	for i := range 6 {
		tx := metadata.Txn{Put: []metadata.KV{{Key: fmt.Sprintf("/fill/%d", i), Value: bytes.Repeat([]byte{byte(round)}, 1<<20)}}}
		if _, err := s.Txn(context.Background(), tx); err != nil {
			t.Fatal(err)
		}
	}
}

// While the snapshot of every member hangs, the same member leads, transactions commit and members
// change. What was acknowledged meanwhile is on the disk before and after the end of the snapshot.
func TestASnapshotThatHangsHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disks []*errfs.FS
		var hold sync.WaitGroup // snapshots that hang
		release := make(chan struct{})
		c, stores := voters(t, 3, func(_ int, fsys vfs.FS) vfs.FS {
			disks = append(disks, errfs.New(fsys))
			return disks[len(disks)-1]
		})
		leader, _ := ready(t, stores...)
		first := mustTxn(t, leader, put("/a", "1"))
		for _, s := range stores { // none of them gets its first state as a snapshot later
			mustShow(t, s, first)
		}
		before, _ := leader.Leadership()
		hold.Add(len(disks))
		for _, d := range disks {
			d.Add(errfs.Rule{Ops: errfs.Datasync, Path: "*.snapshot.tmp", Count: 1, Before: func(errfs.Call) { hold.Done(); <-release }})
		}
		fill(t, leader, 1)
		hold.Wait()
		time.Sleep(time.Minute)
		fill(t, leader, 2)
		if after, _ := leader.Leadership(); after != before {
			t.Errorf("leadership %+v became %+v", before, after)
		}
		if err := leader.AddLearner(context.Background(), 77); err != nil {
			t.Error(err)
		}
		last := leader.Status(t.Context())
		check := func(when string, logs int) {
			for i, s := range stores {
				must.OK(t, s.WaitFor(context.Background(), last.Revision))
				disk := vfs.ReadOnly(disks[i])
				if content, err := Read(disk, "/m"); err != nil || content.Last < last.Last {
					t.Errorf("%s: member %d holds entry %d, want %d, %v", when, i, content.Last, last.Last, err)
				}
				files, err := disk.List("/m")
				if err != nil || len(files) != logs {
					t.Errorf("%s: member %d has %v, %v", when, i, files, err)
				}
			}
		}
		synctest.Wait()             // the member that was not needed for a majority writes the last entry
		check("while they hang", 4) // the former snapshot, two logs, and the new one
		close(release)
		synctest.Wait()
		check("after they ended", 2)
		delete(c.stores, 77)
		c.close(t)
	})
}

// A snapshot that can't be written is tried again, and the member works meanwhile.
func TestAFailedSnapshotIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk *errfs.FS
		c, stores := voters(t, 1, func(_ int, fsys vfs.FS) vfs.FS { disk = errfs.New(fsys); return disk })
		leader, _ := ready(t, stores...)
		disk.Add(errfs.Rule{Ops: errfs.Write, Path: "*.tmp", Err: syscall.ENOSPC, Count: 2})
		for i := range 5 {
			fill(t, leader, i)
			time.Sleep(3 * time.Second) // longer than the pause between two attempts
		}
		if err := leader.Failed(); err != nil {
			t.Error(err)
		}
		if files, err := disk.List("/m"); len(files) != 2 || err != nil {
			t.Errorf("%v, %v", files, err)
		}
		c.close(t)
	})
}

// Close does not wait until a snapshot is complete, and nothing of it is written after Close.
func TestCloseGivesASnapshotUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk *errfs.FS
		c, stores := voters(t, 1, func(_ int, fsys vfs.FS) vfs.FS { disk = errfs.New(fsys); return disk })
		leader, _ := ready(t, stores...)
		began, release := make(chan struct{}), make(chan struct{})
		disk.Add(errfs.Rule{Ops: errfs.Write, Path: "*.tmp", Count: 1, Before: func(errfs.Call) { close(began); <-release }})
		fill(t, leader, 1)
		<-began
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			c.close(t)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while a write to its directory is in progress")
		default:
		}
		close(release)
		<-closed
		if content, err := Read(vfs.ReadOnly(disk), "/m"); err != nil || len(content.Keys) < 6 {
			t.Errorf("%d keys, %v", len(content.Keys), err)
		}
		files, err := disk.List("/m")
		if err != nil || len(files) != 3 { // the former snapshot and two logs
			t.Errorf("%v, %v", files, err)
		}
	})
}
