package storage

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
)

// A loan has no batch of a segment whose offsets extend beyond the segment: no checksum covers base
// offsets, and its reader would miss the records of the next segment.
func TestNoLoanExtendsBeyondItsSegment(t *testing.T) {
	_, l := lendDir(t, lendConfig(512<<10))
	fill(t, l, rand.New(rand.NewPCG(7, 8)), 40, 100_000, 'a')
	all, err := contentsOf(l)
	must(t, err)
	end, pos := l.segments[1].Base(), int64(0)
	var last record.Batch
	for _, b := range all {
		if b.BaseOffset() < end {
			last, pos = b, pos+int64(len(b))
		}
	}
	f, err := os.OpenFile(l.segments[0].Path(), os.O_RDWR, 0)
	must(t, err)
	defer func() { _ = f.Close() }()
	if _, err := f.WriteAt(binary.BigEndian.AppendUint64(nil, uint64(end+1)), pos-int64(len(last))); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for _, offset := range []int64{0, last.BaseOffset()} {
			s, err := l.Lend(offset, math.MaxInt64, 1<<20, true)
			if err == nil && s.Size > 0 && s.Next() > end {
				t.Errorf("a read at %d has batches up to %d of a segment that ends at %d (loan: %t)", offset, s.Next(), end, s.Loan != nil)
			}
			s.Release()
		}
	}
}
