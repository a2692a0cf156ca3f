package upload

import (
	"testing"

	"pgregory.net/rapid"
)

func TestClasses(t *testing.T) {
	for n, want := range map[int64]int{
		0: 0, 1: 0, 16<<10 - 1: 0, 16 << 10: 1, 256<<10 - 1: 1, 256 << 10: 2, 4 << 20: 3, 64 << 20: 4, 1 << 40: 7,
	} {
		if got := class(n); got != want {
			t.Errorf("%d bytes are in class %d, want %d", n, got, want)
		}
	}
}

// grow adds records to a log's pieces as often as snapshots are taken, and returns how many bytes
// were uploaded, with those of log objects, and the largest number of pieces.
func grow(snapshots int, next func() int64) (added, uploaded int64, most int) {
	var pieces []int64
	for range snapshots {
		n := next()
		added += n
		if total := sum(pieces) + n; total >= 64<<20 {
			uploaded += total
			pieces = nil
			continue
		}
		stay := merge(pieces, n)
		n += sum(pieces[stay:])
		uploaded += n
		pieces = append(pieces[:stay:stay], n)
		most = max(most, len(pieces))
	}
	return added, uploaded, most
}

// A byte is uploaded five times at most. With 64 MiB in each interval it is uploaded once.
func TestBytesAreUploadedAFewTimes(t *testing.T) {
	for _, c := range []struct {
		each int64
		most float64
	}{{1 << 10, 5}, {16 << 10, 4}, {100 << 10, 4}, {1 << 20, 3}, {5 << 20, 2}, {64 << 20, 1}} {
		added, uploaded, pieces := grow(1<<17, func() int64 { return c.each })
		if times := float64(uploaded) / float64(added); times > c.most || pieces > 64 {
			t.Errorf("%d bytes in each interval are uploaded %.2f times, in up to %d pieces", c.each, times, pieces)
		}
	}
}

// Whatever the sizes, pieces are few, and what is uploaded is bounded by what was added.
func TestPiecesStayFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 400).Draw(t, "snapshots")
		added, uploaded, most := grow(n, func() int64 {
			return rapid.Int64Range(1<<10, 1<<rapid.IntRange(10, 25).Draw(t, "size")).Draw(t, "bytes")
		})
		if uploaded > 5*added || most > 64 {
			t.Fatalf("%d bytes of %d added were uploaded, in up to %d pieces", uploaded, added, most)
		}
	})
}
