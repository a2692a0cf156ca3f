package storage

import (
	"sync/atomic"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs/crashfs"
	"github.com/chronik-io/chronik/internal/vfs/errfs"
)

// The retry of a batch that is in flight is recognised, however many producers are new.
func TestAProducerWithABatchInFlightIsNotForgotten(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync", func(o *Options) { o.ProducersPerLog = 10 })
	l := makeLogs(t, d, 1, "sync")[0]
	hold := make(chan struct{})
	var on atomic.Bool
	errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: "*.journal", When: func(errfs.Call) bool { return on.Load() }, Before: func(errfs.Call) { <-hold }})
	on.Store(true)
	first := send(l, testBatch(t, 10, &record.Producer{ID: 1, Sequence: 0}))
	for id := range int64(15) {
		send(l, testBatch(t, 10, &record.Producer{ID: 100 + id, Sequence: 0}))
	}
	retry := send(l, testBatch(t, 10, &record.Producer{ID: 1, Sequence: 0}))
	on.Store(false)
	close(hold)
	if !retry.Duplicate || retry.Base != first.Base {
		t.Errorf("the retry of a batch in flight was written again: %+v", retry)
	}
}
