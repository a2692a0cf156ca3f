package segment

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// If the indexes are missing, the first lookup by offset or time builds and saves both in one pass
// over the file. Later lookups read little, and all of them find the same.
func TestAMissingIndexIsBuiltByTheFirstLookup(t *testing.T) {
	fsys := errfs.New(memory(t))
	all := make([]record.Batch, 0, 3000)
	for i := range int64(3000) {
		all = append(all, batch(t, i, 1, 1000+10*i, "some value that makes a record of a batch a little longer than nothing"))
	}
	files := NewFiles(fsys, 4)
	s, err := Create(files, testDir, 0, 0)
	ok(t, err)
	write(t, s, all)
	ok(t, s.Sync())
	size := s.Size()
	for name, lookup := range map[string]func(s *Segment, i int64) (record.Batch, error){
		"offset": func(s *Segment, i int64) (record.Batch, error) { return s.Read(i, i+1, 1, true) },
		"time":   func(s *Segment, i int64) (record.Batch, error) { return s.FindTimestamp(1000+10*i, 0) },
	} {
		ok(t, fsys.RemoveAll(s.stem()+".index"))
		ok(t, fsys.RemoveAll(s.stem()+".timeindex"))
		again := Open(files, testDir, 0, size)
		reads := func(i int64) int {
			before := fsys.Calls(errfs.Read)
			b, err := lookup(again, i)
			if err != nil || b.BaseOffset() != i {
				t.Fatalf("%s: lookup of %d: %v", name, i, err)
			}
			return fsys.Calls(errfs.Read) - before
		}
		first := reads(2990)
		if most := int(size / headerStep); first < most || first > most+10 {
			t.Fatalf("%s: the first lookup took %d reads, one pass takes %d", name, first, most)
		}
		for _, i := range []int64{2990, 5, 1500, 2900} {
			if n := reads(i); n > 8 {
				t.Errorf("%s: a lookup of %d took %d reads, the first %d", name, i, n, first)
			}
		}
		x, err := loadIndex(fsys, again.stem(), size)
		if err != nil || len(x.offsets) < 5 || len(x.times) < 5 {
			t.Errorf("%s: saved %d and %d entries: %v", name, len(x.offsets), len(x.times), err)
		}
		for i, e := range x.offsets {
			if int64(e.rel) != all[e.rel].LastOffset() || i > 0 && e.pos <= x.offsets[i-1].pos {
				t.Errorf("%s: entry %d is %+v", name, i, e)
			}
		}
		reads(5)
		again.forgetIndex()
		if n := reads(2990); n > 10 {
			t.Errorf("%s: a lookup with the saved index took %d reads", name, n)
		}
		// An index that cannot be saved is only in memory.
		ok(t, fsys.RemoveAll(s.stem()+".index"))
		ok(t, fsys.RemoveAll(s.stem()+".timeindex"))
		again = Open(files, testDir, 0, size)
		fault := fsys.Add(errfs.Rule{Ops: errfs.Create, Path: "*index", Err: syscall.ENOSPC})
		reads(5)
		again.forgetIndex()
		reads(5)
		if n := reads(2990); n > 8 {
			t.Errorf("%s: a lookup without files took %d reads", name, n)
		}
		fault.Off()
	}
}

// The last entry of a time index is compared with its batch: if it contradicts the batch, what it
// implies about earlier batches is not trusted.
func TestAWrongLastTimeEntryIsNotTrusted(t *testing.T) {
	fsys := memory(t)
	all := []record.Batch{batch(t, 0, 1, 9000, "v")}
	for i := range int64(60) {
		all = append(all, batch(t, i+1, 1, 5000-i, "some value of a record"))
	}
	s := written(t, fsys, 0, all)
	ok(t, s.Seal())
	for _, e := range []timeEntry{{9000, 5}, {9000, 100}, {9001, 0}, {1, 0}} {
		x := index{times: []timeEntry{e}, savedTimes: -1, savedOffsets: -1}
		ok(t, x.save(fsys, s.stem()))
		answers(t, fmt.Sprintf("with %+v", e), Open(s.files, testDir, 0, s.Size()), all)
	}
}
