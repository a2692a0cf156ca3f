package segment

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// scan reads a segment from front to back, max bytes at a time, and returns its content and the
// number of reads.
func scan(t testing.TB, s *Segment, pool *bufpool.Pool, from int64, max int) (all []byte, reads int) {
	t.Helper()
	for offset := from; ; reads++ {
		buf, b, err := s.ReadInto(pool, offset, math.MaxInt64, max, true)
		if errors.Is(err, ErrEnd) {
			if buf != nil {
				t.Fatal("a buffer without batches")
			}
			return all, reads
		}
		ok(t, err)
		all = append(all, b...)
		for len(b) > 0 {
			one, rest, err := record.Next(b)
			ok(t, err)
			offset, b = one.LastOffset()+1, rest
		}
		buf.Release()
	}
}

// A reader that continues where it stopped costs one read of the file each time, whatever other
// readers do, and all readers release their buffers.
func TestAContinuingReaderCostsOneReadOfTheFile(t *testing.T) {
	fsys := errfs.New(memory(t))
	all := history(t, 0, 2000, 5)
	s := written(t, fsys, 0, all)
	var pool bufpool.Pool
	want := bytes.Join(asBytes(all), nil)
	for _, max := range []int{1, 300, 5000, 1 << 20} {
		before := fsys.Calls(errfs.Read)
		got, reads := scan(t, s, &pool, 0, max)
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes at a time: %d of %d bytes", max, len(got), len(want))
		}
		// If no batch fits, it is read in two steps, its size first.
		if n := fsys.Calls(errfs.Read) - before; n > 2*reads+4 || max > 1 && n > reads+4 {
			t.Errorf("%d bytes at a time: %d reads of the file for %d", max, n, reads)
		}
	}
	offsets := make([]int64, len(s.positions.list))
	before, rounds := fsys.Calls(errfs.Read), 0
	for ; rounds < 50; rounds++ {
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
	if n, most := fsys.Calls(errfs.Read)-before, len(offsets)*(rounds+8); n > most {
		t.Errorf("%d concurrent readers: %d reads of the file, want at most %d", len(offsets), n, most)
	}
	if n := pool.Outstanding(); n != 0 {
		t.Errorf("%d buffers were not released", n)
	}
}

// An empty read distinguishes three cases: the next batch does not fit, it begins at or beyond the
// limit, or there is none. This holds for a first read and for a reader that continues, and skips
// no batch: the reader gets it when it has space for it.
func TestAnEmptyReadReportsWhetherTheSegmentEnds(t *testing.T) {
	all := append(history(t, 0, 20, 3), batch(t, 1000, 1, 1, string(make([]byte, 5000))), batch(t, 1001, 1, 1, "v"))
	s := written(t, memory(t), 0, all)
	var pool bufpool.Pool
	for _, continues := range []bool{false, true} {
		s.positions.forget()
		for _, c := range []struct {
			name         string
			at, limit    int64
			max          int
			one          bool
			end, nothing bool
		}{
			{name: "does not fit", at: 1000, limit: 2000, max: 1000, nothing: true},
			{name: "does not fit, after a gap", at: 500, limit: 2000, max: 1000, nothing: true},
			{name: "no space at all", at: 1000, limit: 2000, max: 0, nothing: true},
			{name: "at the limit", at: 500, limit: 1000, max: 10000, one: true, nothing: true},
			{name: "beyond the limit", at: 500, limit: 700, max: 10000, one: true, nothing: true},
			{name: "fits", at: 1000, limit: 2000, max: 6000},
			{name: "at least one", at: 1000, limit: 2000, max: 1, one: true},
			{name: "no batch there", at: 1002, limit: 2000, max: 1000, one: true, end: true},
			{name: "no batch, no space either", at: 1002, limit: 2000, max: 0, end: true},
		} {
			if continues { // its last read ended here
				pos, _, err := s.Find(c.at)
				ok(t, err)
				s.positions.put(s.positions.cuts, c.at, pos)
			}
			buf, b, err := s.ReadInto(&pool, c.at, c.limit, c.max, c.one)
			if errors.Is(err, ErrEnd) != c.end || err != nil && !c.end || (len(b) == 0) != (c.nothing || c.end) {
				t.Errorf("%s, continues %v: %d bytes, %v", c.name, continues, len(b), err)
			}
			if buf != nil {
				buf.Release()
			}
		}
	}
	if n := pool.Outstanding(); n != 0 {
		t.Errorf("%d buffers were not released", n)
	}
}

// The file is truncated, and perhaps written again, between two reads of one call. The call returns
// the current content and does not report removed bytes as damage.
func TestAReadDuringATruncationReturnsTheCurrentContent(t *testing.T) {
	for n := 1; n <= 4; n++ { // the read of the file before which it is truncated
		for _, again := range []bool{false, true} {
			for _, continues := range []bool{false, true} {
				fsys := errfs.New(memory(t))
				all := history(t, 0, 30, 6)
				s := written(t, fsys, 0, all)
				at := all[20].BaseOffset()
				pos, _, err := s.Find(at)
				ok(t, err)
				if continues {
					s.positions.put(s.positions.cuts, at, pos)
				}
				cut := false
				rule := fsys.Add(errfs.Rule{Ops: errfs.Read, Path: "*" + LogSuffix, From: n, Count: 1, Before: func(errfs.Call) {
					cut = true
					ok(t, s.Truncate(size(all[:19]), all[19].BaseOffset()))
					if again { // batches of another size: old positions are inside of them
						write(t, s, []record.Batch{batch(t, all[19].BaseOffset(), 40, 1, "a longer value than those that were cut off")})
					}
				}})
				b, err := s.Read(at, math.MaxInt64, 1<<20, true)
				rule.Off()
				switch {
				case !cut: // the call took fewer reads
				case again && (err != nil || len(b) == 0 || record.Batch(b).LastOffset() < at || record.Batch(b).BaseOffset() > at):
					t.Errorf("truncated and written before read %d (continues: %v): %d bytes, %v", n, continues, len(b), err)
				case !again && !errors.Is(err, ErrEnd):
					t.Errorf("truncated before read %d (continues: %v): %d bytes, %v", n, continues, len(b), err)
				}
			}
		}
	}
}

// Positions remembered before a file is truncated and written again do not mislead later reads.
func TestARememberedPositionDoesNotOutliveATruncation(t *testing.T) {
	fsys := memory(t)
	all := history(t, 0, 60, 6)
	s := written(t, fsys, 0, all)
	var pool bufpool.Pool
	at := all[40].BaseOffset()
	buf, b, err := s.ReadInto(&pool, all[30].BaseOffset(), at, 1<<20, true)
	if err != nil || end(t, b) != at {
		t.Fatalf("read up to %d: %v", at, err)
	}
	buf.Release()
	ok(t, s.Truncate(size(all[:20]), all[20].BaseOffset()))
	again := history(t, all[20].BaseOffset(), 60, 7)
	write(t, s, again)
	for i := range again {
		got, _ := scan(t, s, &pool, again[i].BaseOffset(), 1000)
		if want := bytes.Join(asBytes(again[i:]), nil); !bytes.Equal(got, want) {
			t.Fatalf("from %d: %d bytes, want %d", again[i].BaseOffset(), len(got), len(want))
		}
	}
	for pos := range int64(300) { // nor does a wrong one
		s.positions.forget()
		s.positions.put(s.positions.cuts, again[3].BaseOffset(), pos+1)
		buf, b, err := s.ReadInto(&pool, again[3].BaseOffset(), math.MaxInt64, 200, true)
		if err != nil || !bytes.HasPrefix(b, again[3]) {
			t.Fatalf("position %d: %v", pos+1, err)
		}
		buf.Release()
	}
	s.positions.forget()
	_, cuts, _ := s.positions.get(1)
	s.positions.forget()
	s.positions.put(cuts, 5, 100)
	if _, _, known := s.positions.get(5); known {
		t.Error("a read that began before the truncation left its position")
	}
}

func asBytes(all []record.Batch) (list [][]byte) {
	for _, b := range all {
		list = append(list, b)
	}
	return list
}

// end returns the offset after the last of the batches.
func end(t testing.TB, b []byte) (next int64) {
	t.Helper()
	for len(b) > 0 {
		one, rest, err := record.Next(b)
		ok(t, err)
		next, b = one.LastOffset()+1, rest
	}
	return next
}
