package segment

import (
	"bytes"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// patientDisk is a file system that records reads, and what the system is asked to read ahead.
type patientDisk struct {
	vfs.FS
	reads    []int64 // their sizes
	asked    []int64 // the sizes of requests for read-ahead
	switched []bool
	before   func() // called before each read
}

type patientFile struct {
	vfs.File
	d *patientDisk
}

func (d *patientDisk) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	return patientFile{f, d}, err
}

func (f patientFile) ReadAt(p []byte, off int64) (int, error) {
	f.d.before()
	f.d.reads = append(f.d.reads, int64(len(p)))
	return f.File.ReadAt(p, off)
}

func (f patientFile) StartRead(_, n int64) { f.d.asked = append(f.d.asked, n) }

func (f patientFile) SetReadAhead(on bool) { f.d.switched = append(f.d.switched, on) }

// While others need the disk, a large read never has more than a small piece in flight: the system
// reads nothing ahead, neither on its own nor on request. It does again when the disk is free. The
// others are asked about before every piece.
func TestLargeReadsYieldTheDisk(t *testing.T) {
	var all []record.Batch
	for i := range int64(12) {
		all = append(all, batch(t, i, 1, 1000, string(make([]byte, 300<<10))))
	}
	fs := memory(t)
	written(t, fs, 0, all)
	d := &patientDisk{FS: fs, before: func() {}}
	files := NewFiles(d, 10)
	busy := false
	files.YieldTo(func() bool { return busy })
	s := Open(files, testDir, 0, size(all))
	s.ahead.Store(1 << 20) // as if it had been read from the disk up to there
	var pool bufpool.Pool
	read := func(offset int64) {
		t.Helper()
		d.reads, d.asked = nil, nil
		buf, b, err := s.ReadInto(&pool, offset, 12, aheadLeast, true)
		ok(t, err)
		if want := bytes.Join(byteSlices(all[offset:offset+6]), nil); !bytes.Equal(b, want) {
			t.Fatalf("at %d: %d bytes, want %d", offset, len(b), len(want))
		}
		buf.Release()
		if most := slices.Max(d.reads); most > readPiece {
			t.Errorf("%d bytes in one read", most)
		}
		s.ahead.Store(s.Size() / 2) // its reader arrives there
	}
	busy = true
	read(0)
	if !slices.Equal(d.switched, []bool{false}) || len(d.asked) > 0 {
		t.Errorf("while others need the disk: read-ahead was switched to %v, %v bytes were asked for", d.switched, d.asked)
	}
	busy = false
	read(6)
	if !slices.Equal(d.switched, []bool{false, true}) {
		t.Errorf("when the disk is free: read-ahead was switched to %v", d.switched)
	}
	n := 0
	d.before = func() {
		if n++; n == 5 {
			busy = true
		}
	}
	read(0)
	if !slices.Equal(d.switched, []bool{false, true, false}) || len(d.asked) > 0 {
		t.Errorf("others came during a read: read-ahead was switched to %v, %v bytes were asked for", d.switched, d.asked)
	}
}

func byteSlices(all []record.Batch) (list [][]byte) {
	for _, b := range all {
		list = append(list, b)
	}
	return list
}

// A read fills one buffer of PartBytes at most, so that the pool can keep it, unless the first
// batch is larger; what the caller allows decides whether that is returned.
func TestAReadFillsOneBufferOfThePool(t *testing.T) {
	big := string(make([]byte, PartBytes))
	var all []record.Batch
	for i := range int64(12) {
		all = append(all, batch(t, i, 1, 1000, big[:1<<20]))
	}
	all = append(all, batch(t, 12, 1, 1000, big))
	fs := memory(t)
	written(t, fs, 0, all)
	s := Open(NewFiles(fs, 10), testDir, 0, size(all))
	var pool bufpool.Pool
	for _, c := range []struct {
		at   int64
		max  int
		one  bool
		want int
	}{{0, 50 << 20, false, 7}, {0, 3 << 20, false, 2}, {7, 50 << 20, false, 5}, {12, 50 << 20, false, 1}, {12, PartBytes, false, 0},
		{12, PartBytes, true, 1}} {
		buf, b, err := s.ReadInto(&pool, c.at, 13, c.max, c.one)
		ok(t, err)
		if want := bytes.Join(byteSlices(all[c.at:c.at+int64(c.want)]), nil); !bytes.Equal(b, want) {
			t.Errorf("at %d with room for %d: %d bytes, want %d", c.at, c.max, len(b), len(want))
		}
		if buf != nil {
			buf.Release()
		}
	}
}
