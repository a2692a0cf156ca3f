package crashfs

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/vfstest"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestKeepsTheContractOfAFileSystem(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return withDir(t), "/d" })
}

// The image after a crash is a file system like any other.
func TestImagesKeepTheContractOfAFileSystem(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return withDir(t).Kill(), "/d" })
	for _, m := range Modes() {
		vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return withDir(t).PowerLoss(m), "/d" })
	}
}

// withDir returns a file system with a durable directory /d.
func withDir(t testing.TB) *FS {
	t.Helper()
	f := New(1)
	ok(t, f.MkdirAll("/d"))
	ok(t, f.SyncDir("/"))
	return f
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, f *FS, name string) vfs.File {
	t.Helper()
	h, err := f.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		h, err = f.Create(name)
	}
	ok(t, err)
	return h
}

func write(t testing.TB, h vfs.File, p string, off int64) {
	t.Helper()
	_, err := h.WriteAt([]byte(p), off)
	ok(t, err)
}

func has(t testing.TB, f *FS, name string) bool {
	t.Helper()
	_, err := f.Stat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// put creates a file that is durable together with its name.
func put(t testing.TB, f *FS, name, content string) vfs.File {
	t.Helper()
	h := open(t, f, name)
	write(t, h, content, 0)
	ok(t, h.Datasync())
	ok(t, f.SyncDir("/d"))
	return h
}

func TestADeadProcessCanDoNothing(t *testing.T) {
	f := withDir(t)
	h := put(t, f, "/d/a", "x")
	l, err := f.Lock("/d/.lock", "pid 1")
	ok(t, err)
	next := f.Kill()
	for what, call := range map[string]func() error{
		"Open":     func() error { _, err := f.Open("/d/a"); return err },
		"Create":   func() error { _, err := f.Create("/d/b"); return err },
		"MkdirAll": func() error { return f.MkdirAll("/d") },
		"Remove":   func() error { return f.Remove("/d/a") }, "RemoveAll": func() error { return f.RemoveAll("/d/a") },
		"Rename": func() error { return f.Rename("/d/a", "/d/b") }, "SyncDir": func() error { return f.SyncDir("/d") },
		"List": func() error { _, err := f.List("/d"); return err }, "Stat": func() error { _, err := f.Stat("/d"); return err },
		"Lock": func() error { _, err := f.Lock("/d/l", ""); return err },
		"Free": func() error { _, _, err := f.Free("/d"); return err },
		"Read": func() error { _, err := h.ReadAt(make([]byte, 1), 0); return err }, "Unlock": l.Close,
		"Write": func() error { _, err := h.WriteAt([]byte("y"), 0); return err }, "Datasync": h.Datasync,
		"Truncate": func() error { return h.Truncate(0) }, "Allocate": func() error { return h.Allocate(0, 9) },
		"Size": func() error { _, err := h.Size(); return err }, "Close": h.Close,
	} {
		if err := call(); !errors.Is(err, ErrCrashed) {
			t.Errorf("%s after the crash: %v", what, err)
		}
	}
	if got := vfstest.Get(t, next, "/d/a"); got != "x" || !f.Crashed() || next.Crashed() {
		t.Errorf("the next process reads %q", got)
	}
	l, err = next.Lock("/d/.lock", "pid 2")
	if err != nil {
		t.Errorf("the lock of a dead process is still held: %v", err)
	}
	ok(t, l.Close())
}

func TestCrashAtStopsAfterExactlyNCalls(t *testing.T) {
	// The calls that Ops counts, one on each line.
	workload := func(f *FS) (done int, err error) {
		var h vfs.File
		for _, call := range []func() error{
			func() error { return f.MkdirAll("/a") },
			func() error { h, err = f.Create("/a/x"); return err },
			func() error { _, err := h.WriteAt([]byte("0123"), 4); return err },
			func() error { return h.Allocate(0, 100) },
			func() error { return h.Truncate(50) },
			func() error { return h.Datasync() },
			func() error { return f.Rename("/a/x", "/a/y") },
			func() error { return f.SyncDir("/a") },
			func() error { return f.Remove("/a/y") },
		} {
			if err := call(); err != nil {
				return done, err
			}
			done++
		}
		return done, nil
	}
	whole := New(1)
	whole.SetTrace(true)
	if done, err := workload(whole); done != 9 || err != nil {
		t.Fatal(done, err)
	}
	want := []string{
		"mkdir /a", "create /a/x", "write /a/x 4+4", "allocate /a/x 0+100", "truncate /a/x 50",
		"datasync /a/x", "rename /a/x /a/y", "syncdir /a", "remove /a/y",
	}
	if got := whole.Trace(); !slices.Equal(got, want) {
		t.Errorf("trace\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if whole.Ops() != 9 || whole.Syncs() != 1 || whole.DirSyncs() != 1 {
		t.Errorf("%d ops, %d syncs, %d of directories", whole.Ops(), whole.Syncs(), whole.DirSyncs())
	}
	for n := range 9 {
		f := New(1)
		f.CrashAt(n)
		if done, err := workload(f); done != n || !errors.Is(err, ErrCrashed) {
			t.Errorf("CrashAt(%d): %d calls were made, then %v", n, done, err)
		}
		if f.Ops() != n {
			t.Errorf("CrashAt(%d): %d ops", n, f.Ops())
		}
		f = New(uint64(n))
		f.CrashDuring(n + 1)
		if done, err := workload(f); done != n || !errors.Is(err, ErrCrashed) {
			t.Errorf("CrashDuring(%d): %d calls were made, then %v", n+1, done, err)
		}
	}
}

func TestCrashDuringAWriteLeavesAnyPartOfIt(t *testing.T) {
	sizes := map[int]bool{}
	for seed := range uint64(200) {
		f := New(seed)
		h := open(t, f, "/a")
		f.CrashDuring(2)
		if _, err := h.WriteAt([]byte("0123456789"), 0); !errors.Is(err, ErrCrashed) {
			t.Fatal(err)
		}
		got := vfstest.Get(t, f.Kill(), "/a")
		if whole := "0123456789"; whole[:min(len(got), len(whole))] != got {
			t.Fatalf("left %q", got)
		}
		sizes[len(got)] = true
	}
	if len(sizes) != 11 {
		t.Errorf("only these sizes were seen: %v", sizes)
	}
}

func TestWriteVecIsACallForEveryIovMaxPieces(t *testing.T) {
	f := New(1)
	h := open(t, f, "/a")
	bufs := make([][]byte, 2*iovMax+1)
	for i := range bufs {
		bufs[i] = []byte("x")
	}
	f.CrashAt(3)
	n, err := h.WriteVecAt(bufs, 0)
	if n != 2*iovMax || !errors.Is(err, ErrCrashed) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestASyncCoversWhatWasWrittenBeforeItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := withDir(t)
		h := put(t, f, "/d/a", "..")
		f.SetSyncLatency(time.Second)
		write(t, h, "1", 0)
		start := time.Now()
		done := make(chan error)
		go func() { done <- h.Datasync() }()
		synctest.Wait()
		write(t, h, "2", 1)
		ok(t, <-done)
		if took := time.Since(start); took != time.Second {
			t.Errorf("the sync took %v", took)
		}
		if got := vfstest.Get(t, f.PowerLossImage(DropUnsynced, 1), "/d/a"); got != "1." {
			t.Errorf("durable is %q", got)
		}
		ok(t, h.Datasync())
		if got := vfstest.Get(t, f.PowerLossImage(DropUnsynced, 1), "/d/a"); got != "12" {
			t.Errorf("durable is %q", got)
		}
	})
}

func TestACrashDuringASyncFailsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := withDir(t)
		h := put(t, f, "/d/a", ".")
		f.SetSyncLatency(time.Second)
		write(t, h, "1", 0)
		done := make(chan error)
		go func() { done <- h.Datasync() }()
		synctest.Wait()
		image := f.PowerLoss(DropUnsynced)
		if err := <-done; !errors.Is(err, ErrCrashed) {
			t.Errorf("the sync returned %v", err)
		}
		if got := vfstest.Get(t, image, "/d/a"); got != "." {
			t.Errorf("durable is %q", got)
		}
	})
}

func TestOneSeedIsOneImage(t *testing.T) {
	build := func(seed uint64) string {
		f := New(seed)
		ok(t, f.MkdirAll("/d"))
		for _, name := range []string{"a", "b", "c", "e"} {
			h := open(t, f, "/d/"+name)
			for i := range int64(20) {
				write(t, h, strings.Repeat(name, 700), i*600)
			}
		}
		return dump(t, f.PowerLoss(KeepSectors))
	}
	images := map[string]bool{}
	for seed := range uint64(20) {
		first := build(seed)
		if build(seed) != first {
			t.Fatalf("seed %d gives two images", seed)
		}
		images[first] = true
	}
	if len(images) < 5 {
		t.Errorf("20 seeds give %d images", len(images))
	}
}

// dump returns the whole content of a file system.
func dump(t testing.TB, f *FS) string {
	var s strings.Builder
	var walk func(dir string)
	walk = func(dir string) {
		list, err := f.List(dir)
		ok(t, err)
		for _, e := range list {
			name := dir + "/" + e.Name
			s.WriteString(name + "\n")
			if e.Dir {
				walk(name)
			} else {
				s.WriteString(vfstest.Get(t, f, name) + "\n")
			}
		}
	}
	walk("/")
	return s.String()
}

// What a power loss may change begins at the first byte that was written, or that a change of the
// size added or removed, since the last sync, or that was dropped.
func TestUnsynced(t *testing.T) {
	f := New(1)
	h, err := f.Create("/a")
	must.OK(t, err)
	is := func(what string, want int64) {
		t.Helper()
		if at := h.(*file).Unsynced(); at != want {
			t.Errorf("%s: %d, want %d", what, at, want)
		}
	}
	_, err = h.WriteAt(make([]byte, 10), 0)
	must.OK(t, err)
	is("written", 0)
	must.OK(t, h.Datasync())
	is("synced", 10)
	must.OK(t, h.Allocate(0, 5000))
	is("longer", 10)
	must.OK(t, h.Truncate(6))
	is("shorter", 6)
	must.OK(t, h.Datasync())
	_, err = h.WriteAt([]byte("x"), 3)
	must.OK(t, err)
	h.(*file).DropDirty(true)
	is("dropped", 3)
}
