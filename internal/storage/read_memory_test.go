package storage

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// ReadMemory returns what Read returns, or reports that it cannot, and never reads the disk.
func TestReadMemoryNeverReadsTheDisk(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 3, 100)
	must(t, l.flush())
	d.memory.evict(l, math.MaxInt64, 0)
	put(t, l, 2, 100)
	fault := disk.Add(errfs.Rule{Ops: errfs.Read | errfs.Open, Path: "/d/*-*/*", Err: errors.New("the disk was asked")})
	for offset, want := range map[int64]string{
		0: "disk", 2: "disk", 3: "2 offsets", 4: "1 offsets", 5: "nothing", 6: "out of range", -1: "out of range",
	} {
		s, ok, err := l.ReadMemory(offset, 1<<40, 1<<20, true)
		got := "nothing"
		switch {
		case errors.Is(err, ErrOffsetOutOfRange) && ok:
			got = "out of range"
		case err != nil:
			got = err.Error()
		case !ok:
			got = "disk"
		case s.Size > 0:
			got = fmt.Sprintf("%d offsets", 5-offset)
			same(t, l, offset, s)
		}
		s.Release()
		if got != want {
			t.Errorf("offset %d: %s, want %s", offset, got, want)
		}
	}
	if fault.Hits() > 0 {
		t.Errorf("the disk was asked %d times", fault.Hits())
	}
	disk.Clear()
	holds(t, l, 5)
}

// same fails the test unless Read also returns the bytes of a slice.
func same(t *testing.T, l *Log, offset int64, s Slice) {
	t.Helper()
	other, err := l.Read(offset, 1<<40, 1<<20, true)
	if err != nil || other.Size != s.Size || fmt.Sprint(other.Parts) != fmt.Sprint(s.Parts) {
		t.Errorf("offset %d: Read returns %d bytes, %v; ReadMemory %d", offset, other.Size, err, s.Size)
	}
	other.Release()
}
