package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// BenchmarkCompaction compacts 256 MiB on a real disk in batches of 16 KiB. Of each key's four
// records, all are read twice and one is written.
func BenchmarkCompaction(b *testing.B) {
	const size, values, keys = 256 << 20, 1000, 64 << 10
	for b.Loop() {
		b.StopTimer()
		cfg := compacted("os")
		cfg.Segment.Bytes, cfg.Segment.IndexInterval = 64<<20, 4096
		d, err := OpenDir(Location{Path: b.TempDir()}, Options{
			FS: vfs.OS(), JournalFileSize: 64 << 20, JournalBytes: 256 << 20, Cleaning: Cleaning{KeyBytes: 128 << 20},
			Config: func(string, ID) Config { return cfg },
		})
		must(b, err)
		logs, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{1}}, Topic: "t", Config: cfg}})
		must(b, err)
		l := logs[0]
		l.Observe(idle{})
		random, value := rand.New(rand.NewPCG(1, 1)), bytes.Repeat([]byte{'v'}, values)
		for n := 0; n < size; {
			w := record.NewBuilder(record.BatchOptions{})
			for range 16 {
				w.Append(time.Now().UnixMilli(), fmt.Append(nil, random.IntN(keys)), value, nil)
			}
			batch, err := w.Build()
			must(b, err)
			if a := send(l, batch); a.Err != nil {
				b.Fatal(a.Err)
			}
			n += len(batch)
		}
		flushedAndSynced(b, l)
		b.StartTimer()
		if !d.compactNext() {
			b.Fatal("nothing was due")
		}
		b.StopTimer()
		must(b, d.Close())
		b.StartTimer()
	}
	b.SetBytes(size)
}
