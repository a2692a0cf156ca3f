package storage

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// bases returns the base offsets of the batches in a slice, and releases it.
func bases(s Slice) (list []int64) {
	for _, p := range s.Parts {
		eachBatch(p, func(b record.Batch) { list = append(list, b.BaseOffset()) })
	}
	s.Release()
	return list
}

// uneven creates a log of a large batch, then small ones, then again a large one and small ones, in
// three segments and the tail: 0 | 1 2 | 3 4 | 5 6.
func uneven(t *testing.T, d *Dir) *Log {
	l := makeLogs(t, d, 1, "sync")[0]
	for i, size := range []int{5000, 10, 5000, 10, 5000, 10, 10} {
		if i == 1 || i == 3 {
			must(t, l.roll())
		}
		if i == 5 {
			must(t, l.flush())
			d.memory.evictCached([]*Log{l})
		}
		put(t, l, 1, size)
	}
	return l
}

// A read with too small a budget for the next batch is empty: it returns nothing from the next
// segment, and nothing from the tail.
func TestAReadNeverPassesABatchThatDoesNotFit(t *testing.T) {
	l := uneven(t, mustOpen(t, vfs.Memory(), "sync"))
	for _, c := range []struct {
		at, limit int64
		max       int
		want      []int64
	}{
		{0, math.MaxInt64, 1000, nil},
		{1, math.MaxInt64, 1000, []int64{1}},
		{2, math.MaxInt64, 1000, nil},
		{3, math.MaxInt64, 1000, []int64{3}},
		{4, math.MaxInt64, 1000, nil},
		{5, math.MaxInt64, 1000, []int64{5, 6}},
		{5, 6, 1000, []int64{5}},
		{5, math.MaxInt64, 50, nil},
		{4, math.MaxInt64, 6000, []int64{4}},
	} {
		for range 2 { // the second time with the position that the first one remembered
			s, err := l.Read(c.at, c.limit, c.max, false)
			if got := bases(s); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("read at %d below %d with room for %d: %v, %v; want %v", c.at, c.limit, c.max, got, err, c.want)
			}
		}
		if s, held, err := l.ReadMemory(c.at, c.limit, c.max, false); held && (err != nil || !slices.Equal(bases(s), c.want)) {
			t.Errorf("read at %d from memory: %v", c.at, err)
		}
	}
}

// However small the budget is, a reader that continues where the last answer ended gets every batch
// once and in order.
func TestAReaderWithASmallBudgetGetsEveryBatch(t *testing.T) {
	l := uneven(t, mustOpen(t, vfs.Memory(), "sync"))
	for max := 0; max < 6000; max += 37 {
		var got []int64
		for at, first := int64(0), false; at < 7; first = !first { // every other time like the first partition of a fetch
			s, err := l.Read(at, 7, max, first)
			must(t, err)
			if list := bases(s); len(list) > 0 {
				got, at = append(got, list...), list[len(list)-1]+1
			}
		}
		if fmt.Sprint(got) != "[0 1 2 3 4 5 6]" {
			t.Fatalf("with room for %d: %v", max, got)
		}
	}
}

// A read with an empty budget does not read the disk, and still reports an offset that is out of
// range.
func TestAReadWithoutBudgetNeverReadsTheDisk(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	l := uneven(t, mustOpen(t, disk, "sync"))
	calls := disk.Add(errfs.Rule{Ops: errfs.Read | errfs.Open, Path: "/d/*-*/*"})
	for at := int64(-1); at <= 8; at++ {
		s, err := l.Read(at, math.MaxInt64, 0, false)
		if got := bases(s); len(got) > 0 || (err != nil) != (at < 0 || at > 7) {
			t.Errorf("at %d: %v, %v", at, got, err)
		}
		if _, held, e := l.ReadMemory(at, math.MaxInt64, 0, false); !held || (e == nil) != (err == nil) {
			t.Errorf("at %d from memory: %v, %v", at, held, e)
		}
	}
	if n := calls.Hits(); n > 0 {
		t.Errorf("%d calls of the disk", n)
	}
}

// If the last batches of segments are gone, as after compaction, a read continues with the next
// one, if the budget allows it.
func TestAReadPassesMissingOffsets(t *testing.T) {
	d := mustOpen(t, vfs.Memory(), "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	for range 3 {
		put(t, l, 10, 10)
		must(t, l.roll())
	}
	put(t, l, 2, 10)
	d.memory.evictCached([]*Log{l})
	for i, s := range l.segments[:3] {
		end := int64(10*i + 2)
		if err := s.Truncate(s.Size()/10*2, end); err != nil { // its ten batches have one size
			t.Fatal(err)
		}
	}
	for from := range int64(32) {
		want := from
		if from%10 > 1 {
			want = (from + 8) / 10 * 10
		}
		if s, err := l.Read(from, math.MaxInt64, 10, true); err != nil || !slices.Equal(bases(s), []int64{want}) {
			t.Errorf("at %d: %v; want %d", from, err, want)
		}
		if s, err := l.Read(from, math.MaxInt64, 10, false); err != nil || s.Size > 0 {
			t.Errorf("at %d without room: %d bytes, %v", from, s.Size, err)
		}
		if s, err := l.Read(from, want, 10, true); err != nil || s.Size > 0 {
			t.Errorf("at %d below %d: %d bytes, %v", from, want, s.Size, err)
		}
	}
}

// The index memory that readers of old segments use is bounded.
func TestIndexesOfOldSegmentsAreBounded(t *testing.T) {
	const bound = 2000
	d := mustOpen(t, vfs.Memory(), "sync", func(o *Options) { o.IndexBytes = bound })
	l := makeLogs(t, d, 1, "sync")[0]
	cfg := l.Config()
	cfg.Segment.IndexInterval = 1
	l.Configure(cfg)
	for range 20 {
		for range 20 {
			put(t, l, 1, 10)
			must(t, l.flush())
		}
		must(t, l.roll())
	}
	if n := d.files.IndexBytes(); n != 0 {
		t.Errorf("%d bytes of indexes before anything was read", n)
	}
	d.memory.evictCached([]*Log{l})
	most := int64(0)
	for i := range int64(400) {
		at := i * 7 % 400
		if s, err := l.Read(at, math.MaxInt64, 1, true); err != nil || !slices.Equal(bases(s), []int64{at}) {
			t.Errorf("read at %d: %v", at, err)
		}
		most = max(most, d.files.IndexBytes())
	}
	if most > bound || most < bound/2 {
		t.Errorf("up to %d bytes of indexes in memory, the bound is %d", most, bound)
	}
}
