package storage

import (
	"runtime"
	"testing"
	"weak"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// A directory that was closed needs no memory: one collection frees it, although buffers that it
// used are kept for two.
func TestAClosedDirectoryIsFreed(t *testing.T) {
	d := func() weak.Pointer[Dir] {
		d, err := openDir(crashfs.New(1), "sync")
		must(t, err)
		l := makeLogs(t, d, 1, "sync")[0]
		put(t, l, 10, 1000)
		must(t, l.flush())
		holds(t, l, 10)
		must(t, d.Close())
		return weak.Make(d)
	}()
	runtime.GC()
	if d.Value() != nil {
		t.Error("it is still in memory")
	}
}
