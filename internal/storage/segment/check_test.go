package segment

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// checkable returns a segment of n batches of two records each with its indexes, and where each
// batch begins.
func checkable(t testing.TB, n int) (fsys vfs.FS, size int64, at []int64) {
	t.Helper()
	fsys = memory(t)
	files := NewFiles(fsys, 4)
	s, err := Create(files, testDir, 100, 0)
	ok(t, err)
	for i := range n {
		b := batch(t, 100+int64(2*i), 2, int64(1000+i), "the value of a record, not short")
		at, size = append(at, size), size+int64(len(b))
		ok(t, s.Append([][]byte{b}, interval))
	}
	ok(t, s.Sync())
	ok(t, files.Close())
	return fsys, size, at
}

func change(t testing.TB, fsys vfs.FS, name string, at int64, p ...byte) {
	t.Helper()
	f, err := fsys.Open(testDir + "/" + name)
	ok(t, err)
	_, err = f.WriteAt(p, at)
	ok(t, err)
	ok(t, f.Close())
}

// For a whole segment, Check sees every batch, finds no flaw, and agrees with the indexes, even if
// the file is longer than its valid size.
func TestCheckOfAWholeSegment(t *testing.T) {
	fsys, size, at := checkable(t, 30)
	for _, counts := range []int{30, 17, 1, 0} {
		end := size
		if counts < 30 {
			end = at[counts]
		}
		var seen []int64
		c, err := Check(fsys, testDir, 100, Facts{Size: end, End: 100 + int64(2*counts)}, false, func(pos int64, b record.Batch) error {
			seen = append(seen, pos)
			return nil
		})
		ok(t, err)
		if len(c.Flaws) > 0 || !slices.Equal(seen, at[:counts]) || c.Batches != counts || c.End != end || c.Next != 100+int64(2*counts) ||
			c.Index.Wrong+c.Times.Wrong > 0 || c.Index.Missing || c.Times.Missing {
			t.Errorf("%d batches: %+v", counts, c)
		}
	}
}

// Check finds each damage of the sixth batch at its position, with the lost offsets, and sees the
// batches after it.
func TestCheckFindsAFlaw(t *testing.T) {
	const hurt = 5
	base := func(b int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(b)) }
	for name, c := range map[string]struct {
		at        int64
		with      []byte
		numbering bool
		mended    bool
	}{
		"a record":           {at: 80, with: []byte{0xff}},
		"the checksum":       {at: 17, with: []byte{1, 2, 3, 4}},
		"the magic":          {at: 16, with: []byte{7}},
		"the length":         {at: 8, with: []byte{0, 0, 0, 70}},
		"a length too large": {at: 8, with: []byte{0x7f, 0, 0, 70}},
		"no header":          {at: 0, with: make([]byte, 61)},
		"offset too low":     {at: 0, with: base(3), numbering: true, mended: true},
		"offset a bit high":  {at: 0, with: base(112), numbering: true, mended: true},
		"offset too high":    {at: 0, with: base(1 << 50), numbering: true, mended: true},
		"offset negative":    {at: 0, with: base(-4), numbering: true, mended: true},
		"the largest offset": {at: 0, with: base(math.MaxInt64), numbering: true, mended: true},
	} {
		fsys, size, at := checkable(t, 12)
		change(t, fsys, Name(100)+LogSuffix, at[hurt]+c.at, c.with...)
		seen := 0
		got, err := Check(fsys, testDir, 100, Facts{Size: size, End: 124}, false, func(int64, record.Batch) error { seen++; return nil })
		ok(t, err)
		if len(got.Flaws) != 1 {
			t.Errorf("%s: %+v", name, got.Flaws)
			continue
		}
		f := got.Flaws[0]
		if f.Pos != at[hurt] || f.Pos+f.Size != at[hurt+1] || f.From != 110 || f.To != 112 || f.Numbering != c.numbering ||
			f.Renumbers() != c.mended {
			t.Errorf("%s: %+v", name, f)
		}
		if seen < 11 || got.Batches != 11 || got.Next != 124 {
			t.Errorf("%s: %d batches were seen, %+v", name, seen, got)
		}
	}
}

// A wrong length that leads to a later batch, or to the end of the segment, hides no whole batch.
func TestAWrongLengthCostsOneBatch(t *testing.T) {
	const n, hurt = 12, 5
	fsys, size, at := checkable(t, n)
	for _, end := range []int64{at[hurt+2], at[n-1], size} {
		change(t, fsys, Name(100)+LogSuffix, at[hurt]+8, binary.BigEndian.AppendUint32(nil, uint32(end-at[hurt]-12))...)
		got, err := Check(fsys, testDir, 100, Facts{Size: size, End: 124}, false, nil)
		ok(t, err)
		if len(got.Flaws) != 1 || got.Flaws[0].Pos != at[hurt] || got.Flaws[0].Size != at[hurt+1]-at[hurt] || got.Batches != n-1 {
			t.Errorf("up to %d: %+v", end, got)
		}
	}
}

// Check does not search byte by byte through the missing part of a truncated file.
func TestMissingBytesAreNotSearched(t *testing.T) {
	fsys, size, at := checkable(t, 40)
	f, err := fsys.Open(testDir + "/" + Name(100) + LogSuffix)
	ok(t, err)
	ok(t, f.Truncate(at[20]+10))
	ok(t, f.Close())
	disk := errfs.New(fsys)
	reads := disk.Add(errfs.Rule{Ops: errfs.Read, Path: testDir + "/*" + LogSuffix, Before: func(errfs.Call) {}})
	got, err := Check(disk, testDir, 100, Facts{Size: size, End: 180}, false, nil)
	ok(t, err)
	if len(got.Flaws) != 1 || got.Flaws[0].Pos != at[20] || got.Flaws[0].Pos+got.Flaws[0].Size != size || got.Flaws[0].To != 180 {
		t.Errorf("%+v", got)
	}
	if n := reads.Hits(); n > 10 {
		t.Errorf("%d reads of a file that ends at %d instead of %d", n, at[20]+10, size)
	}
}

// An index is wrong from the first entry on that a batch contradicts.
func TestCheckComparesIndexes(t *testing.T) {
	for name, c := range map[string]struct {
		file   string
		at     int64
		wrong  bool
		times  bool
		remove bool
	}{
		"a position":  {file: ".index", at: 15, wrong: true},
		"an offset":   {file: ".index", at: 11, wrong: true},
		"a timestamp": {file: ".timeindex", at: 7, wrong: true, times: true},
		"no index":    {file: ".index", remove: true},
		"no times":    {file: ".timeindex", remove: true, times: true},
	} {
		fsys, size, _ := checkable(t, 40)
		if c.remove {
			ok(t, fsys.Remove(testDir+"/"+Name(100)+c.file))
		} else {
			change(t, fsys, Name(100)+c.file, c.at, 0xee)
		}
		got, err := Check(fsys, testDir, 100, Facts{Size: size, End: 180}, false, nil)
		ok(t, err)
		e, other := got.Index, got.Times
		if c.times {
			e, other = other, e
		}
		if len(got.Flaws) > 0 || (e.Wrong > 0) != c.wrong || e.Missing != c.remove || other.Wrong > 0 || other.Missing {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// For any content of the files, Check returns, and every byte of the file of batches belongs to a
// seen batch or to a flaw. These never overlap.
func FuzzCheck(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint16(3), false)
		f.Add(seed, uint16(40), true)
	}
	f.Fuzz(func(t *testing.T, seed uint64, changes uint16, waiting bool) {
		fsys, size, _ := checkable(t, 12)
		if waiting {
			ok(t, fsys.Rename(testDir+"/"+Name(100)+LogSuffix, testDir+"/"+Name(100)+LogSuffix+SwapSuffix))
		}
		rng := rand.New(rand.NewPCG(seed, 3))
		for range changes % 64 {
			name, n := Name(100)+LogSuffix, size
			if waiting {
				name += SwapSuffix
			} else if rng.IntN(4) == 0 {
				name, n = Name(100)+suffixes[1+rng.IntN(2)], 20
			}
			change(t, fsys, name, rng.Int64N(n), byte(rng.Uint32()))
		}
		type span struct{ from, to int64 }
		spans := map[int64]span{}
		got, err := Check(fsys, testDir, 100, Facts{Size: size, End: 124}, waiting, func(pos int64, b record.Batch) error {
			spans[pos] = span{pos, pos + int64(len(b))}
			return nil
		})
		ok(t, err)
		for _, x := range got.Flaws {
			spans[x.Pos] = span{x.Pos, x.Pos + x.Size} // a batch that was seen may turn out to be misnumbered
			if x.Size <= 0 || x.From > x.To {
				t.Errorf("%+v", x)
			}
		}
		at := int64(0)
		for len(spans) > 0 {
			s, found := spans[at]
			if !found {
				t.Fatalf("position %d is not covered: %+v", at, got)
			}
			delete(spans, at)
			at = s.to
		}
		if at != size {
			t.Error(fmt.Sprint("it ends at ", at, " of ", size))
		}
	})
}
