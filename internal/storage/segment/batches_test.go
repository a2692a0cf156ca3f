package segment

import (
	"bytes"
	"math"
	"testing"

	"github.com/chronik-io/chronik/internal/membuf"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs/errfs"
)

// scan reads a segment from front to back, max bytes at a time, and returns all
// of it and the number of reads.
func scan(t testing.TB, s *Segment, pool *membuf.Pool, from int64, max int) (all []byte, reads int) {
	t.Helper()
	for offset := from; ; reads++ {
		buf, b, err := s.ReadInto(pool, offset, math.MaxInt64, max, true)
		ok(t, err)
		if len(b) == 0 {
			if buf != nil {
				t.Fatal("a buffer without batches")
			}
			return all, reads
		}
		all = append(all, b...)
		for len(b) > 0 {
			one, rest, err := record.Next(b)
			ok(t, err)
			offset, b = one.LastOffset()+1, rest
		}
		buf.Release()
	}
}

// Readers that go on where they stopped cost one read of the file each time,
// whatever other readers do, and all of them give their buffers back.
func TestAReaderThatGoesOnCostsOneReadOfTheFile(t *testing.T) {
	fsys := errfs.New(memory(t))
	all := history(t, 0, 2000, 5)
	s := written(t, fsys, 0, all)
	var pool membuf.Pool
	want := bytes.Join(asBytes(all), nil)
	for _, max := range []int{1, 300, 5000, 1 << 20} {
		before := fsys.Calls(errfs.Read)
		got, reads := scan(t, s, &pool, 0, max)
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes at a time: %d of %d bytes", max, len(got), len(want))
		}
		// Where not even a batch fits it is read in two steps, its size first.
		if n := fsys.Calls(errfs.Read) - before; n > 2*reads+4 || max > 1 && n > reads+4 {
			t.Errorf("%d bytes at a time: %d reads of the file for %d", max, n, reads)
		}
	}
	offsets := make([]int64, len(s.places.list))
	before, turns := fsys.Calls(errfs.Read), 0
	for ; turns < 50; turns++ {
		for i := range offsets {
			buf, b, err := s.ReadInto(&pool, offsets[i], math.MaxInt64, 300+i, true)
			ok(t, err)
			if one, _, err := record.Next(b); err != nil || one.BaseOffset() != offsets[i] {
				t.Fatalf("reader %d at %d: %v", i, offsets[i], err)
			}
			offsets[i] = end(t, b)
			buf.Release()
		}
	}
	if n, most := fsys.Calls(errfs.Read)-before, len(offsets)*(turns+8); n > most {
		t.Errorf("%d readers side by side: %d reads of the file, want at most %d", len(offsets), n, most)
	}
	if n := pool.Outstanding(); n != 0 {
		t.Errorf("%d buffers were not given back", n)
	}
}

// What is remembered of a file that is cut and written again leads nobody astray.
func TestARememberedPlaceDoesNotOutliveACut(t *testing.T) {
	fsys := memory(t)
	all := history(t, 0, 60, 6)
	s := written(t, fsys, 0, all)
	var pool membuf.Pool
	at := all[40].BaseOffset()
	buf, b, err := s.ReadInto(&pool, all[30].BaseOffset(), at, 1<<20, true)
	if err != nil || end(t, b) != at {
		t.Fatalf("read up to %d: %v", at, err)
	}
	buf.Release()
	ok(t, s.Cut(size(all[:20]), all[20].BaseOffset()))
	again := history(t, all[20].BaseOffset(), 60, 7)
	write(t, s, again)
	for i := range again {
		got, _ := scan(t, s, &pool, again[i].BaseOffset(), 1000)
		if want := bytes.Join(asBytes(again[i:]), nil); !bytes.Equal(got, want) {
			t.Fatalf("from %d: %d bytes, want %d", again[i].BaseOffset(), len(got), len(want))
		}
	}
	for pos := range int64(300) { // nor does a wrong one
		s.places.forget()
		s.places.put(s.places.cuts, again[3].BaseOffset(), pos+1)
		buf, b, err := s.ReadInto(&pool, again[3].BaseOffset(), math.MaxInt64, 200, true)
		if err != nil || !bytes.HasPrefix(b, again[3]) {
			t.Fatalf("place %d: %v", pos+1, err)
		}
		buf.Release()
	}
	s.places.forget()
	_, cuts, _ := s.places.get(1)
	s.places.forget()
	s.places.put(cuts, 5, 100)
	if _, _, known := s.places.get(5); known {
		t.Error("a read that began before the cut left its place behind")
	}
}

func asBytes(all []record.Batch) (list [][]byte) {
	for _, b := range all {
		list = append(list, b)
	}
	return list
}

// end is the offset after the last of some batches.
func end(t testing.TB, b []byte) (next int64) {
	t.Helper()
	for len(b) > 0 {
		one, rest, err := record.Next(b)
		ok(t, err)
		next, b = one.LastOffset()+1, rest
	}
	return next
}
