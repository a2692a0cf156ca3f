package tierread

import (
	"testing"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// BenchmarkSequential reads objects of a directory in order, 1 MiB at a time, with a cache that has
// a few chunks. One operation is one MiB.
func BenchmarkSequential(b *testing.B) {
	w := newWorld(b)
	dir, err := dirstore.Open(vfs.OS(), b.TempDir())
	must.OK(b, err)
	w.s = faultstore.New(dir)
	const objectCount, batches, size = 4, 1000, 16 << 10
	for range objectCount {
		for range batches {
			w.plain(size/16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
		}
		w.object(nil, nil)
	}
	w.manifest(true)
	o := w.options(dir, 32<<20)
	o.Open = func() (objects.Store, error) { return dir, nil }
	r := w.reader(b, o)
	b.SetBytes(format.ChunkSize)
	b.ReportAllocs()
	offset, credit := int64(0), 0
	for b.Loop() {
		for credit += format.ChunkSize; credit > 0; {
			if offset >= w.c.End {
				offset = 0
			}
			s, err := r.Read(b.Context(), &w.c, offset, w.c.End, format.ChunkSize, true)
			must.OK(b, err)
			credit -= s.Size
			offset = s.Next()
			s.Release()
		}
	}
	s := r.Stats()
	b.ReportMetric(float64(s.Hits)/float64(s.Hits+s.Misses), "hits/get")
}
