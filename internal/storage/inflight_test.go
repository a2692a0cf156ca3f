package storage

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// slowInterval returns a profile that acknowledges written records and does not sync them during a
// test.
func slowInterval() Config {
	c := testConfig("interval")
	c.Profile.Interval = time.Hour
	return c
}

// Records are in flight when a profile begins to require the fdatasync. They get one soon.
func TestRecordsInFlightCountAfterAChangeToSync(t *testing.T) {
	for _, config := range []Config{slowInterval(), testConfig("os")} {
		errs := errfs.New(crashfs.New(1))
		d := mustOpen(t, errs, "sync")
		l := makeLogs(t, d, 1, "sync")[0]
		put(t, l, 1, 10)
		config.Profile.Sync, config.Profile.Interval = durability.SyncInterval, time.Hour
		l.Configure(config)
		hold, let := gated(t)
		held := errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Write, Count: 1, Before: func(errfs.Call) { <-hold }}))
		a := &Append{Batches: testBatch(t, 10, nil), Sink: make(sink, 1)}
		appended := make(chan struct{})
		go func() { defer close(appended); l.Append(a, nil) }()
		eventually(t, "the write began", func() bool { return held.Hits() > 0 })
		l.Configure(testConfig("sync"))
		let()
		<-appended
		eventually(t, "the record counts", func() bool { return l.AckEnd() == 2 })
	}
}

// Records that were only written when the journal failed are durable when their log is repaired,
// even if that happens after the directory has reopened.
func TestALateRepairMovesTheDurableEnd(t *testing.T) {
	errs := errfs.New(crashfs.New(1))
	var reopened atomic.Int32
	d := mustOpen(t, errs, "sync", countReopened(&reopened))
	logs := makeLogs(t, d, 2, "sync")
	put(t, logs[0], 2, 900)
	must(t, logs[0].flush())
	logs[0].Configure(slowInterval())
	if a := send(logs[0], testBatch(t, 900, nil)); a.Err != nil {
		t.Fatal(a.Err)
	}
	eventually(t, "the record counts", func() bool { return logs[0].AckEnd() == 3 })
	errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Datasync | errfs.Create, Path: "/d/t-0/*.log", Err: syscall.EIO})
	errs.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Count: 1, Err: syscall.EIO}))
	_ = send(logs[1], testBatch(t, 10, nil))
	eventually(t, "the directory reopened without the log", func() bool { return reopened.Load() == 1 && logs[0].isQuarantined() })
	errs.Clear()
	eventually(t, "the log takes records again", func() bool { return logs[0].Err() == nil })
	eventually(t, "the durable end follows", func() bool { return logs[0].Ends().Durable == 3 })
	holds(t, logs[0], 3)
}

// The durable end of a log that has nothing in flight covers everything. Truncations and moves of
// the start wait for the durable end on that basis.
func TestNothingInFlightIsDurable(t *testing.T) {
	for _, profile := range []string{"sync", "os"} {
		d := mustOpen(t, vfs.Memory(), profile)
		l := makeLogs(t, d, 1, profile)[0]
		done, watched := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(watched)
			for i, late := 0, false; !late; {
				select {
				case <-done:
					return
				default:
				}
				if i++; i%100 == 0 {
					d.journal.Sync()
				}
				l.mu.RLock()
				if n := len(l.tail.chunks); n > 0 && l.tail.chunks[n-1].ready {
					late = l.durable.Load() < l.tail.chunks[n-1].next
				}
				l.mu.RUnlock()
				if late {
					t.Errorf("%s: nothing is in flight, and the durable end has not moved", profile)
				}
			}
		}()
		data := testBatch(t, 10, nil)
		for range 20000 {
			send(l, data)
		}
		close(done)
		<-watched
	}
}
