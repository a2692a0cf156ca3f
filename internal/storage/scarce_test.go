package storage

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// fillMemory appends to a log until its records fill the directory's memory, and waits until all of
// them are durable in the journal.
func fillMemory(t *testing.T, l *Log) {
	t.Helper()
	for m := &l.dir.memory; m.deferred.Load() < m.bound; {
		if a := send(l, testBatch(t, 4000, nil)); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	eventually(t, "all is durable", func() bool { return l.durable.Load() == l.logEnd.Load() })
}

// fewMemory gives a directory little memory and a large journal.
func fewMemory(b broken) func(*Options) {
	return func(o *Options) {
		o.DeferredBytes, o.JournalFileSize, o.JournalBytes, o.broken = 64<<10, 1<<20, 4<<20, b
	}
}

// waiting appends to a log, and returns the append.
func waiting(t *testing.T, l *Log) *Append {
	t.Helper()
	a := &Append{Batches: testBatch(t, 100, nil), LeaderEpoch: epochOf(l), Sink: make(sink, 1)}
	l.Append(a, nil)
	return a
}

// answered reports whether an append was answered within a time.
func answered(a *Append, within time.Duration) bool {
	select {
	case <-a.Sink.(sink):
		return true
	case <-time.After(within):
		return false
	}
}

// A write to a segment fails while the log's records fill the memory. When the log is repaired, the
// appends of other logs get that memory, although nothing else is appended.
func TestARepairedLogGivesItsMemoryBack(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync", fewMemory(broken{}))
	logs := makeLogs(t, d, 2, "sync")
	bad, good := logs[0], logs[1]
	put(t, bad, 1, 100)
	must(t, bad.flushAndSync())
	gate, let := gated(t)
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/t-0/*", Err: syscall.EIO, Count: 1, Before: func(errfs.Call) { <-gate }})
	fillMemory(t, bad)
	a := waiting(t, good)
	let()
	if !answered(a, patience) || a.Err != nil {
		t.Errorf("the append waits, or failed: %v", a.Err)
	}
}

// afterASwap fills the memory with the records of a log whose segments are being swapped. The swap
// gets stuck, so that they cannot be flushed, and a retry ends it. It reports whether another log
// gets memory after that.
func afterASwap(t *testing.T, b broken, within time.Duration) bool {
	s := (&lived{seen: map[string]bool{}}).compacting(t, func(o *Options) { o.DeferredBytes, o.broken = 64<<10, b })
	other, err := s.d.Create([]Spec{{ID: ID{Topic: [16]byte{2}}, Topic: "other", Config: testConfig("sync")}})
	must(t, err)
	lead(other...)
	gate, let := gated(t)
	rename := placeCalls
	rename.Count, rename.Before = 1, func(errfs.Call) { <-gate }
	held := s.errs.Add(rename)
	done := make(chan struct{})
	go func() { s.d.compactNext(); close(done) }()
	eventually(t, "the swap waits", func() bool { return held.Hits() > 0 })
	fillMemory(t, s.l)
	a := waiting(t, other[0])
	let()
	defer func() { <-done }()
	return answered(a, within) && a.Err == nil
}

// The end of a stuck swap lets the log's records be flushed: who waits for their memory gets it.
func TestASwapGivesItsMemoryBack(t *testing.T) {
	if !afterASwap(t, broken{}, patience) {
		t.Error("the append waits")
	}
}

// memoryOfAFailedLog makes the segment of a log fail whose records fill the memory, while they
// cannot be quarantined, and appends to another log. It returns that append and what makes the disk
// work again.
func memoryOfAFailedLog(t *testing.T, b broken) (d *Dir, bad *Log, a *Append, repair func()) {
	errs := errfs.New(crashfs.New(1))
	d = mustOpen(t, errs, "sync", fewMemory(b))
	logs := makeLogs(t, d, 2, "sync")
	bad = logs[0]
	put(t, bad, 1, 100)
	must(t, bad.flushAndSync())
	gate, let := gated(t)
	errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Create | errfs.Datasync, Path: "/d/t-0/*", Err: syscall.ENOSPC,
		Before: func(errfs.Call) { <-gate }})
	errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Create, Path: "*.frames", Err: syscall.ENOSPC})
	fillMemory(t, bad)
	a = waiting(t, logs[1])
	let()
	return d, bad, a, errs.Clear
}

// A failed log that can be neither repaired nor quarantined keeps the memory of its directory. The
// directory refuses records then, and accepts them when a repair succeeds.
func TestMemoryThatNothingFreesBlocksTheDirectory(t *testing.T) {
	d, bad, a, repair := memoryOfAFailedLog(t, broken{})
	if !answered(a, patience) || !errors.Is(a.Err, ErrFailed) || !errors.Is(a.Err, syscall.ENOSPC) {
		t.Errorf("answer: %v", a.Err)
	}
	if err := d.Err(); err == nil || d.life.Load().state != loglife.Blocked {
		t.Errorf("the directory: %v", err)
	}
	repair()
	eventually(t, "the directory accepts records", func() bool { return d.Err() == nil && bad.Err() == nil })
	for _, l := range d.Logs() {
		put(t, l, 20, 4000)
	}
}

// The system refuses the journal its next file while appends wait for it, and for the memory of
// those. They are answered, and the directory accepts records when it has the file.
func TestAJournalWithoutANextFileAnswers(t *testing.T) {
	t.Parallel()
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync", func(o *Options) { o.DeferredBytes = 64 << 10 })
	l := makeLogs(t, d, 1, "sync")[0]
	gate, let := gated(t)
	errs.Add(errfs.Rule{Ops: errfs.Create | errfs.Rename, Path: "*.journal", Err: syscall.EIO, Before: func(errfs.Call) { <-gate }})
	var sent []*Append
	queued := func() int {
		l.queueMu.Lock()
		defer l.queueMu.Unlock()
		return len(l.queue)
	}
	for queued() == 0 {
		a := &Append{Batches: testBatch(t, 4000, nil), LeaderEpoch: epochOf(l), Sink: make(sink, 1)}
		l.Append(a, nil)
		sent = append(sent, a)
	}
	let()
	for _, a := range sent {
		if !answered(a, patience) {
			t.Fatal("an append waits")
		}
	}
	eventually(t, "what has an offset and no place is taken back", func() bool {
		return errors.Is(d.Err(), syscall.EIO) && l.logEnd.Load() == l.durable.Load() && queued() == 0
	})
	errs.Clear()
	eventually(t, "the directory accepts records", func() bool { return d.Err() == nil })
	put(t, l, 20, 4000)
}

// A failed sweep that began before the journal was full does not block the directory: what failed
// it may be gone, and the next sweep finds out.
func TestAnEarlierSweepDoesNotBlockTheDirectory(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 1, 1000)
	hold, let := gated(t)
	errs.Add(errfs.Rule{Ops: errfs.Create | errfs.Write | errfs.Rename, Path: "/d/checkpoint/*", Before: func(errfs.Call) { <-hold }})
	var sent []*Append
	for deadline := time.Now().Add(patience); !d.journal.Full(); {
		if time.Now().After(deadline) {
			t.Fatal("the journal is never full")
		}
		a := &Append{Batches: testBatch(t, 4000, nil), LeaderEpoch: epochOf(l), Sink: make(sink, 1)}
		if l.Append(a, nil); !answered(a, time.Millisecond) {
			sent = append(sent, a)
		}
	}
	cause := errors.New("a segment of another log")
	if d.swept(cause, false); d.Err() != nil {
		t.Errorf("an earlier sweep blocks the directory: %v", d.Err())
	}
	if d.swept(cause, true); !errors.Is(d.Err(), cause) {
		t.Errorf("a sweep of the full journal failed, and the directory has %v", d.Err())
	}
	let()
	for _, a := range sent {
		if !answered(a, patience) {
			t.Fatal("an append waits")
		}
	}
	eventually(t, "the directory accepts records", func() bool { return d.Err() == nil })
	put(t, l, 5, 1000)
}

// A repair that lacks space begins when the guard sees space, whenever its next attempt is due.
// While the disk is full, an attempt reads nothing.
func TestARepairBeginsWhenTheDiskHasSpace(t *testing.T) {
	t.Parallel()
	fsys := newGauge(1000 * mib)
	errs := errfs.New(fsys)
	d := mustOpen(t, errs, "sync", guarded)
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 5, 1000)
	must(t, l.flush())
	read := errs.Add(errfs.Rule{Ops: errfs.Read, Path: "*.journal"})
	errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/d/t-0/*.log", Err: syscall.EIO, Count: 1})
	fsys.free.Store(1000)
	_ = l.flushAndSync()
	wait := func() (m mending) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if x := d.broken[l]; x != nil {
			m = *x
		}
		return m
	}
	eventually(t, "an attempt fails", func() bool { return errors.Is(wait().err, syscall.ENOSPC) })
	if n := read.Hits(); n > 0 {
		t.Errorf("it read the journal %d times", n)
	}
	d.mu.Lock()
	d.broken[l].at = time.Now().Add(time.Hour)
	d.mu.Unlock()
	fsys.free.Store(1000 * mib)
	eventually(t, "the log is repaired", func() bool { return l.Err() == nil })
	holds(t, l, 5)
}

// The repair of a log fails while one of its writes is in flight, so that its frames can't be
// quarantined yet. That is no reason to refuse the records of other logs: they can be quarantined
// when the write has ended.
func TestAWriteInFlightPinsNothing(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 1, 100)
	gate, let := gated(t)
	held := errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Before: func(errfs.Call) { <-gate }}))
	a := waiting(t, l)
	eventually(t, "a write is in flight", func() bool { return held.Hits() > 0 })
	errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Create, Path: "/d/t-0/*", Err: syscall.EIO})
	_ = l.flush()
	var m mending
	eventually(t, "an attempt has ended", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		if x := d.broken[l]; x != nil {
			m = *x
		}
		return !m.at.IsZero()
	})
	if m.err != nil {
		t.Errorf("what the log holds counts as pinned: %v", m.err)
	}
	let()
	eventually(t, "the frames are quarantined", l.isQuarantined)
	errs.Clear()
	eventually(t, "the log is repaired", func() bool { return l.Err() == nil })
	if !answered(a, patience) || a.Err != nil {
		t.Errorf("the append in flight: %v", a.Err)
	}
	holds(t, l, 2)
}

// Sweeps make one attempt for each wait: not each of them reads the journal.
func TestASweepWaitsForTheNextAttempt(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	d := mustOpen(t, errs, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 5, 1000)
	must(t, l.flush())
	errs.Add(errfs.Rule{Ops: errfs.Datasync | errfs.Create, Path: "/d/t-0/*.log", Err: syscall.EIO})
	frames := errs.Add(errfs.Rule{Ops: errfs.Create, Path: "*.frames", Err: syscall.ENOSPC})
	_ = l.flushAndSync()
	eventually(t, "an attempt failed", func() bool {
		m := d.mendings([]*Log{l})[l]
		d.mu.Lock()
		defer d.mu.Unlock()
		if m == nil || m.err == nil {
			return false
		}
		m.at = time.Now().Add(time.Hour)
		return true
	})
	n := frames.Hits()
	for range 10 {
		due, waits := d.dueForRepair([]*Log{l})
		if len(due) > 0 || !errors.Is(waits, syscall.ENOSPC) {
			t.Fatal(fmt.Sprint(due, waits))
		}
		_ = d.sweep()
	}
	if again := frames.Hits(); again != n {
		t.Errorf("%d more attempts", again-n)
	}
	errs.Clear()
	d.spaceAgain()
	eventually(t, "the log is repaired", func() bool { return l.Err() == nil })
}
