package vfs_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/vfstest"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A read-only view can read everything and change nothing.
func TestReadOnlyChangesNothing(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"os": vfs.OS(), "memory": vfs.Memory()} {
		dir := filepath.Join(t.TempDir(), "d")
		must.OK(t, fsys.MkdirAll(dir))
		file := dir + "/f"
		vfstest.Put(t, fsys, file, "content")
		view := vfs.ReadOnly(fsys)
		if got := vfstest.Get(t, view, file); got != "content" {
			t.Errorf("%s: read %q", name, got)
		}
		f, err := view.Open(file)
		must.OK(t, err)
		_, create := view.Create(dir + "/g")
		_, write := f.WriteAt([]byte("x"), 0)
		_, vec := f.WriteVecAt([][]byte{{'x'}}, 0)
		for what, err := range map[string]error{
			"create": create, "write": write, "vec": vec, "sync": f.Datasync(), "allocate": f.Allocate(0, 100), "truncate": f.Truncate(0),
			"mkdir": view.MkdirAll(dir + "/h"), "remove": view.Remove(file), "remove all": view.RemoveAll(dir),
			"rename": view.Rename(file, file+"2"), "syncdir": view.SyncDir(dir), "chtimes": view.SetModified(file, time.Now()),
		} {
			if !errors.Is(err, syscall.EROFS) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if got := vfstest.Get(t, fsys, file); got != "content" {
			t.Errorf("%s: the file is now %q", name, got)
		}
	}
}

// The lock of a view excludes writers and is excluded by them, and writes nothing.
func TestReadOnlyLock(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"os": vfs.OS(), "memory": vfs.Memory()} {
		dir := filepath.Join(t.TempDir(), "d")
		must.OK(t, fsys.MkdirAll(dir))
		file, view := dir+"/.lock", vfs.ReadOnly(fsys)
		none, err := view.Lock(file, "reader")
		must.OK(t, err)
		if _, err := fsys.Stat(file); err == nil {
			t.Errorf("%s: the view created a lock file", name)
		}
		if err := none.Close(); err != nil {
			t.Error(err)
		}
		held, err := fsys.Lock(file, "pid 17")
		must.OK(t, err)
		if _, err := view.Lock(file, "reader"); !errors.Is(err, vfs.ErrLocked) {
			t.Errorf("%s: with a writer: %v", name, err)
		}
		if err := held.Close(); err != nil {
			t.Error(err)
		}
		shared, err := view.Lock(file, "reader")
		must.OK(t, err)
		if _, err := fsys.Lock(file, "pid 18"); !errors.Is(err, vfs.ErrLocked) {
			t.Errorf("%s: a writer with a reader: %v", name, err)
		}
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
		if got := vfstest.Get(t, fsys, file); got != "pid 17" {
			t.Errorf("%s: the lock file holds %q", name, got)
		}
	}
}
