package segment

import (
	"errors"
	"sync"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// fill appends n batches of one record, from an offset on.
func fill(t *testing.T, s *Segment, base int64, n, size int) {
	t.Helper()
	for i := range n {
		w := record.NewBuilder(record.BatchOptions{BaseOffset: base + int64(i)})
		w.Append(1000+base+int64(i), nil, make([]byte, size), nil)
		b, err := w.Build()
		ok(t, err)
		ok(t, s.Append([][]byte{b}, 100))
	}
	ok(t, s.Seal())
}

// Concurrent readers see the batches of the old segment, those of the new one, or ErrReplaced; the
// index matches the file.
func TestReplacement(t *testing.T) {
	fsys := vfs.Memory()
	ok(t, fsys.MkdirAll("/l"))
	files := NewFiles(fsys, 2)
	defer files.Close()
	old, err := Create(files, "/l", 0, 0)
	ok(t, err)
	fill(t, old, 0, 200, 100)
	for round := range 20 {
		fresh, err := CreateCleaned(files, "/l", 0)
		ok(t, err)
		fill(t, fresh, int64(round+1), 100, 50)
		ok(t, fresh.Ready())
		stop, begun := make(chan struct{}), make(chan struct{}, 8)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := int64(0); ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					at := 30 + i%60
					if b, err := fresh.Read(at, 1000, 10, true); err != nil || record.Batch(b).BaseOffset() != at {
						t.Errorf("the new segment at %d: %v", at, err)
						return
					}
					if b, err := old.Read(at, 1000, 10, true); err != nil && !errors.Is(err, ErrReplaced) ||
						err == nil && record.Batch(b).BaseOffset() != at {
						t.Errorf("the old segment at %d: %v", at, err)
						return
					}
					if i == 10 {
						begun <- struct{}{}
					}
				}
			})
		}
		for range 4 {
			<-begun
		}
		ok(t, old.RemoveIndexes())
		old.Replace()
		ok(t, fresh.Install())
		close(stop)
		wg.Wait()
		if _, err := old.Read(50, 1000, 10, true); !errors.Is(err, ErrReplaced) {
			t.Fatalf("a read of the replaced segment: %v", err)
		}
		if err := old.Batches(0, func(record.Batch) error { return nil }); !errors.Is(err, ErrReplaced) {
			t.Fatalf("a scan of the replaced segment: %v", err)
		}
		fresh.SaveIndex()
		if again := Open(files, "/l", 0, fresh.Size()); again.Entries() != fresh.Entries() || again.Entries() == 0 {
			t.Fatalf("%d entries were saved of %d", again.Entries(), fresh.Entries())
		}
		old = fresh
	}
}

func TestBatchesMeetsDamage(t *testing.T) {
	fsys := vfs.Memory()
	ok(t, fsys.MkdirAll("/l"))
	files := NewFiles(fsys, 2)
	defer files.Close()
	s, err := Create(files, "/l", 0, 0)
	ok(t, err)
	fill(t, s, 0, 20, 100)
	var seen []int64
	note := func(b record.Batch) error { seen = append(seen, b.BaseOffset()); return nil }
	if err := s.Batches(7, note); err != nil || len(seen) != 13 || seen[0] != 7 {
		t.Fatalf("%v, %v", seen, err)
	}
	f, err := fsys.Open(s.Path())
	ok(t, err)
	if _, err := f.WriteAt([]byte{0xff}, s.Size()-5); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	seen = nil
	if err := s.Batches(0, note); !errors.Is(err, ErrCorrupt) || len(seen) != 19 {
		t.Fatalf("%d batches, %v", len(seen), err)
	}
}

func TestNamesOfUnfinishedFiles(t *testing.T) {
	if base, ok := ParseSwap(Name(42) + LogSuffix + SwapSuffix); !ok || base != 42 {
		t.Errorf("%d, %v", base, ok)
	}
	for name, want := range map[string]bool{
		Name(1) + LogSuffix: false, Name(1) + LogSuffix + CleanedSuffix: true, Name(1) + LogSuffix + SwapSuffix: true,
		"x.swap": false, Name(1) + ".index": false,
	} {
		if IsUnfinished(name) != want {
			t.Errorf("%s", name)
		}
		if _, ok := ParseSwap(name); ok != (want && name == Name(1)+LogSuffix+SwapSuffix) {
			t.Errorf("%s parses as a swap file", name)
		}
	}
}
