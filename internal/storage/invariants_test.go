package storage

import (
	"errors"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// Directories in memory are a small heap with much garbage: a third of the time went into its
// collection.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}

// No record of a synced profile is acknowledged before an fdatasync that began after it was
// written: while the disk blocks all fdatasyncs, nothing is.
func TestI2NoEarlyAck(t *testing.T) {
	for _, profile := range []string{"sync", "patient"} {
		errs := errfs.New(crashfs.New(1))
		d := mustOpen(t, errs, profile)
		l := makeLogs(t, d, 1, profile)[0]
		hold, release := gated(t)
		held := errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Before: func(errfs.Call) { <-hold }}))
		a := send(l, testBatch(t, 100, nil))
		eventually(t, "the datasync began", func() bool { return held.Hits() > 0 || l.AckEnd() > 0 })
		if e := l.Ends(); a.Err != nil || e.Durable != 0 || l.AckEnd() != 0 || e.LogEnd != 1 {
			t.Errorf("%s: before the datasync returned: %+v, %v", profile, e, a.Err)
		}
		if _, err := d.opt.FS.Stat("/d/t-0/00000000000000000000.log"); err == nil {
			t.Error("bytes went to a segment before they were durable")
		}
		release()
		eventually(t, "the record counts", func() bool { return l.AckEnd() == 1 })
	}
}

// Offsets are dense in log order, and refused batches use none.
func TestI3RefusedBatchesLeaveNoHole(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	want := int64(0)
	for i := range 50 {
		if i%3 == 0 { // a sequence number out of order
			if a := send(l, testBatch(t, 10, &record.Producer{ID: 1, Sequence: int32(1000 + 7*i)})); i > 0 && a.Err == nil {
				t.Fatal("a sequence from the future was taken")
			} else if i == 0 {
				want++
			}
			continue
		}
		if a := send(l, testBatch(t, 10, nil)); a.Err != nil || a.Base != want {
			t.Fatalf("offset %d, want %d: %v", a.Base, want, a.Err)
		}
		want++
	}
	eventually(t, "the records count", func() bool { return l.AckEnd() == want })
	holds(t, l, want)
}

// endsWatch reads the ends whenever they advance.
type endsWatch struct {
	idle
	l    *Log
	last Ends
	bad  atomic.Pointer[Ends]
	mu   sync.Mutex
}

// Advanced implements Observer.
func (w *endsWatch) Advanced() {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Ends hides an end that is too high: the ends themselves only grow in this test.
	durable, written := w.l.durable.Load(), w.l.written.Load()
	if end := w.l.logEnd.Load(); durable > end || written > end {
		w.bad.Store(&Ends{Durable: durable, Written: written, LogEnd: end})
	}
	e := w.l.Ends()
	if e.LogStart > e.Durable || e.Durable > e.Written || e.Written > e.LogEnd || e.Durable < w.last.Durable {
		w.bad.Store(&e)
	}
	w.last = e
}

func TestI4EndsAreOrdered(t *testing.T) {
	d := mustOpen(t, crashfs.New(1), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	w := &endsWatch{l: l}
	l.Observe(w)
	for i := range 200 {
		put(t, l, 1, 400)
		switch i % 40 {
		case 10, 30:
			l.Configure(testConfig([]string{"interval", "sync"}[i/20%2]))
		case 20:
			must(t, l.flushAndSync())
		}
	}
	if e := w.bad.Load(); e != nil {
		t.Errorf("the ends are out of order: %+v", *e)
	}
}

// A failed fdatasync drops the pages, and the next one succeeds. Nothing more is written to the
// file, and it is synced only after it was cut to what was synced before; a new one gets its
// records.
func TestI5FailedSegmentIsNotTriedAgain(t *testing.T) {
	for _, drop := range []errfs.Drop{errfs.DropCached, errfs.DropEvicted} {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		d := mustOpen(t, errs, "sync")
		l := makeLogs(t, d, 1, "sync")[0]
		put(t, l, 3, 1000)
		must(t, l.flushAndSync())
		put(t, l, 4, 1000)
		failed := errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: firstSegment, Count: 1, Err: syscall.EIO, Drop: drop})
		again := errs.Add(errfs.Rule{Ops: errfs.Write, Path: firstSegment})
		var cut atomic.Bool
		errs.Add(errfs.Rule{Ops: errfs.Truncate, Path: firstSegment, Before: func(errfs.Call) { cut.Store(true) }})
		uncut := errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: firstSegment, When: func(errfs.Call) bool { return !cut.Load() }})
		if err := l.flushAndSync(); err == nil || failed.Hits() != 1 {
			t.Fatalf("flush: %v, %d failures", err, failed.Hits())
		}
		writes := again.Hits()
		eventually(t, "the log takes records again", func() bool { return l.Err() == nil })
		put(t, l, 2, 100)
		must(t, l.flushAndSync())
		if again.Hits() != writes {
			t.Error("the dead file was written to")
		}
		if n := uncut.Hits(); n > 0 || !cut.Load() {
			t.Errorf("it was synced %d times before it was cut", n)
		}
		holds(t, l, 9)
		must(t, d.checkpoint(nil))
		next := mustOpen(t, disk.PowerLossImage(crashfs.DropUnsynced, 1), "sync")
		holds(t, next.Logs()[0], 9)
	}
}

// A log that went offline because its directory could not be synced syncs it before it is used
// again.
func TestI7ALogThatComesBackSyncsItsDirectory(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 3, 1000)
	must(t, l.flushAndSync())
	dir := errfs.Rule{Ops: errfs.SyncDir, Path: l.path}
	synced := errs.Add(dir)
	dir.Count, dir.Err = 1, syscall.EIO
	errs.Add(dir)
	_ = l.Truncate(1)
	eventually(t, "the log is used again", func() bool { return l.Err() == nil && l.Offline() == nil })
	if synced.Hits() < 2 {
		t.Errorf("its directory was synced %d times, of which one failed", synced.Hits())
	}
}

// Records that recovery keeps are durable before they are served: a power loss right after the
// start loses none of them.
func TestI6RecoverySyncsWhatItKeeps(t *testing.T) {
	for _, profile := range []string{"sync", "os"} {
		disk := crashfs.New(1)
		d := mustOpen(t, disk, profile)
		l := makeLogs(t, d, 1, profile)[0]
		put(t, l, 30, 500)
		next := disk.KillImage(1)
		d = mustOpen(t, next, profile)
		end := d.Logs()[0].Ends()
		if end.LogEnd != 30 || end.Durable != 30 {
			t.Errorf("%s: after a kill: %+v", profile, end)
		}
		d = mustOpen(t, next.PowerLossImage(crashfs.DropUnsynced, 2), profile)
		holds(t, d.Logs()[0], 30)
	}
}

// A file's name is durable before any record in it is acknowledged: the power is lost right after a
// roll was acknowledged.
func TestI7NamesAreDurableFirst(t *testing.T) {
	for _, profile := range []string{"sync", "interval"} {
		disk := crashfs.New(1)
		cfg := testConfig(profile)
		cfg.Segment.Bytes = 2000
		d := mustOpen(t, disk, profile, func(o *Options) { o.Config = func(string, ID) Config { return cfg } })
		l := makeLogs(t, d, 1, profile)[0]
		l.Configure(cfg)
		for range 20 {
			put(t, l, 1, 900)
			_ = l.flush()
			promised := l.Ends().Durable
			for _, m := range crashfs.Modes() {
				again := mustOpen(t, disk.PowerLossImage(m, 1), profile)
				if e := again.Logs()[0].Ends(); e.LogEnd < promised || again.Logs()[0].Offline() != nil {
					t.Fatalf("%s, %s: %d was promised, now %+v", profile, m, promised, e)
				}
				_ = again.Close()
			}
		}
	}
}

// The last five batches of a producer are known after a crash, even those that are in no segment
// yet. A retry gets the same offsets.
func TestI11DuplicatesAreKnownAfterACrash(t *testing.T) {
	for flushed := range 8 {
		disk := crashfs.New(1)
		d := mustOpen(t, disk, "sync")
		l := makeLogs(t, d, 1, "sync")[0]
		var sent [][]byte
		for i := range 8 {
			if i == flushed {
				must(t, l.flushAndSync())
				must(t, d.checkpoint(nil))
			}
			data := testBatch(t, 100, &record.Producer{ID: 7, Sequence: int32(i)})
			sent = append(sent, data)
			if a := send(l, slices.Clone(data)); a.Err != nil {
				t.Fatal(a.Err)
			}
			eventually(t, "the record counts", func() bool { return l.AckEnd() == int64(i+1) })
		}
		again := mustOpen(t, disk.PowerLossImage(crashfs.KeepSectors, uint64(flushed)), "sync").Logs()[0]
		for i := 3; i < 8; i++ {
			a := send(again, sent[i])
			if a.Err != nil || !a.Duplicate || a.Base != int64(i) || a.Next != int64(i+1) {
				t.Errorf("flushed %d: retry of batch %d: %+v", flushed, i, a)
			}
		}
		if a := send(again, testBatch(t, 10, &record.Producer{ID: 7, Sequence: 8})); a.Err != nil || a.Base != 8 {
			t.Errorf("flushed %d: the next batch: %+v", flushed, a)
		}
	}
}

// The producer state in a checkpoint follows the segments. Batches in flight push older ones out of
// the live state, and may never be written.
func TestI11StoredStateFollowsTheSegments(t *testing.T) {
	if !knowsStoredProducers(t, broken{}) {
		t.Error("the last five batches that came to a segment are not known after a start")
	}
}

// knowsStoredProducers reports whether a start after a power loss knows a producer's batches in
// segments, while later ones were in flight.
func knowsStoredProducers(t *testing.T, b broken) bool {
	t.Helper()
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync", func(o *Options) { o.broken = b })
	l := makeLogs(t, d, 1, "sync")[0]
	var sent [][]byte
	next := func() {
		data := testBatch(t, 10, &record.Producer{ID: 7, Sequence: int32(len(sent))})
		sent = append(sent, data)
		send(l, slices.Clone(data))
	}
	for range 5 {
		next()
	}
	eventually(t, "the records count", func() bool { return l.AckEnd() == 5 })
	must(t, l.flushAndSync())
	hold, let := gated(t)
	held := errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Before: func(errfs.Call) { <-hold }}))
	for range 5 {
		next()
	}
	eventually(t, "the datasync began", func() bool { return held.Hits() > 0 })
	must(t, d.checkpoint(nil))
	image := disk.PowerLossImage(crashfs.DropUnsynced, 1)
	let()
	again := mustOpen(t, image, "sync").Logs()[0]
	known := true
	for i, data := range sent[:5] {
		a := send(again, data)
		known = known && a.Duplicate && a.Base == int64(i)
	}
	return known
}

// A producer's batch that never became durable is unknown after a crash: its retry is appended.
func TestI11SnapshotIsNeverAheadOfTheLog(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	first, second := testBatch(t, 10, &record.Producer{ID: 7}), testBatch(t, 10, &record.Producer{ID: 7, Sequence: 1})
	send(l, slices.Clone(first))
	eventually(t, "the record counts", func() bool { return l.AckEnd() == 1 })
	hold, let := gated(t)
	held := errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Before: func(errfs.Call) { <-hold }}))
	send(l, slices.Clone(second))
	eventually(t, "the datasync began", func() bool { return held.Hits() > 0 })
	must(t, d.checkpoint(nil))
	image := disk.PowerLossImage(crashfs.DropUnsynced, 1)
	let()
	again := mustOpen(t, image, "sync").Logs()[0]
	if a := send(again, first); !a.Duplicate || a.Base != 0 {
		t.Errorf("retry of what was durable: %+v", a)
	}
	if a := send(again, second); a.Duplicate || a.Err != nil || a.Base != 1 {
		t.Errorf("retry of what was lost: %+v", a)
	}
}

// While a segment write hangs, an append becomes durable, memory is read, and a checkpoint is
// written.
func TestI14AFlushHoldsNoLock(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 1, 100)
	hold, release := gated(t)
	writing := make(chan struct{})
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/*-*/*.log", Count: 1, Before: func(errfs.Call) { close(writing); <-hold }})
	flushed, done := make(chan error, 1), make(chan error, 1)
	go func() { flushed <- l.flush() }()
	<-writing
	batch := testBatch(t, 100, nil)
	go func() {
		a := send(l, batch)
		for a.Err == nil && l.AckEnd() < a.Next {
			runtime.Gosched()
		}
		s, _, err := l.ReadMemory(0, 2, 1000, true)
		s.Release()
		done <- errors.Join(a.Err, err, d.checkpoint(nil))
	}()
	var err error
	eventually(t, "requests complete during the write", func() bool {
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	})
	release()
	if err = errors.Join(err, <-flushed); err != nil {
		t.Error(err)
	}
}

// The process is killed repeatedly under load. No acknowledged record is lost and every start
// succeeds without help.
func TestFault02KillAgainAndAgain(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	makeLogs(t, d, 4, "sync")
	acked := map[int32]int64{}
	for round := range 40 {
		for _, l := range d.Logs() {
			if e := l.Ends(); e.LogEnd < acked[l.id.Partition] || l.Offline() != nil {
				t.Fatalf("round %d: %s: acknowledged %d, now %+v", round, l, acked[l.id.Partition], e)
			}
			holds(t, l, l.Ends().LogEnd)
			for range 5 {
				l.Append(&Append{Batches: testBatch(t, 2000, nil), Sink: make(sink, 1)}, nil)
			}
		}
		l := d.Logs()[round%4]
		put(t, l, 1, 100)
		for _, l := range d.Logs() {
			acked[l.id.Partition] = l.AckEnd()
		}
		next := disk.KillImage(uint64(round))
		_ = d.Close()
		disk = next
		d = mustOpen(t, disk, "sync")
		if d.Clean() {
			t.Error("a kill was taken for a clean stop")
		}
	}
}
