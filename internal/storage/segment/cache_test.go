package segment

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// sealedOnes returns n sealed segments with indexes, and the batches of each.
func sealedOnes(t *testing.T, files *Files, n int) (list []*Segment, all [][]record.Batch) {
	t.Helper()
	for i := range n {
		base := int64(1000 * (i + 1))
		s, err := Create(files, testDir, base, 0)
		ok(t, err)
		b := history(t, base, 100, uint64(i))
		write(t, s, b)
		ok(t, s.Seal())
		list, all = append(list, s), append(all, b)
	}
	return list, all
}

// A sealed segment keeps no index in memory, and lookups keep no more than the bound, whatever they
// look up and however many run concurrently.
func TestIndexesInMemoryAreBounded(t *testing.T) {
	const bound = 4000
	files := NewFiles(memory(t), 8)
	files.BoundIndexes(bound)
	list, all := sealedOnes(t, files, 40)
	if n := files.IndexBytes(); n != 0 {
		t.Errorf("%d bytes of indexes after all segments were sealed", n)
	}
	most := int64(0)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for reader := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(reader), 1))
			for range 400 {
				i := rng.IntN(len(list))
				b := all[i][rng.IntN(100)]
				if got, err := list[i].Read(b.BaseOffset(), 1<<40, 1, true); err != nil ||
					record.Batch(got).BaseOffset() != b.BaseOffset() {
					t.Errorf("read at %d: %v", b.BaseOffset(), err)
				}
				mu.Lock()
				most = max(most, files.IndexBytes())
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if most > bound || most < bound/2 {
		t.Errorf("up to %d bytes of indexes in memory, the bound is %d", most, bound)
	}
	held := int64(0)
	for i, s := range list {
		if s.x != nil {
			held += s.x.bytes()
		}
		answers(t, "after eviction", s, all[i])
	}
	if held > bound {
		t.Errorf("%d bytes in memory", held)
	}
	for _, s := range list {
		ok(t, s.Remove())
	}
	if n := files.IndexBytes(); n != 0 || files.indexes.used.Len() != 0 {
		t.Errorf("%d bytes of indexes of removed segments", n)
	}
}

// An index whose files lack entries, or have truncated ones, is rebuilt after it was evicted from
// memory, not read from its files.
func TestAnUnsavedIndexIsBuiltAgain(t *testing.T) {
	for name, rule := range map[string]errfs.Rule{
		"cut":           {Ops: errfs.Lock},
		"can't write":   {Ops: errfs.Write, Path: "*index", Err: syscall.ENOSPC},
		"can't open":    {Ops: errfs.Open, Path: "*index", Err: syscall.EMFILE},
		"can't shorten": {Ops: errfs.Truncate, Path: "*index", Err: syscall.EIO},
	} {
		fsys := errfs.New(memory(t))
		files := NewFiles(fsys, 8)
		files.BoundIndexes(1) // the last one only
		others, _ := sealedOnes(t, files, 2)
		evicts := func() {
			_ = others[0].Entries()
			_ = others[1].Entries()
		}
		all := history(t, 0, 100, 1)
		s, err := Create(files, testDir, 0, 0)
		ok(t, err)
		write(t, s, all)
		ok(t, s.Seal()) // the files hold all entries
		ok(t, s.Truncate(size(all[:50]), all[50].BaseOffset()))
		if name == "cut" {
			evicts()
		}
		rest := slices.Clone(all[50:]) // one differs, so that the old entries look right
		was := rest[5]
		rest[5] = batch(t, was.BaseOffset(), int(was.Records()), 9000, "some value of a record")
		write(t, s, rest)
		fault := fsys.Add(rule)
		if name != "cut" {
			ok(t, s.Seal())
		}
		evicts()
		all = append(all[:50:50], rest...)
		answers(t, name, s, all)
		fault.Off()
		evicts()
		answers(t, name+", evicted again", s, all)
		ok(t, s.Seal())
		evicts()
		answers(t, name+", sealed", s, all)
	}
}

// While a lookup reads index files, the segment is appended to, truncated or distrusted. None of
// these waits, and the bytes read from the files are not used after the files changed.
func TestNothingWaitsWhileAnIndexIsRead(t *testing.T) {
	for name, change := range map[string]func(s *Segment, all []record.Batch) []record.Batch{
		"append": func(s *Segment, all []record.Batch) []record.Batch {
			more := history(t, all[99].LastOffset()+1, 100, 2)
			write(t, s, more)
			ok(t, s.Sync())
			return append(all, more...)
		},
		"cut": func(s *Segment, all []record.Batch) []record.Batch {
			ok(t, s.Truncate(size(all[:30]), all[30].BaseOffset()))
			return all[:30]
		},
		"cut and append": func(s *Segment, all []record.Batch) []record.Batch {
			ok(t, s.Truncate(size(all[:30]), all[30].BaseOffset()))
			more := history(t, all[30].BaseOffset(), 90, 3)
			write(t, s, more)
			return append(all[:30:30], more...)
		},
		"distrust": func(s *Segment, all []record.Batch) []record.Batch { s.distrust(); return all },
		"build": func(s *Segment, all []record.Batch) []record.Batch {
			_, _, err := s.MaxTimestamp()
			ok(t, err)
			s.known = false
			h, err := s.open()
			ok(t, err)
			_, _, err = s.build(h)
			ok(t, err)
			s.files.release(h)
			s.forgetIndex()
			return all
		},
		"full": func(s *Segment, all []record.Batch) []record.Batch {
			_ = s.Full(Limits{Bytes: 1 << 30, Ms: 1 << 40, IndexBytes: 1 << 20}, 1, 1000, 1)
			return all
		},
	} {
		for _, file := range []string{"*.index", "*.timeindex"} {
			fsys := errfs.New(memory(t))
			list, every := sealedOnes(t, NewFiles(fsys, 8), 1)
			s, all := list[0], every[0]
			done := false
			fsys.Add(errfs.Rule{Ops: errfs.Read, Path: file, Count: 1, Before: func(errfs.Call) {
				all = change(s, all)
				done = true
			}})
			if _, err := s.Read(all[10].BaseOffset(), 1<<40, 1, true); err != nil || !done {
				t.Errorf("%s at %s: %v, done: %v", name, file, err, done)
			}
			if (name == "distrust" || name == "build") && s.x != nil && len(s.x.offsets) > 0 {
				t.Errorf("%s at %s: %d entries came back", name, file, len(s.x.offsets))
			}
			answers(t, name+" at "+file, s, all)
			if more := history(t, all[len(all)-1].LastOffset()+1, 40, 4); true {
				write(t, s, more)
				all = append(all[:len(all):len(all)], more...)
			}
			answers(t, name+" at "+file+", continued", s, all)
			ok(t, s.Seal())
			answers(t, name+" at "+file+", sealed", Open(s.files, testDir, s.base, s.Size()), all)
		}
	}
}

// The largest timestamp always includes every append, even if a reader determines it concurrently
// with the append after the index was evicted. Otherwise retention would delete the segment too
// early.
func TestTheLargestTimestampCountsEveryAppend(t *testing.T) {
	s := written(t, memory(t), 0, nil)
	for i := range int64(1000) {
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range 2 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					s.distrust()
					_, _, err := s.MaxTimestamp()
					ok(t, err)
				}
			})
		}
		ok(t, s.Append([][]byte{batch(t, i, 1, 1000+i, "v")}, interval))
		close(stop)
		wg.Wait()
		if ts, at, err := s.MaxTimestamp(); ts != 1000+i || at != i || err != nil {
			t.Fatalf("%d at %d after the append of %d: %v", ts, at, 1000+i, err)
		}
	}
}

// Offsets that an index entry cannot hold get no entry, and the segment is full: lookups find their
// batches, and earlier entries stay right.
func TestOffsetsBeyondTheRangeOfAnIndexHaveNoEntry(t *testing.T) {
	fsys := memory(t)
	all := history(t, 5, 50, 1)
	for i := range int64(50) {
		all = append(all, batch(t, 1<<32+i, 1, 5000+i, string(make([]byte, 1000))))
	}
	s := written(t, fsys, 5, all)
	limits := Limits{Bytes: 1 << 30, Ms: 1 << 40, IndexBytes: 1 << 20}
	if !s.Full(limits, 1, all[99].LastOffset()+1, 1) {
		t.Error("the segment is not full")
	}
	answers(t, "live", s, all)
	ok(t, s.Seal())
	answers(t, "sealed", s, all)
	ok(t, fsys.Remove(s.stem()+".index"))
	ok(t, fsys.Remove(s.stem()+".timeindex"))
	again := Open(NewFiles(fsys, 2), testDir, 5, s.Size())
	answers(t, "built", again, all)
	for _, s := range []*Segment{s, again} {
		x, _ := s.indexes()
		if n := len(x.offsets); s.stale || n > 0 && int64(x.offsets[n-1].pos) >= size(all[:50]) {
			t.Errorf("the index has %+v, is distrusted: %v", x.offsets, s.stale)
		}
	}
	if _, err := s.Read(1<<40, 1<<41, 1, true); !errors.Is(err, ErrEnd) {
		t.Errorf("beyond the end: %v", err)
	}
}
