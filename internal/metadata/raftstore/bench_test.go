package raftstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/vfs"
)

// BenchmarkTxn measures transactions of the leader of three members that share a disk and a
// process: one at a time, and 256 at a time.
func BenchmarkTxn(b *testing.B) {
	for _, clients := range []int{1, 256} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			c, dir := newCluster(), b.TempDir()
			defer c.close(b)
			var stores []*Store
			initial := Initial{Generation: [16]byte{7}}
			for i := range 3 {
				s := c.add(b, vfs.OS(), func(o *Options) { o.Dir = filepath.Join(dir, fmt.Sprint(i)) })
				stores, initial.Voters = append(stores, s), append(initial.Voters, s.Member())
			}
			for _, s := range stores {
				if err := s.Bootstrap(initial); err != nil && !errors.Is(err, ErrNotEmpty) {
					b.Fatal(err)
				}
			}
			var leader *Store
			for leader == nil {
				for _, s := range stores {
					if role, moved := s.Leadership(); role.Ready {
						leader = s
					} else {
						select {
						case <-moved:
						case <-time.After(defaultTick):
						}
					}
				}
			}
			work := make(chan int)
			var wg sync.WaitGroup
			value := make([]byte, 100)
			for range clients {
				wg.Go(func() {
					for i := range work {
						txn := metadata.Txn{Put: []metadata.KV{{Key: fmt.Sprintf("/partitions/%06d", i%10000), Value: value}}}
						if _, err := leader.Txn(context.Background(), txn); err != nil {
							b.Error(err)
						}
					}
				})
			}
			b.ResetTimer()
			for i := range b.N {
				work <- i
			}
			close(work)
			wg.Wait()
		})
	}
}

// BenchmarkState measures the memory of the keys of 10,000 partitions with three replicas.
func BenchmarkState(b *testing.B) {
	var before, after runtime.MemStats
	for range b.N {
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := kv.NewState()
		for i := range 10000 {
			key := fmt.Sprintf("/partitions/0123456789abcdef0123456789abcdef/%d", i)
			s.Load(metadata.KV{Key: key, Value: make([]byte, 90), ModRevision: 1})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
		runtime.KeepAlive(s)
	}
}
