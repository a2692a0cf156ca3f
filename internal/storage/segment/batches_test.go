package segment

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs/errfs"
)

// scan reads a segment from front to back, max bytes at a time, and returns all
// of it and the number of reads.
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

// Readers that go on where they stopped cost one read of the file each time,
// whatever other readers do, and all of them give their buffers back.
func TestAReaderThatGoesOnCostsOneReadOfTheFile(t *testing.T) {
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

// A read says which it was: the next batch does not fit, it begins at or beyond the
// limit, or there is none. Each holds on the first read and for a reader that goes on,
// and costs no batch: the reader gets it once it has room.
func TestAnEmptyReadSaysWhetherTheSegmentEnds(t *testing.T) {
	all := append(history(t, 0, 20, 3), batch(t, 1000, 1, 1, string(make([]byte, 5000))), batch(t, 1001, 1, 1, "v"))
	s := written(t, memory(t), 0, all)
	var pool bufpool.Pool
	for _, goesOn := range []bool{false, true} {
		s.places.forget()
		for _, c := range []struct {
			name         string
			at, limit    int64
			max          int
			one          bool
			end, nothing bool
		}{
			{name: "does not fit", at: 1000, limit: 2000, max: 1000, nothing: true},
			{name: "does not fit, after a gap", at: 500, limit: 2000, max: 1000, nothing: true},
			{name: "no room at all", at: 1000, limit: 2000, max: 0, nothing: true},
			{name: "at the limit", at: 500, limit: 1000, max: 10000, one: true, nothing: true},
			{name: "beyond the limit", at: 500, limit: 700, max: 10000, one: true, nothing: true},
			{name: "fits", at: 1000, limit: 2000, max: 6000},
			{name: "at least one", at: 1000, limit: 2000, max: 1, one: true},
			{name: "no batch there", at: 1002, limit: 2000, max: 1000, one: true, end: true},
			{name: "no batch there, no room either", at: 1002, limit: 2000, max: 0, end: true},
		} {
			if goesOn { // its last read ended here
				pos, _, err := s.Find(c.at)
				ok(t, err)
				s.places.put(s.places.cuts, c.at, pos)
			}
			buf, b, err := s.ReadInto(&pool, c.at, c.limit, c.max, c.one)
			if errors.Is(err, ErrEnd) != c.end || err != nil && !c.end || (len(b) == 0) != (c.nothing || c.end) {
				t.Errorf("%s, goes on %v: %d bytes, %v", c.name, goesOn, len(b), err)
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

// The file is cut, and perhaps written again, between two reads of one call: it answers
// for what stands there then, and takes no bytes that went for damage.
func TestAReadBesideACutAnswersForWhatIsThereThen(t *testing.T) {
	for n := 1; n <= 4; n++ { // the read of the file before which it is cut
		for _, again := range []bool{false, true} {
			for _, goesOn := range []bool{false, true} {
				fsys := errfs.New(memory(t))
				all := history(t, 0, 30, 6)
				s := written(t, fsys, 0, all)
				at := all[20].BaseOffset()
				pos, _, err := s.Find(at)
				ok(t, err)
				if goesOn {
					s.places.put(s.places.cuts, at, pos)
				}
				cut := false
				rule := fsys.Add(errfs.Rule{Ops: errfs.Read, Path: "*" + LogSuffix, From: n, Count: 1, Before: func(errfs.Call) {
					cut = true
					ok(t, s.Cut(size(all[:19]), all[19].BaseOffset()))
					if again { // batches of another size: old positions are inside of them
						write(t, s, []record.Batch{batch(t, all[19].BaseOffset(), 40, 1, "a longer value than those that were cut off")})
					}
				}})
				b, err := s.Read(at, math.MaxInt64, 1<<20, true)
				rule.Off()
				switch {
				case !cut: // the call took fewer reads
				case again && (err != nil || len(b) == 0 || record.Batch(b).LastOffset() < at || record.Batch(b).BaseOffset() > at):
					t.Errorf("cut and written before read %d (goes on: %v): %d bytes, %v", n, goesOn, len(b), err)
				case !again && !errors.Is(err, ErrEnd):
					t.Errorf("cut before read %d (goes on: %v): %d bytes, %v", n, goesOn, len(b), err)
				}
			}
		}
	}
}

// What is remembered of a file that is cut and written again leads nobody astray.
func TestARememberedPlaceDoesNotOutliveACut(t *testing.T) {
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
