package segment

import (
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs/errfs"
)

// Where the indexes are missing, the first lookup by offset or time reads its way
// through the file and the next ones don't; both find the same, and the next sync
// saves what was learned.
func TestAMissingIndexIsLearnedByTheFirstLookup(t *testing.T) {
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
		ok(t, fsys.Remove(s.stem()+".index"))
		ok(t, fsys.Remove(s.stem()+".timeindex"))
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
		if most := int(size / scanStep); first < most/2 {
			t.Fatalf("%s: the first lookup took %d reads of %d: nothing is missing", name, first, most)
		}
		for _, i := range []int64{2990, 5, 1500, 2900} {
			if n := reads(i); n > 8 {
				t.Errorf("%s: a lookup of %d took %d reads, the first %d", name, i, n, first)
			}
		}
		again.synced.Store(0)
		ok(t, again.Sync())
		x, err := loadIndex(fsys, again.stem(), size)
		if err != nil || len(x.offsets) < 5 {
			t.Errorf("%s: saved %d entries: %v", name, len(x.offsets), err)
		}
		for i, e := range x.offsets {
			if int64(e.rel) != all[e.rel].LastOffset() || i > 0 && e.pos <= x.offsets[i-1].pos {
				t.Errorf("%s: entry %d is %+v", name, i, e)
			}
		}
	}
}
