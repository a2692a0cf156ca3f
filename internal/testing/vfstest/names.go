package vfstest

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
)

func exists(t testing.TB, f vfs.FS, name string) bool {
	t.Helper()
	_, err := f.Stat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func mkdirAll(t *testing.T, f vfs.FS, dir string) {
	ok(t, f.MkdirAll(dir+"/a/b/c"))
	ok(t, f.MkdirAll(dir+"/a/b"))
	ok(t, f.MkdirAll(dir+"/a/b/c"))
	if st, err := f.Stat(dir + "/a/b/c"); err != nil || !st.Dir {
		t.Errorf("Stat: %+v, %v", st, err)
	}
	Put(t, f, dir+"/a/file", "")
	wantErr(t, "MkdirAll over a file", f.MkdirAll(dir+"/a/file"), syscall.ENOTDIR)
	wantErr(t, "MkdirAll below a file", f.MkdirAll(dir+"/a/file/b"), syscall.ENOTDIR)
}

func remove(t *testing.T, f vfs.FS, dir string) {
	ok(t, f.MkdirAll(dir+"/d"))
	Put(t, f, dir+"/d/a", "x")
	wantErr(t, "Remove of a directory with a file", f.Remove(dir+"/d"), syscall.ENOTEMPTY)
	ok(t, f.Remove(dir+"/d/a"))
	ok(t, f.Remove(dir+"/d"))
	wantErr(t, "Remove of a missing file", f.Remove(dir+"/d"), fs.ErrNotExist)
	wantErr(t, "Remove in a missing directory", f.Remove(dir+"/d/a"), fs.ErrNotExist)
}

func removeAll(t *testing.T, f vfs.FS, dir string) {
	ok(t, f.MkdirAll(dir+"/d/e"))
	Put(t, f, dir+"/d/a", "x")
	Put(t, f, dir+"/d/e/b", "x")
	Put(t, f, dir+"/dd", "x")
	ok(t, f.RemoveAll(dir+"/d"))
	ok(t, f.RemoveAll(dir+"/d"))
	ok(t, f.RemoveAll(dir+"/d/e"))
	if exists(t, f, dir+"/d") || !exists(t, f, dir+"/dd") {
		t.Error("RemoveAll removed too little or too much")
	}
	ok(t, f.RemoveAll(dir+"/dd"))
	if exists(t, f, dir+"/dd") {
		t.Error("RemoveAll left a file")
	}
}

func longNames(t *testing.T, f vfs.FS, dir string) {
	longest, longer := dir+"/"+strings.Repeat("n", 255), dir+"/"+strings.Repeat("n", 256)
	Put(t, f, longest, "x")
	ok(t, f.Rename(longest, dir+"/a"))
	ok(t, f.Rename(dir+"/a", longest))
	_, err := f.Create(longer)
	wantErr(t, "Create", err, syscall.ENAMETOOLONG)
	_, err = f.Open(longer)
	wantErr(t, "Open", err, syscall.ENAMETOOLONG)
	_, err = f.Stat(longer)
	wantErr(t, "Stat", err, syscall.ENAMETOOLONG)
	wantErr(t, "Rename", f.Rename(longest, longer), syscall.ENAMETOOLONG)
	wantErr(t, "MkdirAll", f.MkdirAll(longer), syscall.ENAMETOOLONG)
	wantErr(t, "MkdirAll below", f.MkdirAll(longer+"/a"), syscall.ENAMETOOLONG)
	wantErr(t, "Remove", f.Remove(longer), syscall.ENAMETOOLONG)
	wantErr(t, "RemoveAll", f.RemoveAll(longer), syscall.ENAMETOOLONG)
	if exists(t, f, dir+"/a") || Get(t, f, longest) != "x" {
		t.Error("a refused call had an effect")
	}
}

func renameReplaces(t *testing.T, f vfs.FS, dir string) {
	Put(t, f, dir+"/new", "new")
	Put(t, f, dir+"/old", "old")
	ok(t, f.MkdirAll(dir+"/d"))
	ok(t, f.Rename(dir+"/new", dir+"/old"))
	if got := Get(t, f, dir+"/old"); got != "new" || exists(t, f, dir+"/new") {
		t.Errorf("after the rename: %q", got)
	}
	ok(t, f.Rename(dir+"/old", dir+"/old"))
	ok(t, f.Rename(dir+"/old", dir+"/d/moved"))
	if got := Get(t, f, dir+"/d/moved"); got != "new" || exists(t, f, dir+"/old") {
		t.Errorf("after the move: %q", got)
	}
}

func named(t *testing.T, f vfs.FS, dir string) {
	ok(t, f.MkdirAll(dir+"/d"))
	name := dir + "/d/a"
	Put(t, f, name, "x")
	h, err := f.Open(name)
	ok(t, err)
	want := func(after string, want bool) {
		t.Helper()
		if got, err := h.Named(); got != want || err != nil {
			t.Errorf("Named after %s: %v, %v", after, got, err)
		}
	}
	want("Open", true)
	ok(t, f.Rename(name, dir+"/b"))
	want("a rename", false)
	Put(t, f, name, "x")
	want("another file has the name", false)
	ok(t, f.Rename(dir+"/b", name))
	want("it was renamed back", true)
	ok(t, f.RemoveAll(dir+"/d"))
	want("the directory was removed", false)
	ok(t, h.Close())
	_, err = h.Named()
	wantErr(t, "Named of a closed file", err, fs.ErrClosed)
}

func renameDirectory(t *testing.T, f vfs.FS, dir string) {
	ok(t, f.MkdirAll(dir+"/a/b"))
	Put(t, f, dir+"/a/b/file", "x")
	ok(t, f.Rename(dir+"/a", dir+"/c"))
	if got := Get(t, f, dir+"/c/b/file"); got != "x" || exists(t, f, dir+"/a") {
		t.Errorf("after the rename: %q", got)
	}
}

func renameRefusals(t *testing.T, f vfs.FS, dir string) {
	ok(t, f.MkdirAll(dir+"/d/e"))
	ok(t, f.MkdirAll(dir+"/empty"))
	Put(t, f, dir+"/file", "x")
	for _, c := range []struct {
		from, to string
		want     error
	}{
		{"/missing", "/x", fs.ErrNotExist},
		{"/file", "/missing/x", fs.ErrNotExist},
		{"/file", "/d", fs.ErrExist},
		{"/d", "/empty", fs.ErrExist},
		{"/d", "/file", syscall.ENOTDIR},
		{"/d", "/d/e/f", syscall.EINVAL},
		{"/d", "/d/f", syscall.EINVAL},
	} {
		wantErr(t, "Rename "+c.from+" to "+c.to, f.Rename(dir+c.from, dir+c.to), c.want)
	}
	if !exists(t, f, dir+"/d/e") || !exists(t, f, dir+"/file") || !exists(t, f, dir+"/empty") {
		t.Error("a rejected rename moved something")
	}
}

func list(t *testing.T, f vfs.FS, dir string) {
	if got, err := f.List(dir); len(got) != 0 || err != nil {
		t.Errorf("List of an empty directory: %v, %v", got, err)
	}
	Put(t, f, dir+"/b", "four")
	Put(t, f, dir+"/c", "")
	Put(t, f, dir+"/B", "x")
	ok(t, f.MkdirAll(dir+"/a/below"))
	got, err := f.List(dir)
	ok(t, err)
	want := []vfs.Info{{Name: "B", Size: 1}, {Name: "a", Dir: true}, {Name: "b", Size: 4}, {Name: "c"}}
	if len(got) != len(want) {
		t.Fatalf("List: %+v, want %+v", got, want)
	}
	for i := range want {
		got[i].Modified = time.Time{}
		if got[i] != want[i] {
			t.Errorf("entry %d: %+v, want %+v", i, got[i], want[i])
		}
	}
	_, err = f.List(dir + "/missing")
	wantErr(t, "List of a missing directory", err, fs.ErrNotExist)
	_, err = f.List(dir + "/b")
	wantErr(t, "List of a file", err, syscall.ENOTDIR)
}

// modified checks that every change of a file advances its modification time, as soon as the
// system's clock, which may be coarse, has advanced.
func modified(t *testing.T, f vfs.FS, name string, since time.Time) {
	h, err := f.Open(name)
	ok(t, err)
	defer func() { ok(t, h.Close()) }()
	size := int64(4)
	changes := map[string]func() error{
		"write":    func() error { _, err := h.WriteAt([]byte("x"), 0); return err },
		"truncate": func() error { size++; return h.Truncate(size) },
	}
	for what, change := range changes {
		var st vfs.Info
		for begin := time.Now(); !st.Modified.After(since); time.Sleep(100 * time.Microsecond) {
			if ok(t, change()); time.Since(begin) > 10*time.Second {
				t.Fatalf("%s: last changed at %v, not later", what, st.Modified)
			}
			st, err = f.Stat(name)
			ok(t, err)
		}
		since = st.Modified
	}
}

func stat(t *testing.T, f vfs.FS, dir string) {
	Put(t, f, dir+"/a", "four")
	before, err := f.Stat(dir + "/a")
	if name, size := before.Name, before.Size; err != nil || name != "a" || size != 4 || before.Dir || before.Modified.IsZero() {
		t.Errorf("file: %+v, %v", before, err)
	}
	if again, err := f.Stat(dir + "/a"); err != nil || again != before {
		t.Errorf("file, again: %+v, %v", again, err)
	}
	modified(t, f, dir+"/a", before.Modified)
	then := time.UnixMilli(1_000_000_000_123)
	ok(t, f.SetModified(dir+"/a", then))
	if st, err := f.Stat(dir + "/a"); err != nil || !st.Modified.Equal(then) {
		t.Errorf("changed at %v, not at %v, %v", st.Modified, then, err)
	}
	modified(t, f, dir+"/a", then)
	wantErr(t, "SetModified of a missing file", f.SetModified(dir+"/missing", then), fs.ErrNotExist)
	ok(t, f.MkdirAll(dir+"/d"))
	if st, err := f.Stat(dir + "/d/"); err != nil || st != (vfs.Info{Name: "d", Dir: true}) {
		t.Errorf("directory: %+v, %v", st, err)
	}
	_, err = f.Stat(dir + "/missing")
	wantErr(t, "Stat of a missing file", err, fs.ErrNotExist)
}

func syncs(t *testing.T, f vfs.FS, dir string) {
	h := create(t, f, dir+"/a")
	write(t, h, "x", 0)
	ok(t, h.Datasync())
	ok(t, f.SyncDir(dir))
	wantErr(t, "SyncDir of a missing directory", f.SyncDir(dir+"/missing"), fs.ErrNotExist)
}

func lock(t *testing.T, f vfs.FS, dir string) {
	held, err := f.Lock(dir+"/.lock", "a long holder: pid 1234567890\n")
	ok(t, err)
	ok(t, held.Close())
	if held.Close() == nil {
		t.Error("a lock can be released twice")
	}
	held, err = f.Lock(dir+"/.lock", "pid 42")
	ok(t, err)
	_, err = f.Lock(dir+"/.lock", "pid 43")
	wantErr(t, "Lock of a held lock", err, vfs.ErrLocked)
	if err != nil && (!strings.Contains(err.Error(), "(pid 42)") || !strings.Contains(err.Error(), dir+"/.lock")) {
		t.Errorf("the error does not name the holder and the file: %v", err)
	}
	other, err := f.Lock(dir+"/.lock2", "pid 43")
	ok(t, err)
	ok(t, other.Close())
	ok(t, held.Close())
	if got := Get(t, f, dir+"/.lock"); got != "pid 42" {
		t.Errorf("the lock file holds %q", got)
	}
	_, err = f.Lock(dir+"/missing/.lock", "pid 44")
	wantErr(t, "Lock in a missing directory", err, fs.ErrNotExist)
	_, err = f.Lock(dir, "pid 44")
	wantErr(t, "Lock of a directory", err, syscall.EISDIR)
}

func free(t *testing.T, f vfs.FS, dir string) {
	available, total, err := f.Free(dir)
	if err != nil || total == 0 || available > total {
		t.Errorf("Free: %d of %d, %v", available, total, err)
	}
	_, _, err = f.Free(dir + "/missing")
	wantErr(t, "Free of a missing directory", err, fs.ErrNotExist)
}
