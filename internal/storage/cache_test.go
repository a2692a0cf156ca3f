package storage

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
)

// However much data passes through a directory's memory, each log keeps its newest records there,
// where the readers at its end find them.
func TestEveryLogKeepsTheEndOfItsTail(t *testing.T) {
	const bound, size = 1 << 20, 8 << 10
	d := mustOpen(t, vfs.Memory(), "sync", func(o *Options) {
		o.JournalFileSize, o.JournalBytes, o.DeferredBytes = 4<<20, 16<<20, bound
	})
	logs := makeLogs(t, d, 3, "sync")
	for range 60 {
		for i, l := range logs {
			put(t, l, 4<<i, size)
		}
		for _, l := range logs {
			must(t, l.flush())
		}
		if n := d.memory.deferred.Load() + d.memory.cached.Load(); n > bound {
			t.Fatalf("%d bytes in memory, at most %d are allowed", n, bound)
		}
	}
	var cached int64
	for i, l := range logs {
		start, ok := l.tail.start()
		if end := l.Ends().LogEnd; !ok || end-start < 4 {
			t.Errorf("log %d: memory begins at %d (%v), the log ends at %d", i, start, ok, end)
		}
		cached += l.logEnd.Load() - start
		holds(t, l, 60*4<<i)
	}
	if cached < bound/size*3/4 {
		t.Errorf("%d records are in memory, %d have room", cached, bound/size)
	}
	d.memory.evictAll(logs)
	if n := d.memory.deferred.Load() + d.memory.cached.Load(); n != 0 {
		t.Errorf("%d bytes are still accounted for", n)
	}
}

// onceFS counts how segments are written.
type onceFS struct {
	vfs.FS
	once, kept atomic.Int64 // bytes
}

type onceFile struct {
	vfs.File
	fs *onceFS
}

func (f *onceFS) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(file.Name(), ".log") {
		return file, err
	}
	return &onceFile{file, f}, nil
}

func (f *onceFS) Open(name string) (vfs.File, error)   { return f.wrap(f.FS.Open(name)) }
func (f *onceFS) Create(name string) (vfs.File, error) { return f.wrap(f.FS.Create(name)) }

func (f *onceFile) WriteVecUncached(bufs [][]byte, off int64) (int, error) {
	n, err := f.File.WriteVecAt(bufs, off)
	f.fs.once.Add(int64(n))
	return n, err
}

func (f *onceFile) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	n, err := f.File.WriteVecAt(bufs, off)
	f.fs.kept.Add(int64(n))
	return n, err
}

// A bulk load bypasses the page cache if its readers, if any, are served from the tail. Small
// writes do not, nor do writes that a lagging reader will need.
func TestABulkLoadBypassesThePageCache(t *testing.T) {
	f := &onceFS{FS: vfs.Memory()}
	const bound, size, n = 2 << 20, 16 << 10, 64
	d := mustOpen(t, f, "sync", func(o *Options) {
		o.JournalFileSize, o.JournalBytes, o.DeferredBytes = 4<<20, 16<<20, bound
	})
	l := makeLogs(t, d, 1, "sync")[0]
	// Every write counts as a bulk load now.
	d.turnover.memory, d.turnover.since = 1, time.Now().Add(-time.Second)
	wrote := func(records, size int) (once, kept int64) {
		t.Helper()
		once, kept = f.once.Load(), f.kept.Load()
		l.flushMu.Lock() // prevents flushes meanwhile
		put(t, l, records, size)
		err := l.flushLocked()
		l.flushMu.Unlock()
		must(t, err)
		return f.once.Load() - once, f.kept.Load() - kept
	}
	wrote(1, 100) // after that the rate is known
	if once, kept := wrote(n, size); once < n*size*3/4 || once+kept < n*size {
		t.Errorf("nobody reads: %d bytes were written once, %d to be kept", once, kept)
	}
	if s, err := l.Read(l.Ends().LogEnd-3, 1<<40, 1, true); err != nil || s.Size == 0 {
		t.Fatal(err)
	} else {
		s.Release()
	}
	if once, kept := wrote(n, size); once < n*size*3/4 {
		t.Errorf("a reader of the tail: %d bytes were written once, %d to be kept", once, kept)
	}
	if once, kept := wrote(1, 100); once != 0 || kept == 0 {
		t.Errorf("a small write: %d bytes were written once, %d to be kept", once, kept)
	}
	d.memory.evict(l, 1<<40, 0)
	if s, err := l.Read(0, 1<<40, 1, true); err != nil || s.Size == 0 {
		t.Fatal(err)
	} else {
		s.Release()
	}
	if once, kept := wrote(n, size); once != 0 || kept < n*size {
		t.Errorf("a reader behind the tail: %d bytes were written once, %d to be kept", once, kept)
	}
	if now := time.Now(); !l.lagging(now) || l.lagging(now.Add(lagWindow)) {
		t.Error("a reader behind the tail is not remembered for a while")
	}
	holds(t, l, 3*n+2)
}
