// Package vfstest tests the behavior that all implementations of vfs.FS have in common.
//
// A file system that passes Run can replace another one as long as nothing crashes and no fault is
// injected. The tests of vfs, crashfs and errfs call it; it knows none of them.
package vfstest

import (
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Run tests the file systems that make returns: each call returns an FS and the name of an
// existing, empty directory in it.
func Run(t *testing.T, make func(t *testing.T) (vfs.FS, string)) {
	for _, c := range []struct {
		name string
		test func(*testing.T, vfs.FS, string)
	}{
		{"CreateNeedsAFreeName", createNeedsAFreeName},
		{"OpenNeedsAFile", openNeedsAFile},
		{"ReadsEndWithEOF", readsEndWithEOF},
		{"WritesBeyondTheEndLeaveZeros", writesBeyondTheEnd},
		{"WriteVecIsOneWriteAfterTheOther", writeVec},
		{"TruncateCutsAndExtends", truncate},
		{"AllocateOnlyExtends", allocate},
		{"NegativePositionsAreRefused", negativePositions},
		{"ClosedFilesAreRefused", closedFiles},
		{"AnOpenFileOutlivesItsName", openFileOutlivesItsName},
		{"TwoHandlesSeeOneFile", twoHandles},
		{"MkdirAllMakesWhatIsMissing", mkdirAll},
		{"RemoveTakesFilesAndEmptyDirectories", remove},
		{"RemoveAllTakesAll", removeAll},
		{"RenameReplacesAFile", renameReplaces},
		{"RenameMovesADirectory", renameDirectory},
		{"RenameRefusals", renameRefusals},
		{"NamedUntilItMoves", named},
		{"NamesHaveAtMost255Bytes", longNames},
		{"ListIsSorted", list},
		{"StatDescribes", stat},
		{"SyncsOfWhatExists", syncs},
		{"LockNamesItsHolder", lock},
		{"FreeIsWithinTotal", free},
		{"DisjointRangesConcurrently", concurrent},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, dir := make(t)
			c.test(t, f, dir)
		})
	}
}

// Put creates a file with the given content.
func Put(t testing.TB, f vfs.FS, name, content string) {
	t.Helper()
	h, err := f.Create(name)
	ok(t, err)
	_, err = h.WriteAt([]byte(content), 0)
	ok(t, err)
	ok(t, h.Close())
}

// Get returns the content of a file.
func Get(t testing.TB, f vfs.FS, name string) string {
	t.Helper()
	h, err := f.Open(name)
	ok(t, err)
	defer func() { ok(t, h.Close()) }()
	return content(t, h)
}

func content(t testing.TB, h vfs.File) string {
	t.Helper()
	size, err := h.Size()
	ok(t, err)
	p := make([]byte, size)
	if n, err := h.ReadAt(p, 0); int64(n) != size || err != nil {
		t.Fatalf("ReadAt of %d bytes: %d, %v", size, n, err)
	}
	return string(p)
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want one that is %v", what, err, want)
	}
}

func wantContent(t testing.TB, h vfs.File, want string) {
	t.Helper()
	if got := content(t, h); got != want {
		t.Errorf("%s holds %q, want %q", h.Name(), got, want)
	}
}

func create(t testing.TB, f vfs.FS, name string) vfs.File {
	t.Helper()
	h, err := f.Create(name)
	ok(t, err)
	t.Cleanup(func() {
		if err := h.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
			t.Errorf("close %s: %v", name, err)
		}
	})
	return h
}

func write(t testing.TB, h vfs.File, p string, off int64) {
	t.Helper()
	if n, err := h.WriteAt([]byte(p), off); n != len(p) || err != nil {
		t.Fatalf("WriteAt %d bytes at %d: %d, %v", len(p), off, n, err)
	}
}

func readsEndWithEOF(t *testing.T, f vfs.FS, dir string) {
	h := create(t, f, dir+"/a")
	write(t, h, "0123456789", 0)
	for _, c := range []struct {
		off  int64
		len  int
		want string
		err  error
	}{
		{0, 10, "0123456789", nil}, {0, 11, "0123456789", io.EOF}, {8, 2, "89", nil}, {8, 3, "89", io.EOF},
		{10, 1, "", io.EOF}, {1 << 40, 1, "", io.EOF}, {3, 0, "", nil},
	} {
		p := make([]byte, c.len)
		n, err := h.ReadAt(p, c.off)
		if string(p[:n]) != c.want || err != c.err { //nolint:errorlint // io.ReaderAt: io.EOF itself
			t.Errorf("ReadAt(%d bytes, %d) = %q, %v; want %q, %v", c.len, c.off, p[:n], err, c.want, c.err)
		}
	}
}
