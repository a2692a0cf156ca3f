package segment

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// slowDisk is a file system whose files are read more slowly than memory, and which records the
// read-ahead requests.
type slowDisk struct {
	vfs.FS
	asked *[][2]int64
}

type slowFile struct {
	vfs.File
	asked *[][2]int64
}

func (d slowDisk) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	return slowFile{f, d.asked}, err
}

func (f slowFile) ReadAt(p []byte, off int64) (int, error) {
	time.Sleep(time.Duration(len(p)) / aheadPace)
	return f.File.ReadAt(p, off)
}

func (f slowFile) StartRead(off, n int64) { *f.asked = append(*f.asked, [2]int64{off, off + n}) }

// For a reader that reads a segment from the disk in large pieces, the following bytes are read
// ahead, each byte once and none beyond the end. For small reads nothing is read ahead.
func TestLargeReadsFromTheDiskAreReadAhead(t *testing.T) {
	const n = 40
	var all []record.Batch
	for i := range int64(n) {
		all = append(all, batch(t, i, 1, 1000, string(make([]byte, 300<<10))))
	}
	fs, size := memory(t), size(all)
	written(t, fs, 0, all)
	for _, c := range []struct {
		max  int
		want bool
	}{{aheadLeast, true}, {aheadLeast / 4, false}} {
		var asked [][2]int64
		s := Open(NewFiles(slowDisk{fs, &asked}, 10), testDir, 0, size)
		var pool bufpool.Pool
		for at := int64(0); at < n; {
			buf, b, err := s.ReadInto(&pool, at, n, c.max, true)
			ok(t, err)
			at += int64(len(b)) / (size / n)
			buf.Release()
		}
		if !c.want {
			if len(asked) > 0 {
				t.Errorf("reads of %d bytes: %v was read ahead", c.max, asked)
			}
			continue
		}
		end := int64(c.max)
		for _, a := range asked {
			if a[0] != end || a[1] <= a[0] || a[1] > size {
				t.Fatalf("of %d bytes, read %d at a time, %v was read ahead", size, c.max, asked)
			}
			end = a[1]
		}
		if end != size {
			t.Errorf("read ahead up to %d of %d: %v", end, size, asked)
		}
	}
}
