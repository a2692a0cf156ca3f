package storage

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/vfs"
)

// counted counts appends that have their offsets.
type counted struct{ sync.WaitGroup }

func (c *counted) OffsetsAssigned(*Append) { c.Done() }

// BenchmarkAppend measures 128 requests of one small record each that a poller handles in a row, up
// to the fdatasync, on a file system in memory.
func BenchmarkAppend(b *testing.B) {
	for _, logs := range []int{1, 16} {
		b.Run(fmt.Sprintf("logs=%d", logs), func(b *testing.B) {
			d := mustOpen(b, vfs.Memory(), "sync", func(o *Options) { o.JournalFileSize, o.JournalBytes = 64<<20, 1<<30 })
			all := makeLogs(b, d, logs, "sync")
			data := testBatch(b, 350, nil)
			appends := make([]Append, 128)
			var done counted
			var batch groupcommit.Batch
			b.ReportAllocs()
			for b.Loop() {
				done.Add(len(appends))
				for i := range appends {
					appends[i] = Append{Batches: slices.Clone(data), Sink: &done}
					all[i%logs].Append(&appends[i], &batch)
				}
				batch.Run()
				done.Wait()
			}
		})
	}
}
