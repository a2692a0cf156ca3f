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
	f.d.reads = append(f.d.reads, int64(len(p)))
	return f.File.ReadAt(p, off)
}

func (f patientFile) StartRead(_, n int64) { f.d.asked = append(f.d.asked, n) }

func (f patientFile) SetReadAhead(on bool) { f.d.switched = append(f.d.switched, on) }

// While others use the disk, a large read never has more than a small piece in flight: the system
// reads nothing ahead, neither on its own nor on request. It does again when the disk is free. The
// read asks about the others before every piece.
func TestLargeReadsYieldTheDisk(t *testing.T) {
	var all []record.Batch
	for i := range int64(20) {
		all = append(all, batch(t, i, 1, 1000, string(make([]byte, 300<<10))))
	}
	fs := memory(t)
	written(t, fs, 0, all)
	d := &patientDisk{FS: fs}
	files := NewFiles(d, 10)
	questions, busyAt := 0, 0 // the others come with this question
	files.YieldTo(func() bool { questions++; return questions >= busyAt })
	s := Open(files, testDir, 0, size(all))
	var pool bufpool.Pool
	small := slices.Repeat([]int64{readPiece}, freePiece/readPiece)
	for _, c := range []struct {
		name     string
		at       int64
		busyAt   int
		reads    []int64
		switched []bool
		ahead    bool
	}{
		{"others use the disk", 0, 0, append(small, small...), []bool{false}, false},
		{"the disk is free", 6, 100, []int64{freePiece, freePiece}, []bool{true}, true},
		{"others come during the read", 0, 2, append([]int64{freePiece}, small...), []bool{false}, false},
	} {
		s.ahead.Store(size(all[:c.at]) + aheadLeast) // the reader arrives where it was read ahead
		*d, questions, busyAt = patientDisk{FS: fs}, 0, c.busyAt
		buf, b, err := s.ReadInto(&pool, c.at, 20, aheadLeast, true)
		ok(t, err)
		if want := bytes.Join(byteSlices(all[c.at:c.at+6]), nil); !bytes.Equal(b, want) {
			t.Fatalf("%s: %d bytes, want %d", c.name, len(b), len(want))
		}
		buf.Release()
		d.reads = slices.DeleteFunc(d.reads, func(n int64) bool { return n < readPiece }) // of the index
		if !slices.Equal(d.reads, c.reads) {
			t.Errorf("%s: reads of %v bytes, want %v", c.name, d.reads, c.reads)
		}
		if !slices.Equal(d.switched, c.switched) || len(d.asked) > 0 != c.ahead {
			t.Errorf("%s: read-ahead was switched to %v, and %v bytes were asked for", c.name, d.switched, d.asked)
		}
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
	for i := range int64(9) {
		all = append(all, batch(t, i, 1, 1000, big[:1<<20]))
	}
	all = append(all, batch(t, 9, 1, 1000, big))
	fs := memory(t)
	written(t, fs, 0, all)
	s := Open(NewFiles(fs, 10), testDir, 0, size(all))
	var pool bufpool.Pool
	for _, c := range []struct {
		at   int64
		max  int
		one  bool
		want int
	}{{0, 50 << 20, false, 7}, {0, 3 << 20, false, 2}, {7, 50 << 20, false, 2}, {9, 50 << 20, false, 1}, {9, PartBytes, false, 0},
		{9, PartBytes, true, 1}} {
		buf, b, err := s.ReadInto(&pool, c.at, 10, c.max, c.one)
		ok(t, err)
		if want := bytes.Join(byteSlices(all[c.at:c.at+int64(c.want)]), nil); !bytes.Equal(b, want) {
			t.Errorf("at %d with room for %d: %d bytes, want %d", c.at, c.max, len(b), len(want))
		}
		if buf != nil {
			buf.Release()
		}
	}
}
