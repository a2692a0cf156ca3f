package storage

import (
	"sync/atomic"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// The retry of a batch in flight is recognized, no matter how many producers are new.
func TestAProducerWithABatchInFlightIsNotForgotten(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync", func(o *Options) { o.ProducersPerLog = 10 })
	l := makeLogs(t, d, 1, "sync")[0]
	hold, let := gated(t)
	var on atomic.Bool
	errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "*.journal", When: func(errfs.Call) bool { return on.Load() },
		Before: func(errfs.Call) { <-hold }})
	on.Store(true)
	first := send(l, testBatch(t, 10, &record.Producer{ID: 1, Sequence: 0}))
	for id := range int64(15) {
		send(l, testBatch(t, 10, &record.Producer{ID: 100 + id, Sequence: 0}))
	}
	retry := send(l, testBatch(t, 10, &record.Producer{ID: 1, Sequence: 0}))
	on.Store(false)
	let()
	if !retry.Duplicate || retry.Base != first.Base {
		t.Errorf("the retry of a batch in flight was written again: %+v", retry)
	}
}

// A truncation rebuilds the producers from batches. A producer that wrote recently stays known, no
// matter how old its records are.
func TestATruncationKeepsProducersOfOldRecords(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	batch := func(i int32) []byte { return testBatch(t, 10, &record.Producer{ID: 7, Sequence: i}) } // of 1970
	for i := range int32(5) {
		if a := send(l, batch(i)); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	must(t, l.Truncate(4))
	for _, l := range []*Log{l, byPartition(t, mustOpen(t, disk.KillImage(1), "sync"), 0)} {
		if a := send(l, batch(3)); !a.Duplicate || a.Base != 3 {
			t.Errorf("a retry of the batch at 3 was written at %d: %v", a.Base, a.Err)
		}
	}
}
