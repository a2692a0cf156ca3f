package segment

import (
	"bytes"
	"errors"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
)

// For a file that ends anywhere, in nothing, zeros or garbage, the prefix consists of whole
// batches.
func TestPrefixAtEveryPoint(t *testing.T) {
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
					break // the tail may complete the truncated batch
				}
				valid += int64(len(b))
				n++
			}
			next := int64(50)
			if n > 0 {
				next = all[n-1].LastOffset() + 1
			}
			seen := 0
			got, pos, err := Prefix(fsys, testDir, 50, 0, 50, int64(len(file)), func(record.Batch) error { seen++; return nil })
			if err != nil || got != next || pos != valid || seen != n {
				t.Fatalf("cut at %d, tail of %d: next %d, size %d, %d batches, %v; want %d, %d", cut, len(tail), got, pos, seen,
					err, next, valid)
			}
		}
	}
}

// For any file content, the prefix consists of whole batches in order.
func FuzzPrefix(f *testing.F) {
	f.Add([]byte(batch(f, 0, 2, 1, "x")))
	f.Add(bytes.Join(chunks(history(f, 0, 3, 1)), make([]byte, 3)))
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		fsys := memory(t)
		replace(t, fsys, testDir+"/"+Name(0)+LogSuffix, b)
		var kept []byte
		end, pos, err := Prefix(fsys, testDir, 0, 0, 0, int64(len(b)), func(x record.Batch) error { kept = append(kept, x...); return nil })
		ok(t, err)
		if !bytes.HasPrefix(b, kept) || pos != int64(len(kept)) {
			t.Fatalf("kept %d bytes, position %d", len(kept), pos)
		}
		s := Open(NewFiles(fsys, 2), testDir, 0, pos)
		if got, err := s.Read(0, end, 1<<20, true); err != nil && !errors.Is(err, ErrEnd) || !bytes.Equal(got, kept) && end > 0 {
			t.Fatalf("reads %d of %d bytes, %v", len(got), len(kept), err)
		}
	})
}

// No index makes a lookup fail or return a wrong batch.
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
			// A wrong entry for a batch that is not the newest so far cannot be detected.
			if got, err := s.FindTimestamp(b.MaxTimestamp(), 0); err != nil || len(got) > 0 && got.MaxTimestamp() < b.MaxTimestamp() {
				t.Fatalf("FindTimestamp(%d): %v", b.MaxTimestamp(), err)
			}
			pos += int64(len(b))
		}
	})
}
