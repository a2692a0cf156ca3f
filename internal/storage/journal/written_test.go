package journal

import (
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// openCounting opens a journal whose datasyncs are counted from here on, and which reports through
// which LSN it became durable.
func openCounting(t *testing.T, under *errfs.FS, change func(*Options)) (j *opened, syncs *errfs.Fault, through *atomic.Uint64) {
	t.Helper()
	through = &atomic.Uint64{}
	j = open(t, under, func(o *Options) {
		o.FileSize, o.MaxBytes = 2<<20, 8<<20
		o.DurableThrough = func(lsn LSN) { through.Store(uint64(lsn)) }
		if change != nil {
			change(o)
		}
	})
	// The first file is zeroed before anything is counted.
	eventually(t, "the file is prepared", func() bool { return j.space.cur.zeroed.Load() == j.space.cur.capacity })
	return j, under.Add(errfs.Rule{Ops: errfs.Datasync, Path: "*.journal"}), through
}

// eventually polls until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(100 * time.Microsecond) {
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("never: %s", what)
		}
	}
}

// A profile that acknowledges written records costs no datasync, whether the writer or the caller
// writes, and acknowledged entries survive the end of the process.
func TestWrittenEntriesNeedNoDatasync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the interval of the system would end in a slow test
		disk := crashing(t, 1)
		j, syncs, through := openCounting(t, errfs.New(disk), nil)
		o, s := newRecorder(), newStream(0)
		for i := range 30 {
			ok(t, j.give(i, entry(s, int64(i), 100, loose, o)))
			o.wait(i + 1)
		}
		if syncs.Hits() > 0 || through.Load() > 0 {
			t.Errorf("%d datasyncs for 30 written entries, durable through %d", syncs.Hits(), through.Load())
		}
		o.verify(t)
		all, _, err := frames(disk.KillImage(1), j.at)
		ok(t, err)
		for _, e := range o.wait(30) {
			ok(t, holds(all, e))
		}
		ok(t, j.Close())
		if through.Load() != 30 {
			t.Errorf("after Close the journal is durable through %d of 30", through.Load())
		}
		all, _, err = frames(disk.PowerLossImage(crashfs.Modes()[0], 1), j.at)
		ok(t, err)
		if len(all) != 30 {
			t.Errorf("%d of 30 frames survived a loss of power after Close", len(all))
		}
	})
}

// One datasync makes the entries of all streams durable: on request, when an interval has passed,
// and when too much would be lost otherwise.
func TestWhatMakesWrittenEntriesDurable(t *testing.T) {
	const streams = 20
	for name, c := range map[string]struct {
		change func(*Options)
		loose  bool
		ask    bool
	}{
		"somebody asks":          {loose: true, ask: true},
		"an interval has passed": {},
		"much is unsynced":       {loose: true, change: func(o *Options) { o.UnsyncedBytes = streams * 100 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, syncs, through := openCounting(t, errfs.New(memory(t)), c.change)
				o, p := newRecorder(), ticks
				if c.loose {
					p = loose
				}
				for i := range streams {
					ok(t, j.give(i, entry(newStream(i), 0, 100, p, o)))
				}
				o.wait(streams)
				if c.ask {
					j.Sync()
				}
				eventually(t, "the entries are durable", func() bool { return through.Load() == streams && j.Durable() == streams })
				if n := syncs.Hits(); c.loose && n != 1 {
					t.Errorf("%d datasyncs", n)
				}
				ok(t, j.Close())
				o.verify(t)
			})
		})
	}
}

// An entry that needs only the write does not wait for the datasync of other entries in its group,
// which finally also makes it durable.
func TestWrittenEntriesDoNotWaitForTheDatasyncOfTheirGroup(t *testing.T) {
	under := errfs.New(memory(t))
	j, _, through := openCounting(t, under, nil)
	held := make(chan struct{})
	under.Add(errfs.Rule{Ops: errfs.Datasync, Path: "*.journal", Count: 1, Before: func(errfs.Call) { <-held }})
	o, quick := newRecorder(), newRecorder()
	slow, fast := entry(newStream(0), 0, 100, eager, o), entry(newStream(1), 0, 100, loose, quick)
	ok(t, j.Submit(new(groupcommit.Batch), slow))
	ok(t, j.Submit(new(groupcommit.Batch), fast))
	j.Wake()
	quick.wait(1)
	if o.count() > 0 || j.Durable() > 0 || j.Notified() > 0 {
		t.Errorf("%d synced entries reported before the datasync, durable %d, notified %d", o.count(), j.Durable(), j.Notified())
	}
	close(held)
	o.wait(1)
	eventually(t, "both are durable", func() bool { return through.Load() == 2 && j.Notified() == 2 })
	ok(t, j.Close())
}

// A failed datasync does not revoke acknowledgements of written entries: the owner keeps the bytes.
// Nothing is written until a fresh file is begun.
func TestAFailedDatasyncAfterAWrittenEntry(t *testing.T) {
	under := errfs.New(memory(t))
	j, _, through := openCounting(t, under, nil)
	under.Add(errfs.Rule{Ops: errfs.Datasync, Path: "*.journal", Count: 1, Err: syscall.EIO})
	o, s := newRecorder(), newStream(0)
	written := entry(s, 0, 100, loose, o)
	ok(t, j.Submit(nil, written))
	o.wait(1)
	j.Sync()
	if err := <-j.failed; err == nil || o.err(written) != nil || through.Load() > 0 {
		t.Errorf("failed with %v; the written entry was reported with %v, durable through %d", err, o.err(written), through.Load())
	}
	if err := j.Submit(nil, entry(s, 1, 100, loose, o)); err == nil {
		t.Error("an entry was accepted after the failure")
	}
	j.begin(t, 0)
	ok(t, j.Submit(nil, entry(s, 1, 100, loose, o)))
	o.wait(2)
	ok(t, j.Close())
	o.verify(t)
}

// earlyWritten writes a group with entries of both kinds of profiles: the profile of the first
// stream changes within the group. It returns how many entries are reported before the datasync.
func earlyWritten(t *testing.T, b Broken) (early int) {
	synctest.Test(t, func(t *testing.T) {
		disk := errfs.New(memory(t))
		j := open(t, disk, func(o *Options) { o.Broken = b })
		hold := make(chan struct{})
		disk.Add(errfs.Rule{Ops: errfs.Datasync, Path: "*.journal", Before: func(errfs.Call) { <-hold }})
		synctest.Wait() // the writer is parked
		o, others, changed, other := newRecorder(), newRecorder(), newStream(1), newStream(2)
		var batch groupcommit.Batch // both calls are one group
		ok(t, j.Submit(&batch, entry(changed, 0, 100, loose, o), entry(changed, 1, 100, eager, o), entry(changed, 2, 100, loose, o)))
		ok(t, j.Submit(&batch, entry(other, 0, 100, loose, others)))
		go batch.Run() // it may write the group, and wait for the disk
		synctest.Wait()
		early = o.count() + others.count()
		close(hold)
		o.wait(3)
		others.wait(1)
		if b == (Broken{}) {
			o.verify(t)
		}
		ok(t, j.Close())
	})
	return early
}

// An entry that is acknowledged when written is not reported before an earlier entry of its stream
// that is acknowledged when durable.
func TestAWrittenEntryDoesNotOvertakeASyncedOne(t *testing.T) {
	if n := earlyWritten(t, Broken{}); n != 2 {
		t.Errorf("%d entries are reported before the datasync, want 2", n)
	}
}

// A written entry that waits for the datasync with earlier ones of its stream fails with them.
func TestAWrittenEntryFailsWithTheSyncedOneBeforeIt(t *testing.T) {
	disk := errfs.New(memory(t))
	j := open(t, disk, nil)
	disk.Add(errfs.Rule{Ops: errfs.Datasync, Path: "*.journal", Count: 1, Err: syscall.EIO})
	o, s := newRecorder(), newStream(1)
	synced, written := entry(s, 0, 100, eager, o), entry(s, 1, 100, loose, o)
	var batch groupcommit.Batch // one group
	ok(t, j.Submit(&batch, synced, written))
	batch.Run()
	if err := <-j.failed; err == nil {
		t.Error("the journal failed without an error")
	}
	o.wait(2)
	if o.err(synced) == nil || o.err(written) == nil {
		t.Errorf("reported with %v and %v", o.err(synced), o.err(written))
	}
	ok(t, j.Close())
}
