package segment

import (
	"bytes"
	"errors"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
)

// A file that ends anywhere, in nothing, in zeros or in garbage, is cut behind the
// last whole batch.
func TestRecoverCutsAtEveryPoint(t *testing.T) {
	all := history(t, 50, 8, 1)
	whole := bytes.Join(chunks(all), nil)
	tails := [][]byte{nil, make([]byte, 200), bytes.Repeat([]byte{0xee}, 100), whole[:len(all[0])]}
	for cut := 0; cut <= len(whole); cut++ {
		for _, tail := range tails {
			fsys := memory(t)
			name := testDir + "/" + Name(50) + LogSuffix
			file := append(bytes.Clone(whole[:cut]), tail...)
			replace(t, fsys, name, file)
			valid, n := int64(0), 0
			for _, b := range all {
				if end := valid + int64(len(b)); end > int64(len(file)) || !bytes.Equal(file[:end], whole[:end]) {
					break // the tail may complete what was cut off
				}
				valid += int64(len(b))
				n++
			}
			next := int64(50)
			if n > 0 {
				next = all[n-1].LastOffset() + 1
			}
			s := Open(NewFiles(fsys, 2), testDir, 50, 0)
			seen := 0
			got, err := s.Recover(0, 50, interval, func(record.Batch) error { seen++; return nil })
			if err != nil || got != next || s.Size() != valid || seen != n {
				t.Fatalf("cut at %d, tail of %d: next %d, size %d, %d batches, %v; want %d, %d", cut, len(tail), got, s.Size(), seen, err, next, valid)
			}
			if int64(len(content(t, fsys, name))) != s.Size() || s.Synced() != s.Size() {
				t.Fatalf("cut at %d: the file was not cut", cut)
			}
		}
	}
}

// Recovery goes on from a recovery point and trusts what is before it; indexes
// and timestamps are right for all.
func TestRecoverFromAPoint(t *testing.T) {
	for _, keep := range []int{0, 1, 20, 40} {
		fsys := memory(t)
		all := history(t, 0, 40, 1)
		s := written(t, fsys, 0, all)
		ok(t, s.Sync())
		point := size(all[:keep])
		next := int64(0)
		if keep > 0 {
			next = all[keep-1].LastOffset() + 1
		}
		s = Open(NewFiles(fsys, 2), testDir, 0, point)
		end, err := s.Recover(point, next, interval, nil)
		if err != nil || end != all[39].LastOffset()+1 {
			t.Fatalf("from %d: end %d, %v", keep, end, err)
		}
		answers(t, "recovered", s, all)
		more := history(t, end, 20, 2)
		write(t, s, more)
		answers(t, "continued", s, append(all, more...))
	}
}

func TestRecoverRefusesAFileThatIsTooShort(t *testing.T) {
	fsys := memory(t)
	all := history(t, 0, 4, 1)
	s := written(t, fsys, 0, all)
	full := int64(len(content(t, fsys, s.Path())))
	stop := errors.New("stop")
	if _, err := Open(NewFiles(fsys, 2), testDir, 0, 0).Recover(0, 0, interval, func(record.Batch) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("not stopped: %v", err)
	}
	if n := int64(len(content(t, fsys, s.Path()))); n != full {
		t.Errorf("stopped, and cut from %d to %d", full, n)
	}
	if _, err := Open(NewFiles(fsys, 2), testDir, 0, 0).Recover(s.Size()+1, 99, interval, nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if n := len(content(t, fsys, s.Path())); int64(n) != size(all) {
		t.Errorf("the file has %d bytes now", n)
	}
}

// FuzzRecover: whatever the file holds, what stays are whole batches in order.
func FuzzRecover(f *testing.F) {
	f.Add([]byte(batch(f, 0, 2, 1, "x")))
	f.Add(bytes.Join(chunks(history(f, 0, 3, 1)), make([]byte, 3)))
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		fsys := memory(t)
		replace(t, fsys, testDir+"/"+Name(0)+LogSuffix, b)
		s := Open(NewFiles(fsys, 2), testDir, 0, 0)
		var kept []byte
		end, err := s.Recover(0, 0, interval, func(x record.Batch) error { kept = append(kept, x...); return nil })
		ok(t, err)
		if !bytes.HasPrefix(b, kept) || s.Size() != int64(len(kept)) {
			t.Fatalf("kept %d bytes, size %d", len(kept), s.Size())
		}
		if got, err := s.Read(0, end, 1<<20, true); err != nil && !errors.Is(err, ErrEnd) || !bytes.Equal(got, kept) && end > 0 {
			t.Fatalf("reads %d of %d bytes, %v", len(got), len(kept), err)
		}
	})
}

// FuzzIndex: no index makes a lookup fail, or find what was not asked for.
func FuzzIndex(f *testing.F) {
	all := history(f, 0, 30, 1)
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 80}, []byte{0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, o, ts []byte) {
		fsys := memory(t)
		written(t, fsys, 0, all)
		replace(t, fsys, testDir+"/"+Name(0)+".index", o)
		replace(t, fsys, testDir+"/"+Name(0)+".timeindex", ts)
		s := Open(NewFiles(fsys, 2), testDir, 0, size(all))
		pos := int64(0)
		for _, b := range all {
			if p, n, err := s.Find(b.LastOffset()); err != nil || p != pos || n != len(b) {
				t.Fatalf("Find(%d) = %d+%d, %v", b.LastOffset(), p, n, err)
			}
			// An entry of a batch that isn't the newest so far can't be told from a good one.
			if got, err := s.FindTimestamp(b.MaxTimestamp(), 0); err != nil || len(got) > 0 && got.MaxTimestamp() < b.MaxTimestamp() {
				t.Fatalf("FindTimestamp(%d): %v", b.MaxTimestamp(), err)
			}
			pos += int64(len(b))
		}
	})
}
