package storage

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// One dead segment among many logs does not keep journal files needed by the others, and its
// records in the journal survive a power loss.
func TestDeadSegmentDoesNotPinTheJournal(t *testing.T) {
	t.Parallel()
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	logs := makeLogs(t, d, 30, "sync")
	bad := logs[0]
	put(t, bad, 5, 1000)
	must(t, bad.flush())
	put(t, bad, 5, 1000)
	errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync | errfs.Create, Path: "/d/t-0/*", Err: syscall.EIO})
	_ = bad.flushAndSync()
	if bad.Err() == nil {
		t.Fatal("the segment did not fail")
	}
	for i := range 600 { // several times the journal's size
		put(t, logs[1+i%29], 1, 3000)
	}
	holds(t, bad, 10)
	image := disk.PowerLossImage(crashfs.DropUnsynced, 1)
	again := mustOpen(t, image, "sync")
	for _, l := range again.Logs() {
		if l.id == bad.id {
			holds(t, l, 10)
		}
	}
	errs.Clear()
	eventually(t, "the log takes records again", func() bool { return bad.Err() == nil })
	put(t, bad, 1, 10)
	holds(t, bad, 11)
}

// A sweep of ten thousand small partitions is one journal write.
func TestSweepCarriesSmallPartitions(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	d := mustOpen(t, disk, "sync", func(o *Options) { o.JournalFileSize, o.JournalBytes = 16<<20, 64<<20 })
	d.carryWait = time.Hour // no sweep has begun
	const n = 10_000
	logs := makeLogs(t, d, n, "sync")
	// A group gets the entries that are submitted during the sync before it. A disk that takes no
	// time would form as many groups as the machine's load allows, and the journal would be full
	// before all records are in it.
	disk.Add(errfs.Rule{Ops: errfs.Datasync, Delay: 20 * time.Millisecond})
	data := testBatch(t, 100, nil)
	for range 2 {
		for _, l := range logs {
			l.Append(&Append{Batches: data, Sink: make(sink, 1)}, nil)
		}
	}
	for _, l := range logs {
		eventually(t, "the records count", func() bool { return l.AckEnd() == 2 })
	}
	for d.journal.SweepTarget() < d.journal.Notified()/2 {
		put(t, logs[0], 4, 1<<20)
	}
	before := disk.Calls(errfs.Datasync)
	signal(d.sweeps) // only once, so that one sweep is counted
	eventually(t, "the sweep moved the redo pointer", func() bool {
		for _, l := range logs[1:] {
			l.mu.RLock()
			oldest := l.oldestLocked()
			l.mu.RUnlock()
			if oldest <= n {
				return false
			}
		}
		return true
	})
	disk.Clear()
	syncs := disk.Calls(errfs.Datasync) - before
	t.Logf("the sweep took %d fdatasyncs", syncs)
	if syncs > n/10 {
		t.Errorf("the sweep took %d fdatasyncs", syncs)
	}
	for _, l := range logs[1:] {
		if list, err := l.snapshot(); len(list) > 0 || err != nil {
			t.Fatalf("%s was brought into %d segments instead of being carried, %v", l, len(list), err)
		}
	}
}

// K concurrent appends need far fewer than K fdatasyncs, on one log and across a thousand.
func TestConcurrentAppendsShareSyncs(t *testing.T) {
	for _, partitions := range []int{1, 1000} {
		disk := crashfs.New(1)
		d := mustOpen(t, disk, "sync", func(o *Options) { o.JournalFileSize, o.JournalBytes = 8<<20, 64<<20 })
		logs := makeLogs(t, d, partitions, "sync")
		waiters := newWaiters(logs)
		disk.SetSyncLatency(5 * time.Millisecond) // so long that also a busy machine appends much meanwhile
		before := disk.Syncs()
		const clients, each = 128, 40
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				for i := range each {
					l := logs[(c*each+i*37)%partitions]
					a := send(l, testBatch(t, 350, nil))
					waiters[l].wait(a.Next)
				}
			})
		}
		wg.Wait()
		if syncs := disk.Syncs() - before; syncs > clients*each/20 {
			t.Errorf("%d partitions: %d appends took %d fdatasyncs", partitions, clients*each, syncs)
		}
	}
}

// waiter wakes goroutines when a log's ends advance.
type waiter struct {
	idle
	l    *Log
	mu   sync.Mutex
	cond *sync.Cond
}

func newWaiters(logs []*Log) map[*Log]*waiter {
	m := make(map[*Log]*waiter, len(logs))
	for _, l := range logs {
		w := &waiter{l: l}
		w.cond = sync.NewCond(&w.mu)
		l.Observe(w)
		m[l] = w
	}
	return m
}

// Appended implements Observer.
func (w *waiter) Appended(*groupcommit.Batch) {}

// Advanced implements Observer.
func (w *waiter) Advanced() {
	w.mu.Lock()
	w.cond.Broadcast()
	w.mu.Unlock()
}

// Reverted implements Observer.
func (w *waiter) Reverted(int64, error) { w.Advanced(); alone{l: w.l}.Reverted(0, nil) }

func (w *waiter) wait(end int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.l.AckEnd() < end {
		w.cond.Wait()
	}
}

// The memory in use stays near its limit while the segments are blocked, and appends continue when
// they are not.
func TestFault09SlowSegmentsBoundMemory(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	const bound = 256 << 10
	d := mustOpen(t, errs, "sync", func(o *Options) { o.JournalFileSize, o.JournalBytes, o.DeferredBytes = 4<<20, 16<<20, bound })
	logs := makeLogs(t, d, 20, "sync")
	hold, let := gated(t)
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/*-*/*.log", Before: func(errfs.Call) { <-hold }})
	sent := make([]*Append, 0, 2000)
	for i := range 2000 { // one record each
		a := &Append{Batches: testBatch(t, 1000, nil), Sink: make(sink, 1)}
		logs[i%20].Append(a, nil)
		sent = append(sent, a)
	}
	if n := d.memory.deferred.Load(); n > 2*bound {
		t.Errorf("%d bytes are deferred, the bound is %d", n, bound)
	}
	let()
	for _, a := range sent {
		if <-a.Sink.(sink); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	for _, l := range logs {
		eventually(t, "the records count", func() bool { return l.AckEnd() == 100 })
		holds(t, l, 100)
	}
	if n := d.memory.deferred.Load() + d.memory.cached.Load(); n > 2*bound {
		t.Errorf("%d bytes are kept", n)
	}
}

// A log can be deleted while the journal has no space left.
func TestDeleteNeedsNoJournalSpace(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	logs := makeLogs(t, d, 2, "sync")
	errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Create, Path: "/d/t-*/*.log", Err: syscall.ENOSPC})
	var queued []*Append
	for range 200 {
		a := &Append{Batches: testBatch(t, 4000, nil), Sink: make(sink, 1)}
		logs[0].Append(a, nil)
		queued = append(queued, a)
	}
	must(t, d.Delete(logs[0]))
	for _, a := range queued {
		<-a.Sink.(sink)
	}
	errs.Clear()
	eventually(t, "the other log takes records", func() bool { return send(logs[1], testBatch(t, 10, nil)).Err == nil })
}

// A change of profile under load loses and duplicates no record.
func TestProfileChangesUnderLoad(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	var wg sync.WaitGroup
	const clients, each = 4, 300
	for range clients {
		wg.Go(func() {
			for range each {
				if a := send(l, testBatch(t, 300, nil)); a.Err != nil {
					t.Error(a.Err)
				}
			}
		})
	}
	for i := range 40 {
		l.Configure(testConfig([]string{"os", "sync", "interval", "patient"}[i%4]))
		time.Sleep(time.Millisecond)
	}
	wg.Wait()
	l.Configure(testConfig("sync"))
	eventually(t, "everything is durable", func() bool { return l.Ends().Durable == clients*each })
	holds(t, l, clients*each)
	again := mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), "sync")
	holds(t, again.Logs()[0], clients*each)
}

// A journal write fails. Waiting appends fail, durable records can be read, and the directory
// accepts records again without help, in a fresh file.
func TestFault03JournalErrorReopens(t *testing.T) {
	for _, op := range []errfs.Op{errfs.Write, errfs.Datasync} {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		reopened := make(chan struct{}, 1)
		d := mustOpen(t, errs, "sync", func(o *Options) { o.reopened = func(*Dir) { reopened <- struct{}{} } })
		logs := makeLogs(t, d, 3, "sync")
		logs[2].Configure(testConfig("os"))
		put(t, logs[0], 5, 100)
		errs.Add(inJournal(d, errfs.Rule{Ops: op, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached}))
		a := send(logs[0], testBatch(t, 100, nil))
		<-reopened
		errs.Clear()
		if a.Err == nil && logs[0].AckEnd() > 5 {
			t.Error("an append counts although the journal failed")
		}
		put(t, logs[2], 1, 100) // acknowledged when written: not affected
		put(t, logs[0], 1, 100)
		put(t, logs[1], 1, 100)
		holds(t, logs[0], 6)
		again := mustOpen(t, disk.PowerLossImage(crashfs.KeepSectors, 1), "sync")
		for _, l := range again.Logs() {
			if l.id == logs[0].id {
				holds(t, l, 6)
			}
		}
	}
}

// A failed journal loses no record that was acknowledged as written: the directory flushes these
// from memory to segments before it accepts records again.
func TestFault03WrittenRecordsOutliveAFailedJournal(t *testing.T) {
	for _, profile := range []string{"os", "interval"} {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		reopened := make(chan struct{}, 1)
		d := mustOpen(t, errs, profile, func(o *Options) { o.reopened = func(*Dir) { reopened <- struct{}{} } })
		l := makeLogs(t, d, 1, profile)[0]
		cfg := testConfig(profile)
		cfg.Profile.Interval = time.Hour
		l.Configure(cfg)
		put(t, l, 2, 100)
		d.journal.Sync()
		eventually(t, "the first records are durable", func() bool { return l.Ends().Durable == 2 })
		errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached}))
		for range 3 {
			if a := send(l, testBatch(t, 100, nil)); a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		eventually(t, "the records count", func() bool { return l.AckEnd() == 5 })
		d.journal.Sync()
		<-reopened
		if e := l.Ends(); e.LogEnd != 5 || e.Durable != 5 {
			t.Errorf("%s: %+v", profile, e)
		}
		holds(t, l, 5)
		holds(t, mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), profile).Logs()[0], 5)
	}
}

// A full disk prevents no read and loses no acknowledged record. The log recovers without help.
func TestFault04FullSegmentDisk(t *testing.T) {
	for _, profile := range []string{"sync", "os"} {
		for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
			disk := crashfs.New(1)
			errs := errfs.New(disk)
			d := mustOpen(t, errs, profile)
			l := makeLogs(t, d, 1, profile)[0]
			put(t, l, 5, 1000)
			errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/*-*/*.log", Err: full, Short: 300})
			failed := false
			for range 200 {
				if a := send(l, testBatch(t, 1000, nil)); a.Err != nil {
					failed = errors.Is(a.Err, ErrFailed)
					break
				}
				_ = l.flush()
			}
			if !failed {
				t.Fatalf("%s: appends go on on a full disk", profile)
			}
			acked := l.AckEnd()
			holds2 := l.Ends().LogStart
			if s, err := l.Read(holds2, acked, math.MaxInt, true); err != nil || s.Size == 0 {
				t.Errorf("%s: read on a full disk: %v", profile, err)
			}
			errs.Clear()
			eventually(t, "the log takes records again", func() bool { return l.Err() == nil })
			if e := l.Ends(); e.LogEnd < acked {
				t.Errorf("%s: acknowledged up to %d, now %+v", profile, acked, e)
			}
			put(t, l, 3, 100)
			holds(t, l, l.Ends().LogEnd)
		}
	}
}

// An entry larger than a journal file skips an empty one, which must not keep sweeps from releasing
// space.
func TestLargeEntriesDoNotStallTheJournal(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	for range 20 {
		put(t, l, 1, 90<<10)
	}
	holds(t, l, 20)
}

// A truncation waits for carried entries: an entry without an LSN would get one beyond the
// truncation and restore truncated records.
func TestTruncationWaitsForCarriedFrames(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	logs := makeLogs(t, d, 2, "sync")
	put(t, logs[0], 5, 100)
	hold, let := gated(t)
	held := errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Before: func(errfs.Call) { <-hold }}))
	send(logs[1], testBatch(t, 100, nil)) // keeps the journal busy
	eventually(t, "the datasync began", func() bool { return held.Hits() > 0 })
	var carried atomic.Int64
	if logs[0].carry(&carried, 1<<20) == 0 {
		t.Fatal("nothing was carried")
	}
	done := make(chan error, 1)
	go func() { done <- logs[0].Truncate(2) }()
	eventually(t, "the truncation began", func() bool { return len(done) > 0 || committing(logs[0]) })
	if len(done) > 0 {
		t.Error("the truncation did not wait")
	}
	let()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	put(t, logs[1], 1, 100) // all carried entries are on the disk now
	for _, l := range mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), "sync").Logs() {
		holds(t, l, 2)
	}
}

// committing reports whether a goroutine has the right to commit.
func committing(l *Log) bool {
	l.queueMu.Lock()
	defer l.queueMu.Unlock()
	return l.committing
}
