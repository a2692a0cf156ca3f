package datadir

import (
	"maps"
	"testing"

	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A directory that is no longer there keeps its last path.
func TestPathsOfFormerDirectories(t *testing.T) {
	mem := vfs.Memory()
	must.OK(t, mem.MkdirAll("/data"))
	paths := func(dirs ...string) map[[16]byte]string {
		d := dirsOf(mem, dirs...)
		m, err := storage.Open(d.Locations(), storage.Options{FS: mem})
		must.OK(t, err)
		defer func() { must.OK(t, m.Close()) }()
		return d.Paths(m.Dirs())
	}
	first := paths("/one", "/two")
	must.OK(t, mem.RemoveAll("/two"))
	second := paths("/one", "/two")
	if len(first) != 2 || len(second) != 3 {
		t.Fatalf("%v, then %v", first, second)
	}
	for id, at := range first {
		if second[id] != at {
			t.Errorf("directory %x was in %s: %q", id, at, second[id])
		}
	}
	if third := paths("/one"); !maps.Equal(third, second) {
		t.Errorf("%v, then %v", second, third)
	}
}

func TestFormatOfPathsIsFixed(t *testing.T) {
	mem := vfs.Memory()
	must.OK(t, mem.MkdirAll("/data"))
	const text = "000102030405060708090a0b0c0d0e0f \"/a b\"\n"
	must.OK(t, statefile.Write(mem, "/data/log-dirs", "paths", 1, []byte(text)))
	id := [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	if got := dirsOf(mem).Paths(nil); len(got) != 1 || got[id] != "/a b" {
		t.Errorf("%v", got)
	}
}

func FuzzPaths(f *testing.F) {
	f.Add([]byte("000102030405060708090a0b0c0d0e0f \"/a\"\nx\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := vfs.Memory()
		must.OK(t, mem.MkdirAll("/data"))
		must.OK(t, statefile.Write(mem, "/data/log-dirs", pathsKind, pathsVersion, b))
		once := dirsOf(mem).Paths(nil)
		if again := dirsOf(mem).Paths(nil); len(once) > mostPaths || !maps.Equal(once, again) {
			t.Errorf("%v, then %v", once, again)
		}
	})
}
