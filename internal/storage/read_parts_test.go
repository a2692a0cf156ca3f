package storage

import (
	"bytes"
	"math"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// long returns a log of n batches of about 1 MiB in one segment, and none in memory.
func long(t *testing.T, fsys vfs.FS, n int) *Log {
	d := mustOpen(t, fsys, "sync", func(o *Options) { o.JournalFileSize, o.JournalBytes, o.DeferredBytes = 16<<20, 96<<20, 64<<20 })
	l := makeLogs(t, d, 1, "sync")[0]
	cfg := l.Config()
	cfg.Segment.Bytes = 1 << 30
	l.Configure(cfg)
	put(t, l, n, 1<<20)
	synced(t, l)
	must(t, l.flush())
	d.memory.evictCached([]*Log{l})
	return l
}

// A large read from the disk returns buffers that the pool keeps, and the batches that one buffer
// would hold: those that fit in the caller's bytes and begin below its limit.
func TestALargeReadHasManyParts(t *testing.T) {
	l := long(t, vfs.Memory(), 15)
	one, err := l.Read(0, 1, 1, true)
	must(t, err)
	size := one.Size
	one.Release()
	for _, c := range []struct {
		limit int64
		max   int
		parts int
		want  int
	}{
		{math.MaxInt64, 50 << 20, 3, 15},
		{math.MaxInt64, 10*size - 1, 2, 9},
		{9, 50 << 20, 2, 9},
		{math.MaxInt64, segment.PartBytes, 1, 7},
		{math.MaxInt64, size, 1, 1},
	} {
		s, err := l.Read(0, c.limit, c.max, false)
		if err != nil || len(s.Parts) != c.parts || s.Size != c.want*size {
			t.Errorf("below %d with room for %d: %d parts of %d bytes, %v; want %d of %d", c.limit, c.max, len(s.Parts), s.Size, err,
				c.parts, c.want*size)
		}
		want := make([]int64, c.want)
		for i := range want {
			want[i] = int64(i)
		}
		if got := bases(s); !slices.Equal(got, want) {
			t.Errorf("below %d with room for %d: %v", c.limit, c.max, got)
		}
	}
	if n := l.dir.memory.pool.Outstanding(); n != 0 {
		t.Errorf("%d buffers were not released", n)
	}
}

// A large read returns what precedes a fault of the disk; the next one meets the fault first.
func TestALargeReadEndsBeforeAFault(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	l := long(t, disk, 15)
	disk.Add(errfs.Rule{Ops: errfs.Read, Path: "/d/*-*/*.log", When: func(c errfs.Call) bool { return c.Off+c.Len > 12<<20 },
		Err: syscall.EIO})
	s, err := l.Read(0, math.MaxInt64, 50<<20, true)
	if err != nil || len(s.Parts) != 1 {
		t.Fatalf("%d parts, %v", len(s.Parts), err)
	}
	if got := bases(s); len(got) != 7 {
		t.Errorf("read %v", got)
	}
	if n := l.dir.memory.pool.Outstanding(); n != 0 {
		t.Errorf("%d buffers were not released", n)
	}
}

// A large read never returns batches of a log before and after it was truncated: the parts that
// were read after it are dropped.
func TestALargeReadMixesNoHistories(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	l := long(t, disk, 15)
	var once sync.Once
	disk.Add(errfs.Rule{Ops: errfs.Read, Path: "/d/*-*/*.log", Before: func(c errfs.Call) {
		if c.Off > 9<<20 { // during the second part
			once.Do(func() {
				l.mu.Lock()
				l.cuts++ // as a truncation does, whose records are in memory now
				l.mu.Unlock()
			})
		}
	}})
	s, err := l.Read(0, math.MaxInt64, 50<<20, true)
	if err != nil || len(s.Parts) != 1 {
		t.Fatalf("%d parts, %v", len(s.Parts), err)
	}
	if got := bases(s); len(got) != 7 {
		t.Errorf("read %v", got)
	}
}

// aheadFS records how the read-ahead of segments is switched.
type aheadFS struct {
	vfs.FS
	mu       sync.Mutex
	switched []bool
}

type aheadFile struct {
	vfs.File
	fs *aheadFS
}

func (f *aheadFS) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return aheadFile{file, f}, nil
}

func (f *aheadFS) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return aheadFile{file, f}, nil
}

func (f aheadFile) SetReadAhead(on bool) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.switched = append(f.fs.switched, on)
}

// Reads yield the disk to the journal from its first write on, and until it has not written for a
// while.
func TestReadsYieldTheDiskToTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // reads take none of that while
		f := &aheadFS{FS: vfs.Memory()}
		l := long(t, f, 2)
		read := func(want ...bool) {
			t.Helper()
			s, err := l.Read(0, math.MaxInt64, 1<<20, true)
			must(t, err)
			s.Release()
			if !slices.Equal(f.switched, want) {
				t.Errorf("read-ahead was switched to %v, want %v", f.switched, want)
			}
		}
		read() // only large entries were written
		logs, err := l.dir.Create([]Spec{{ID: ID{Topic: [16]byte{2}}, Topic: "u", Config: testConfig("sync")}})
		must(t, err)
		put(t, lead(logs...)[0], 1, 10)
		read(false)
		read(false)
		time.Sleep(time.Second)
		read(false, true)
	})
}

// lastOf returns the last of several batches.
func TestTheLastOfBatches(t *testing.T) {
	a, b := testBatch(t, 10, nil), testBatch(t, 20, nil)
	for _, c := range []struct {
		in   [][]byte
		want []byte
	}{{[][]byte{a}, a}, {[][]byte{a, b}, b}, {[][]byte{b, b, a}, a}} {
		if got := lastOf(bytes.Join(c.in, nil)); !bytes.Equal(got, record.Batch(c.want)) {
			t.Errorf("%d bytes, want %d", len(got), len(c.want))
		}
	}
}
