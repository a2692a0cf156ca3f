package storage

import (
	"testing"

	"github.com/chronik-io/chronik/internal/vfs"
)

// However much goes through a directory's memory, each log keeps its newest
// records there, where the readers that follow it are.
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
			if err := l.flush(); err != nil {
				t.Fatal(err)
			}
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
