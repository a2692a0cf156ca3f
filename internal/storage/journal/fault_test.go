package journal

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// For any failed write or datasync, every entry reported as durable is on disk, and every other
// entry receives the error, once. The file is never touched again. After Fresh and Resume the
// journal continues with LSNs that were never assigned.
func TestAnyFailedCall(t *testing.T) {
	for _, op := range []errfs.Op{errfs.Write, errfs.Datasync, errfs.Create, errfs.Rename, errfs.SyncDir} {
		for from := 1; from <= 60; from++ {
			for _, drop := range []errfs.Drop{errfs.DropCached, errfs.DropEvicted} {
				if hit := failOnce(t, op, from, drop); !hit {
					from = 100
					break
				}
			}
		}
	}
}

func failOnce(t *testing.T, op errfs.Op, from int, drop errfs.Drop) (hit bool) {
	synctest.Test(t, func(t *testing.T) {
		name := fmt.Sprintf("%v %d", op, from)
		disk := crashing(t, uint64(from))
		fsys := errfs.New(disk)
		j := open(t, fsys, nil)
		defer j.Close()
		synctest.Wait() // the preparation at the start is the subject of another test
		fault := fsys.Add(errfs.Rule{Ops: op, From: from, Count: 1, Err: syscall.EIO, Drop: drop})
		s, o := newStream(1), newRecorder()
		redo, at := j.at, int64(0)
		var acked []*Entry
		given := map[LSN]bool{}
		for range 30 {
			e := entry(s, at, 9000, eager, o)
			if err := j.give(len(given), e); err != nil {
				t.Fatalf("%s: submit: %v", name, err)
			}
			for o.count() == 0 || !recorded(o, e) {
				time.Sleep(time.Second) // a failed preparation is retried
				synctest.Wait()
			}
			if e.LSN != 0 && given[e.LSN] {
				t.Fatalf("%s: LSN %d was given twice", name, e.LSN)
			}
			given[e.LSN] = true
			if o.err(e) == nil {
				acked = append(acked, e)
				at++
				continue
			}
			if err := <-j.failed; !errors.Is(err, syscall.EIO) {
				t.Fatalf("%s: failed with %v", name, err)
			}
			if j.Submit(nil, entry(s, at, 10, eager, o)) == nil {
				t.Fatalf("%s: a stopped journal accepted an entry", name)
			}
			verifyAcked(t, name, disk, redo, acked)
			before := j.Assigned()
			j.begin(t, 0)
			if j.at.LSN <= before {
				t.Fatalf("%s: LSN %d after %d", name, j.at.LSN, before)
			}
			redo, acked = j.at, nil
		}
		o.verify(t)
		verifyAcked(t, name, disk, redo, acked)
		hit = fault.Hits() > 0
		fault.Off()
	})
	return hit
}

// I5: a datasync of the preparer fails, which has extended the current file, while frames are
// written there and not synced. The kernel may have dropped them, and the writer's datasync would
// succeed. So none of them is acknowledged, and the journal continues in another file.
func TestI5AFailedSyncOfThePreparerKillsTheFile(t *testing.T) {
	for _, drop := range []errfs.Drop{errfs.DropCached, errfs.DropEvicted} {
		synctest.Test(t, func(t *testing.T) {
			disk := crashing(t, 1)
			fsys := errfs.New(disk)
			j := closedIn(t, fsys, func(o *Options) { o.FileSize, o.MaxBytes = 4*zeroStep, 16*zeroStep })
			defer j.Close()
			_, err := j.Fresh(0)
			ok(t, err)
			held := make(chan struct{})
			fault := fsys.Add(errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO, Drop: drop,
				Before: func(errfs.Call) { <-held }})
			ok(t, j.Resume())
			synctest.Wait()
			if fault.Hits() != 1 {
				t.Fatal("the preparer does not extend the current file")
			}
			s, o := newStream(1), newRecorder()
			var given []*Entry
			for i, p := range []*durability.Profile{eager, ticks, eager} {
				given = append(given, entry(s, int64(i), 100, p, o))
				ok(t, j.Submit(nil, given[i]))
			}
			synctest.Wait() // they are written, and wait for the datasync of the preparer
			close(held)
			time.Sleep(time.Second)
			synctest.Wait()
			for _, e := range given {
				if !errors.Is(o.err(e), syscall.EIO) {
					t.Errorf("LSN %d: %v", e.LSN, o.err(e))
				}
			}
			if len(j.failed) != 1 {
				t.Fatal("the journal has not failed")
			}
			old := j.Durable()
			j.begin(t, 0)
			e := entry(s, 0, 100, eager, o)
			ok(t, j.Submit(nil, e))
			synctest.Wait()
			if o.err(e) != nil || e.LSN <= given[2].LSN || old >= given[0].LSN {
				t.Errorf("LSN %d after %d: %v; before, %d were durable", e.LSN, given[2].LSN, o.err(e), old)
			}
			o.verify(t)
			verifyAcked(t, fmt.Sprintf("drop %d", drop), disk, j.at, []*Entry{e})
		})
	}
}

// The same for entries that are acknowledged when written. No datasync of the writer is due for
// seconds, and meanwhile more of them would be acknowledged, after those that the kernel has
// dropped.
func TestI5AFailedSyncOfThePreparerIsHeardAtOnce(t *testing.T) {
	for _, before := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			fsys := errfs.New(crashing(t, 1))
			j := closedIn(t, fsys, func(o *Options) { o.FileSize, o.MaxBytes = 4*zeroStep, 16*zeroStep })
			defer j.Close()
			_, err := j.Fresh(0)
			ok(t, err)
			held := make(chan struct{})
			fsys.Add(errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached,
				Before: func(errfs.Call) { <-held }})
			ok(t, j.Resume())
			s, o := newStream(1), newRecorder()
			first, second := entry(s, 0, 100, loose, o), entry(s, 1, 100, loose, o)
			if before {
				ok(t, j.Submit(nil, first))
				synctest.Wait()
				if !recorded(o, first) || o.err(first) != nil {
					t.Fatalf("an entry that is acknowledged when written: %v", o.err(first))
				}
			}
			close(held)
			synctest.Wait()
			if failed := len(j.failed) == 1; failed != before { // nothing is in the file otherwise
				t.Fatalf("written before: %t, failed: %t", before, failed)
			}
			if !before {
				ok(t, j.Submit(nil, second))
				synctest.Wait()
				if err := o.err(second); !errors.Is(err, errDeadFile) || !errors.Is(err, syscall.EIO) || len(j.failed) != 1 {
					t.Errorf("an entry was acknowledged in a dead file: %v", err)
				}
			}
		})
	}
}

func recorded(o *recorder, e *Entry) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, yes := o.errs[e]
	return yes
}

// verifyAcked simulates a power loss and verifies the entries acknowledged since redo.
func verifyAcked(t *testing.T, name string, disk *crashfs.FS, redo Position, acked []*Entry) {
	t.Helper()
	for _, m := range allModes() {
		all, _, err := frames(disk.PowerLossImage(m, 1), redo)
		if err != nil {
			t.Fatalf("%s: %v: %v", name, m, err)
		}
		for _, e := range acked {
			if err := holds(all, e); err != nil {
				t.Fatalf("%s: %v: LSN %d: %v", name, m, e.LSN, err)
			}
		}
	}
}

// Fresh must fail if the header of the fresh file did not reach the disk.
func TestFreshReportsEveryError(t *testing.T) {
	for _, op := range []errfs.Op{errfs.Create, errfs.Write, errfs.Datasync, errfs.SyncDir} {
		for from := 1; ; from++ {
			fsys := errfs.New(memory(t))
			j := closedIn(t, fsys, nil)
			fault := fsys.Add(errfs.Rule{Ops: op, From: from, Count: 1, Err: syscall.EIO})
			_, err := j.Fresh(5)
			if (err != nil) != (fault.Hits() > 0) {
				t.Errorf("%v %d: %v", op, from, err)
			}
			if err != nil {
				if j.Resume() == nil {
					t.Errorf("%v %d: resumed without a fresh file", op, from)
				}
				j.begin(t, 5)
				if infos, _ := fsys.List(testDir); len(infos) > 2 {
					t.Errorf("%v %d: %d files are left", op, from, len(infos))
				}
			}
			ok(t, j.Close())
			if fault.Hits() == 0 {
				break
			}
		}
	}
}

// On a full disk commits wait and never fail. Retries take no more files each time, and the journal
// recovers when there is space again.
func TestFullDiskMakesCommitsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := errfs.New(memory(t))
		j := open(t, fsys, nil)
		s, o := newStream(1), newRecorder()
		ok(t, fsys.SetQuota(testDir, 150<<10, nil))
		const n = 40
		for i := range n {
			ok(t, j.Submit(nil, entry(s, int64(i), 9000, eager, o)))
		}
		time.Sleep(time.Minute)
		waiting := n - o.count()
		if waiting == 0 || o.count() == 0 || !errors.Is(j.Stalled(), syscall.ENOSPC) {
			t.Fatalf("%d wait, stalled: %v", waiting, j.Stalled())
		}
		calls := fsys.Calls(errfs.Any)
		time.Sleep(time.Minute)
		if more := fsys.Calls(errfs.Any) - calls; more > 60*10 {
			t.Errorf("%d calls in a minute on a full disk", more)
		}
		if infos, _ := fsys.List(testDir); len(infos) > 3 {
			t.Errorf("%d files are left by attempts", len(infos))
		}
		fsys.NoQuota()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if o.count() != n || j.Stalled() != nil {
			t.Errorf("%d of %d reported, stalled: %v", o.count(), n, j.Stalled())
		}
		o.verify(t)
		for e, err := range o.errs {
			if err != nil {
				t.Fatalf("LSN %d: %v", e.LSN, err)
			}
		}
		ok(t, j.Close())
	})
}

// A journal that stalls fails and begins a new file, before the preparer tries again. Stalls
// reports the end of the stall: without it, the log directory would refuse records for ever.
func TestTheEndOfAStallIsReportedAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys, calls := errfs.New(memory(t)), 0
		j := open(t, fsys, func(o *Options) { o.Stalls = func() { calls++ } })
		s, o := newStream(1), newRecorder()
		synctest.Wait()
		fsys.Add(errfs.Rule{Ops: errfs.Create | errfs.Rename, Err: syscall.EIO, Count: 1})
		ok(t, j.Submit(nil, entry(s, 0, 20<<10, eager, o))) // so large that the next file is made
		synctest.Wait()
		if calls != 1 || j.Stalled() == nil {
			t.Fatalf("%d calls, stalled: %v", calls, j.Stalled())
		}
		fsys.Add(errfs.Rule{Ops: errfs.Datasync, Err: syscall.EIO, Count: 1})
		ok(t, j.Submit(nil, entry(s, 1, 100, eager, o)))
		<-j.failed
		j.begin(t, 0)
		if j.Stalled() != nil {
			t.Fatal(j.Stalled())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if calls != 2 {
			t.Errorf("%d calls, want one for the beginning and one for the end", calls)
		}
		ok(t, j.Close())
	})
}

// Close on a full disk returns, and the owners of waiting entries receive an error.
func TestCloseWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := errfs.New(memory(t))
		j := open(t, fsys, nil)
		s, o := newStream(1), newRecorder()
		ok(t, fsys.SetQuota(testDir, 100<<10, nil))
		for i := range 30 {
			ok(t, j.Submit(nil, entry(s, int64(i), 9000, eager, o)))
		}
		time.Sleep(5 * time.Second)
		ok(t, j.Close())
		o.verify(t)
		failed := 0
		for _, err := range o.errs {
			if errors.Is(err, ErrStopped) {
				failed++
			}
		}
		if o.count() != 30 || failed == 0 || len(j.failed) > 0 {
			t.Errorf("%d failed, %d of them for lack of space", o.count(), failed)
		}
	})
}

// A journal reports one failure between two calls of Resume, whatever calls follow it and however
// long the journal stays stopped: a failure reported after Resume would stop a working journal.
func TestAJournalFailsOnceInALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := errfs.New(crashing(t, 1))
		j := open(t, fsys, nil)
		defer j.Close()
		synctest.Wait()
		broken := fsys.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync, Err: syscall.EIO})
		s, o := newStream(1), newRecorder()
		for i, p := range []*durability.Profile{ticks, eager, loose} {
			if err := j.give(0, entry(s, int64(i), 100, p, o)); err != nil && i == 0 { // the first may fail before the others
				t.Fatal(err)
			}
		}
		for i := range 3 {
			j.Sync()
			time.Sleep(time.Minute)
			synctest.Wait()
			if err := j.give(i, entry(s, 3, 100, eager, o)); err == nil {
				t.Fatal("an entry was accepted after the failure")
			}
		}
		if n := len(j.failed); n != 1 {
			t.Fatalf("it failed %d times", n)
		}
		<-j.failed
		broken.Off()
		j.begin(t, 0)
		ok(t, j.give(0, entry(s, 3, 100, eager, o)))
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(j.failed); n != 0 {
			t.Errorf("it failed %d times after it was resumed", n)
		}
	})
}
