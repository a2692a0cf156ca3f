package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// has reports whether a partition can be used. It gets its first role a moment after its log.
func (l life) has(id [16]byte, i int32) bool {
	p, err := l.Partition(id, i)
	return err == nil && p.LeaderEpoch() >= 0
}

// failedNow returns the partitions in Failed.
func (l life) failedNow() (names []string) {
	for _, f := range l.Failed() {
		names = append(names, f.String())
	}
	return names
}

// gate blocks calls to a disk until it is opened.
type gate struct {
	*errfs.Fault
	free chan struct{}
}

func hold(t testing.TB, errs *errfs.FS, ops errfs.Op, path string) *gate {
	t.Helper()
	g := &gate{free: make(chan struct{})}
	g.Fault = errs.Add(errfs.Rule{Ops: ops, Path: path, Before: func(errfs.Call) { <-g.free }})
	t.Cleanup(g.open) // before the storage is closed
	return g
}

func (g *gate) open() {
	select {
	case <-g.free:
	default:
		close(g.free)
	}
}

// A log that is made again, because others had the records, is made also if none of them is in sync
// any longer before that succeeds: nothing would try it again, and an unclean election finds only
// replicas that have a log.
func TestACreationOutlivesTheOthersInSync(t *testing.T) {
	c, errs := newCluster(), errfs.New(vfs.Memory())
	tp := c.shared(idA, 2, 0)
	c.record(self, tp, idB) // in a directory that was replaced
	must(t, c.change(tp, func(p *metadata.Partition) { p.ISR = []int32{2} }))
	fault := errs.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "/d/a-0", Err: syscall.ENOSPC})
	l := start(t, errs, c)
	must(t, c.apply(t, l.Manager))
	if failed := l.failedNow(); len(failed) != 1 {
		t.Fatalf("failed: %v", failed)
	}
	must(t, c.change(tp, func(p *metadata.Partition) { p.Leader, p.LeaderEpoch, p.ISR = -1, 1, nil }))
	must(t, c.apply(t, l.Manager))
	fault.Off()
	l.retry(time.Now().Add(time.Hour))
	waitFor(t, "the log is made", func() bool { return l.has(idA, 0) })
}

// A log that could not be created is listed with its cause and does not keep other logs from being
// created. When the cause is gone, it is created without a restart.
func TestAFailedCreationIsRetried(t *testing.T) {
	c, errs := newCluster(), errfs.New(vfs.Memory())
	l := start(t, errs, c)
	fault := errs.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "/d/a-1", Err: syscall.EMFILE})
	c.topic("a", idA, 3)
	must(t, c.apply(t, l.Manager))
	if !l.has(idA, 0) || !l.has(idA, 2) {
		t.Error("the others were not made")
	}
	all := l.Failed()
	if len(all) != 1 || all[0].String() != "a-1" || all[0].TopicID != idA || !errors.Is(all[0].Err, syscall.EMFILE) ||
		!errors.Is(all[0].Err, ErrOffline) {
		t.Fatalf("failed: %+v", all)
	}
	if wait := all[0].NextTry.Sub(all[0].Since); wait <= 0 || wait > mostPause {
		t.Errorf("it is tried again after %v", wait)
	}
	l.retry(time.Now().Add(time.Hour))
	waitFor(t, "the second try", func() bool { return fault.Hits() >= 3 && len(l.Failed()) == 1 }) // all three, one by one, again
	fault.Off()
	l.retry(time.Now().Add(2 * time.Hour))
	waitFor(t, "the log is made", func() bool { return l.has(idA, 1) })
	c.applyUntilPlaced(t, l.Manager, idA, 1)
	grow(t, l.partition(t, idA, 1))
	if left := l.failedNow(); left != nil {
		t.Errorf("still failed: %v", left)
	}
	waitFor(t, "its directory is recorded", func() bool {
		must(t, c.show(t, l.Manager))
		return c.placed(idA, 1) != [16]byte{}
	})
}

// Retries run automatically at growing intervals, and end when the topic is deleted.
func TestRetriesBackOffAndEndWithTheTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, errs := newCluster(), errfs.New(vfs.Memory())
		l := start(t, errs, c)
		fault := errs.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "/d/a-0", Err: syscall.ENOSPC})
		c.topic("a", idA, 1)
		must(t, c.apply(t, l.Manager))
		var tries []int
		for _, after := range []time.Duration{1500 * time.Millisecond, 2 * time.Second, 4 * time.Second, 10 * time.Minute} {
			time.Sleep(after)
			synctest.Wait()
			tries = append(tries, fault.Hits())
		}
		if !slices.Equal(tries[:3], []int{2, 3, 4}) || tries[3] < 20 || tries[3] > 30 {
			t.Errorf("tried %v times", tries)
		}
		c.delete("a", idA, 1)
		must(t, c.apply(t, l.Manager))
		time.Sleep(time.Hour)
		if n := fault.Hits(); n != tries[3] {
			t.Errorf("tried %d times after the topic was deleted", n-tries[3])
		}
		if _, err := l.Partition(idA, 0); !errors.Is(err, ErrUnknownPartition) || l.Failed() != nil {
			t.Errorf("%v, failed: %v", err, l.failedNow())
		}
	})
}

// While a deletion hangs on one disk, logs are created in the other directory, and roles and
// configurations change, also for partitions on that disk. The directory's own tasks run in order
// when the disk responds again.
func TestAStuckDeletionDelaysNothingElse(t *testing.T) {
	c, errs := newCluster(), errfs.New(vfs.Memory())
	l := twoDirs(t, errs, c)
	c.topic("a", idA, 4)
	c.topic("b", idB, 2)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	stuck := hold(t, errs, errfs.Rename, "/e/*")
	c.delete("a", idA, 4)
	must(t, c.show(t, l.Manager))
	waitFor(t, "the disk holds the deletion, and the other has done it", func() bool {
		return stuck.Hits() > 0 && len(l.storage.Dirs()[0].Logs()) == 1
	})
	again := [16]byte{0xaa}
	c.topic("a", again, 4) // the name of the deleted topic
	c.put(metadata.TopicConfigKey(idB), metadata.EncodeConfigs(map[string]string{"profile": "os"}))
	must(t, c.change(metadata.TopicPartition{Topic: idB, Partition: 1}, func(p *metadata.Partition) { p.LeaderEpoch = 5 }))
	must(t, c.show(t, l.Manager))
	for i := range int32(2) {
		if p := l.partition(t, idB, i); p.Log().Config().Profile.Name != "os" || i == 1 && p.LeaderEpoch() != 5 {
			t.Errorf("%s has profile %s and epoch %d", p, p.Log().Config().Profile.Name, p.LeaderEpoch())
		}
	}
	made := func() (n int) {
		for i := range int32(4) {
			if p, err := l.Partition(again, i); err == nil {
				if l.has(again, i) {
					n++
				}
			} else if !errors.Is(err, ErrOffline) {
				t.Errorf("partition %d: %v", i, err)
			} else if p != nil {
				t.Error("a partition with an error")
			}
		}
		return n
	}
	waitFor(t, "logs are made in the other directory", func() bool { return made() >= 2 })
	stuck.open()
	waitFor(t, "and in this one", func() bool { return made() == 4 })
	for i := range int32(4) {
		p := l.partition(t, again, i)
		c.applyUntilPlaced(t, l.Manager, again, i)
		grow(t, p)
		if p.Ends().LogEnd != 1 {
			t.Errorf("%s is not new: %+v", p, p.Ends())
		}
	}
	waitFor(t, "the tombstone goes", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.keys[metadata.DeletingKey(idA)].Key == "" })
	if n := len(l.storage.Logs()); n != 6 {
		t.Errorf("%d logs", n)
	}
}

// A directory whose disk hangs gets no new logs. The logs that it was to create are listed, and are
// created there when the disk responds. AwaitApplied returns meanwhile.
func TestLogsOfAHungDiskAreCreatedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, errs := newCluster(), errfs.New(vfs.Memory())
		l := twoDirs(t, errs, c)
		stuck := hold(t, errs, errfs.Mkdir, "/e/*")
		c.topic("a", idA, 4)
		must(t, c.apply(t, l.Manager)) // returns although two logs are not created
		bad := l.Failed()
		if len(bad) != 2 || !errors.Is(bad[0].Err, storage.ErrFailed) || !strings.Contains(bad[0].Err.Error(), "/e hangs") {
			t.Fatalf("failed: %v", bad)
		}
		c.topic("b", idB, 2)
		must(t, c.apply(t, l.Manager))
		for i := range int32(2) {
			if p := l.partition(t, idB, i); p.Log().Dir().Path() != "/d" {
				t.Errorf("%s is in %s", p, p.Log().Dir().Path())
			}
		}
		c.delete("b", idB, 2)
		must(t, c.apply(t, l.Manager))
		stuck.open()
		time.Sleep(2 * mostPause)
		synctest.Wait()
		must(t, c.apply(t, l.Manager))
		for i := range int32(4) {
			grow(t, l.partition(t, idA, i))
		}
		if l.Failed() != nil || len(l.storage.Logs()) != 4 {
			t.Errorf("failed: %v, %d logs", l.failedNow(), len(l.storage.Logs()))
		}
		must(t, c.apply(t, l.Manager))
		if c.image.Deleting(idB) != nil {
			t.Error("the tombstone stays")
		}
	})
}

// A directory with a slow deletion gets no new logs if there is another directory, long before it
// counts as hung.
func TestNewLogsAvoidASlowDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, errs := newCluster(), errfs.New(vfs.Memory())
		l := twoDirs(t, errs, c)
		c.topic("a", idA, 4)
		must(t, c.apply(t, l.Manager))
		must(t, c.apply(t, l.Manager))
		stuck := hold(t, errs, errfs.Rename, "/e/*")
		c.delete("a", idA, 4)
		must(t, c.show(t, l.Manager))
		time.Sleep(2 * slowAfter)
		c.topic("b", idB, 4)
		must(t, c.apply(t, l.Manager))
		must(t, c.apply(t, l.Manager))
		for i := range int32(4) {
			grow(t, l.partition(t, idB, i))
		}
		if stuck.Hits() != 1 {
			t.Errorf("the disk holds %d calls", stuck.Hits())
		}
	})
}

// A topic is deleted while a hung disk is to create its log. Nothing is left of it: the deletion
// waits for the disk.
func TestADeletionWaitsForAHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, errs := newCluster(), errfs.New(vfs.Memory())
		l := start(t, errs, c)
		stuck := hold(t, errs, errfs.Mkdir, "/d/*")
		c.topic("a", idA, 1)
		must(t, c.apply(t, l.Manager))
		c.delete("a", idA, 1)
		must(t, c.apply(t, l.Manager))
		if c.image.Deleting(idA) == nil {
			t.Fatal("there is no tombstone")
		}
		stuck.open()
		time.Sleep(2 * firstPause)
		synctest.Wait()
		must(t, c.apply(t, l.Manager))
		if n := len(l.storage.Logs()); n != 0 || c.image.Deleting(idA) != nil {
			t.Errorf("%d logs, tombstone %v", n, c.image.Deleting(idA))
		}
	})
}

// A failed deletion is retried until it succeeds. Until then the topic's tombstone stays, its logs
// serve no request, and a topic of the same name can be created.
func TestAFailedDeletionIsRetried(t *testing.T) {
	for name, rule := range map[string]errfs.Rule{
		"directory":  {Ops: errfs.Rename, Path: "/d/a-*", Err: syscall.EIO},
		"sync":       {Ops: errfs.SyncDir, Path: "/d", Err: syscall.EIO},
		"checkpoint": {Ops: errfs.Write, Path: "/d/checkpoint/*", Err: syscall.ENOSPC},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, errs := newCluster(), errfs.New(vfs.Memory())
				l := start(t, errs, c)
				c.topic("a", idA, 2)
				must(t, c.apply(t, l.Manager))
				fault := errs.Add(rule)
				c.delete("a", idA, 2)
				must(t, c.apply(t, l.Manager))
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				must(t, c.apply(t, l.Manager))
				if n := fault.Hits(); n < 5 || n > 60 || c.image.Deleting(idA) == nil {
					t.Fatalf("tried %d times, tombstone %v", n, c.image.Deleting(idA))
				}
				fault.Off()
				time.Sleep(2 * mostPause)
				synctest.Wait()
				must(t, c.apply(t, l.Manager))
				if c.image.Deleting(idA) != nil {
					t.Error("the tombstone stays though the disk takes deletions again")
				}
				names, err := errs.List("/d")
				must(t, err)
				for _, e := range names {
					if strings.HasPrefix(e.Name, "a-") {
						t.Errorf("%s is left", e.Name)
					}
				}
			})
		})
	}
}

// A watcher is notified of partitions that get their logs after Apply, when they can be used.
func TestAWatcherIsNotifiedOfLogsCreatedLater(t *testing.T) {
	c, errs := newCluster(), errfs.New(vfs.Memory())
	l := start(t, errs, c)
	heard := make(chan string, 8)
	l.Watch(func(topic *metadata.Topic, i int32) {
		p, err := l.Partition(topic.ID, i)
		if err != nil {
			t.Error(err)
			return
		}
		leader, _ := p.Leader()
		heard <- fmt.Sprint(topic.Name, i, " led by ", leader)
	})
	fault := errs.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "/d/a-1", Err: syscall.EIO})
	c.topic("a", idA, 2)
	must(t, c.apply(t, l.Manager))
	if got := <-heard; got != "a0 led by 1" {
		t.Error(got)
	}
	fault.Off()
	l.retry(time.Now().Add(time.Hour))
	if got := <-heard; got != "a1 led by 1" {
		t.Error(got)
	}
}

// Changes that the metadata store does not accept are retried, and the store delays no log. Records
// count in no directory before the metadata has it.
func TestAFailedMetadataUpdateIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		l := start(t, vfs.Memory(), c)
		c.fail = errors.New("store is gone")
		c.topic("a", idA, 1)
		must(t, c.apply(t, l.Manager))
		first := begin(t, l.partition(t, idA, 0), AcksAll, 1)
		time.Sleep(mostPause)
		synctest.Wait()
		if !first.pending() {
			t.Errorf("acknowledged before its directory is recorded: %v", first.Err)
		}
		c.mu.Lock()
		c.fail = nil
		c.mu.Unlock()
		time.Sleep(2 * mostPause)
		synctest.Wait()
		must(t, c.apply(t, l.Manager))
		must(t, first.wait(t))
		if c.placed(idA, 0) != l.partition(t, idA, 0).Log().Dir().ID() {
			t.Error("the log's directory is not recorded")
		}
	})
}

// A directory runs its tasks in the order of the images: the log of a deleted topic is gone before
// another one takes its place.
func TestALogIsDeletedBeforeItsNameIsReused(t *testing.T) {
	c, errs := newCluster(), errfs.New(vfs.Memory())
	l := start(t, errs, c)
	c.topic("a", idA, 1)
	must(t, c.apply(t, l.Manager))
	stuck := hold(t, errs, errfs.Mkdir, "/d/first-0")
	calls := make(chan errfs.Op, 8)
	errs.Add(errfs.Rule{Ops: errfs.Rename | errfs.Mkdir, Path: "/d/a-0", Before: func(x errfs.Call) { calls <- x.Op }})
	c.topic("first", [16]byte{1}, 1)
	must(t, c.show(t, l.Manager))
	waitFor(t, "the directory is at work", func() bool { return stuck.Hits() > 0 })
	c.delete("a", idA, 1)
	must(t, c.show(t, l.Manager))
	c.topic("a", idB, 1)
	must(t, c.show(t, l.Manager))
	stuck.open()
	waitFor(t, "the log is made", func() bool { return l.has(idB, 0) })
	if first, then := <-calls, <-calls; first != errfs.Rename || then != errfs.Mkdir {
		t.Errorf("first %v, then %v", first, then)
	}
}

// A change of its partition finds a created log before the directory's goroutine adopts it. The log
// gets the configuration that changed during its creation.
func TestALogFoundByAChangeHasTheLatestConfig(t *testing.T) {
	c, errs := newCluster(), errfs.New(vfs.Memory())
	l := start(t, errs, c)
	slow := hold(t, errs, errfs.Mkdir, "/d/a-0")
	c.topic("a", idA, 1)
	must(t, c.show(t, l.Manager))
	waitFor(t, "the log is being made", func() bool { return slow.Hits() > 0 })
	c.put(metadata.TopicConfigKey(idA), metadata.EncodeConfigs(map[string]string{"profile": "os"}))
	must(t, c.show(t, l.Manager))
	l.roles.Lock() // the directory's goroutine waits for it, with the log
	slow.open()
	id := storage.ID{Topic: idA}
	waitFor(t, "the log is there", func() bool { return l.storage.Get(id) != nil })
	_, err := l.reconcile([]wanted{{c.image.TopicByID(idA), 0}}, false, nil)
	l.roles.Unlock()
	must(t, err)
	if got := l.partition(t, idA, 0).Log().Config().Profile.Name; got != "os" {
		t.Errorf("profile %s", got)
	}
}

// A retry changes roles like Apply, and never at the same time. Close waits for a running retry.
func TestARetryWaitsForApplyAndCloseForARetry(t *testing.T) {
	c, errs := newCluster(), errfs.New(vfs.Memory())
	l := start(t, errs, c)
	errs.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "/d/a-0", Err: syscall.EMFILE})
	c.topic("a", idA, 1)
	must(t, c.apply(t, l.Manager))
	l.roles.Lock() // like Apply
	l.mu.Lock()
	l.missing[metadata.TopicPartition{Topic: idA}].next = time.Now() // it is due
	l.mu.Unlock()
	l.startRetry()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("closed during a retry: %v", err)
	}
	l.mu.RLock()
	if l.missing[metadata.TopicPartition{Topic: idA}].queued {
		t.Error("a retry chose a directory concurrently with Apply, which may be deleting the topic")
	}
	l.mu.RUnlock()
	l.roles.Unlock()
}

// While a directory creates logs, those that wait for their turn report when it last did.
func TestLogsThatWaitForOthersReportProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, errs := newCluster(), errfs.New(vfs.Memory())
		l := startIn(t, errs, c, "/d")
		var made atomic.Int64
		errs.Add(errfs.Rule{Ops: errfs.Mkdir, Path: "/d/*", Before: func(errfs.Call) {
			if made.Add(1)%createAtOnce == 0 {
				time.Sleep(2 * time.Second)
			}
		}})
		const logs = 3 * createAtOnce
		c.topic("a", idA, logs)
		began := time.Now()
		done := make(chan error)
		go func() { done <- c.apply(t, l.Manager) }()
		time.Sleep(5 * time.Second) // two of three steps
		var young, old int
		for i := range int32(logs) {
			_, err := l.Partition(idA, i)
			if e := (*CreatingError)(nil); !errors.As(err, &e) {
				continue
			} else if e.Since.After(began) {
				young++
			} else {
				old++
			}
		}
		if young != createAtOnce || old != 0 {
			t.Errorf("%d logs report progress, %d do not", young, old)
		}
		must(t, <-done)
	})
}

// A log that is created after another process has registered as this broker gets no role: the roles
// of the newest image are those of the other process.
func TestALogThatIsCreatedTooLateGetsNoRole(t *testing.T) {
	c := newCluster()
	errs := errfs.New(vfs.Memory())
	l := startWith(t, errs, c, Options{Incarnation: idA}, "/d")
	c.register(self, idA)
	must(t, c.apply(t, l.Manager))
	g := hold(t, errs, errfs.Mkdir, "/d/*")
	c.topic("a", idA, 1)
	must(t, c.show(t, l.Manager))
	waitFor(t, "the creation waits for the disk", func() bool { return g.Hits() > 0 })
	c.register(self, idB)
	tp := metadata.TopicPartition{Topic: idA}
	must(t, c.change(tp, func(p *metadata.Partition) {
		p.Leader, p.LeaderEpoch, p.Replicas, p.ISR = 2, 1, []int32{1, 2}, []int32{2}
	}))
	if err := c.show(t, l.Manager); !errors.Is(err, ErrReplaced) {
		t.Fatal(err)
	}
	g.open()
	waitFor(t, "the log", func() bool { _, err := l.Partition(idA, 0); return err == nil })
	if leader, epoch := l.partition(t, idA, 0).Leader(); leader >= 0 || epoch >= 0 {
		t.Errorf("the replaced process has a role: leader %d in epoch %d", leader, epoch)
	}
	c.register(self, idA)
	must(t, c.show(t, l.Manager))
	if leader, epoch := l.partition(t, idA, 0).Leader(); leader != 2 || epoch != 1 {
		t.Errorf("registered again, it follows %d in epoch %d", leader, epoch)
	}
}
