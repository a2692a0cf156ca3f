package storage

import (
	"fmt"
	"sync"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// tiny are limits with which each chunk needs a segment of its own.
func tiny(name string) segment.Limits {
	s := testConfig("sync").Segment
	if name == "time" {
		s.Ms = 1
	} else {
		s.Bytes = 14
	}
	return s
}

// debtors are logs with tiny segments, and one with an ordinary one, in a directory where the disk
// of the tiny ones can hang.
type debtors struct {
	t     *testing.T
	d     *Dir
	logs  []*Log // the last one is ordinary
	ts    int64
	hangs chan struct{} // closed: it does not hang
	mu    sync.Mutex
}

// syncs waits as long as the disk of the tiny logs hangs.
func (x *debtors) syncs(c errfs.Call) {
	x.mu.Lock()
	hangs := x.hangs
	x.mu.Unlock()
	<-hangs
}

func (x *debtors) hang() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hangs = make(chan struct{})
}

func newDebtors(t *testing.T, n int, profile, limit string, b broken) *debtors {
	t.Helper()
	errs := errfs.New(vfs.Memory())
	x := &debtors{t: t, ts: 1_000_000, hangs: make(chan struct{})}
	close(x.hangs)
	x.d = mustOpen(t, errs, profile, func(o *Options) {
		o.JournalFileSize, o.JournalBytes, o.broken = 256<<10, 64<<20, b
	})
	x.logs = makeLogs(t, x.d, n+1, profile)
	for i := range n {
		cfg := testConfig(profile)
		cfg.Segment = tiny(limit)
		x.logs[i].Configure(cfg)
		errs.Add(errfs.Rule{Ops: errfs.SyncDir, Path: x.logs[i].path, Before: x.syncs})
		for range 3 { // then it is known what a chunk costs
			x.send(i)
			synced(t, x.logs[i])
			must(t, x.logs[i].flush())
		}
		if got := x.logs[i].Segments(); got != 3 {
			t.Fatalf("three chunks are in %d segments", got)
		}
	}
	return x
}

// send appends a batch with a timestamp of its own and does not wait.
func (x *debtors) send(i int) *Append {
	x.ts += 2 * joinMs // chunks are not joined
	b := record.NewBuilder(record.BatchOptions{})
	b.Append(x.ts, nil, []byte("v"), nil)
	data, err := b.Build()
	if err != nil {
		x.t.Fatal(err)
	}
	a := &Append{Batches: data, LeaderEpoch: epochOf(x.logs[i]), Sink: make(sink, 1)}
	x.logs[i].Append(a, nil)
	return a
}

// accepted returns how many appends to tiny logs have offsets. Each has a chunk of its own while
// nothing waits.
func (x *debtors) accepted() (n int64) {
	for _, l := range x.logs[:len(x.logs)-1] {
		n += l.logEnd.Load() - 3
	}
	return n
}

// passes checks that the ordinary log acknowledges records.
func (x *debtors) passes(n int) { put(x.t, x.logs[len(x.logs)-1], n, 100) }

// tinySegments fills logs that need a segment for each chunk while none can be created. It returns
// how many chunks they have put into the journal, and what was wrong.
func tinySegments(t *testing.T, n int, profile, limit string, b broken) (chunks int64, wrong string) {
	x := newDebtors(t, n, profile, limit, b)
	x.hang()
	open := sync.OnceFunc(func() { close(x.hangs) })
	defer open()
	var all []*Append
	each := 600 / n
	for range each {
		for i := range n {
			all = append(all, x.send(i))
		}
	}
	x.passes(200)
	chunks = x.accepted()
	x.passes(200)
	if now := x.accepted(); now != chunks {
		wrong = fmt.Sprintf("%d chunks were accepted, later %d", chunks, now)
	}
	open()
	for _, a := range all {
		if <-a.Sink.(sink); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	for _, l := range x.logs[:n] {
		synced(t, l)
		must(t, l.flushAndSync())
		holds(t, l, int64(3+each))
	}
	eventually(t, "nothing is owed", func() bool { return x.d.debts.owed.Load() == 0 })
	return chunks, wrong
}

// A log that needs a segment for each chunk waits until its segments exist, whatever makes them
// tiny and whatever its profile is. An ordinary log of the same directory does not wait, and what
// the sweep has to write is bounded.
func TestALogWithTinySegmentsWaitsForItself(t *testing.T) {
	for _, limit := range []string{"time", "size"} {
		for _, profile := range []string{"sync", "os", "interval"} {
			chunks, wrong := tinySegments(t, 1, profile, limit, broken{})
			if wrong != "" || chunks > debtMax+1 || chunks < debtMax/2 {
				t.Errorf("%s, %s: %d chunks wait in the journal: %s", limit, profile, chunks, wrong)
			}
		}
	}
}

// Many such logs owe hardly more together than one: the bound is the directory's, and each log may
// owe one more.
func TestManyLogsWithTinySegmentsShareABound(t *testing.T) {
	const n = 40
	chunks, wrong := tinySegments(t, n, "sync", "time", broken{})
	if wrong != "" || chunks > debtMax+n || chunks < n {
		t.Errorf("%d chunks wait in the journal: %s", chunks, wrong)
	}
}

// An ordinary log never waits, however many chunks it has not flushed.
func TestAnOrdinaryLogOwesNothing(t *testing.T) {
	x := newDebtors(t, 1, "sync", "time", broken{})
	l := x.logs[1]
	for range 3 {
		put(t, l, 100, 1000)
		must(t, l.roll())
		for range 40 {
			put(t, l, 1, 1000)
			if owed := l.debt.owed.Load(); owed > 1 {
				t.Fatalf("it owes %d segments", owed)
			}
		}
	}
}

// After a flush, an append of the log counts its debt first. A log whose queue waited for that
// continues, although its own chunk is not durable and its flush has nothing to write.
func TestAnAppendThatCountsAFlushResumesOthers(t *testing.T) {
	errs := errfs.New(vfs.Memory())
	d := mustOpen(t, errs, "sync")
	logs := makeLogs(t, d, 2, "sync")
	debtor, other := logs[0], logs[1]
	put(t, other, 1, 100)
	must(t, other.flushAndSync())
	debtor.mu.Lock()
	d.debts.owed.Add(debtMax - debtor.debt.owed.Swap(debtMax)) // as before the end of a flush
	debtor.mu.Unlock()
	other.mu.Lock()
	other.debt.before = 1
	other.mu.Unlock()
	gate := make(chan struct{})
	held := errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync, Path: "*.journal", Before: func(errfs.Call) { <-gate }})
	defer close(gate)
	first := &Append{Batches: small, LeaderEpoch: epochOf(other), Sink: make(sink, 1)}
	go other.Append(first, nil)
	eventually(t, "its chunk is being written", func() bool { return held.Hits() > 0 && other.debt.owed.Load() > 0 })
	second := &Append{Batches: small, LeaderEpoch: epochOf(other), Sink: make(sink, 1)}
	go other.Append(second, nil)
	eventually(t, "the log waits", func() bool {
		d.debts.mu.Lock()
		defer d.debts.mu.Unlock()
		_, waits := d.debts.waiting[other]
		return waits
	})
	go func() { // an append that was admitted before
		debtor.acquireCommit()
		debtor.commitGroup([]*Append{{Batches: small, LeaderEpoch: epochOf(debtor), Sink: make(sink, 1)}}, len(small), nil)
		debtor.releaseCommit()
	}()
	eventually(t, "the debt is counted", func() bool { return debtor.debt.owed.Load() == 0 })
	debtor.countDebt() // at the end of the flush
	if !answered(second, patience) || second.Err != nil {
		t.Errorf("the append waits, or failed: %v", second.Err)
	}
}
