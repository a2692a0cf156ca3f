package errfs

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/vfstest"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestWithoutRulesItKeepsTheContract(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return New(vfs.OS()), t.TempDir() })
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return memory(t), "/d" })
}

// A quota that is not reached changes nothing either.
func TestWithAQuotaItKeepsTheContract(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		f := memory(t)
		ok(t, f.SetQuota("/d", 1<<30, nil))
		return f, "/d"
	})
}

func memory(t testing.TB) *FS {
	t.Helper()
	m := vfs.Memory()
	ok(t, m.MkdirAll("/d"))
	return New(m)
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, f vfs.FS, name string) vfs.File {
	t.Helper()
	h, err := f.Create(name)
	ok(t, err)
	return h
}

// every makes one call of each kind on one file system.
func every(f *FS, h vfs.File) map[Op]func() error {
	return map[Op]func() error{
		Open: func() error { _, err := f.Open("/d/a"); return err }, Create: func() error { _, err := f.Create("/d/new"); return err },
		Mkdir: func() error { return f.MkdirAll("/d/sub") }, Remove: func() error { return f.RemoveAll("/d/x") },
		Rename: func() error { return f.Rename("/d/a", "/d/a") }, List: func() error { _, err := f.List("/d"); return err },
		Stat: func() error { _, err := f.Stat("/d"); return err }, SyncDir: func() error { return f.SyncDir("/d") },
		SetModified: func() error { return f.SetModified("/d/a", time.Unix(1, 0)) },
		Lock:        func() error { _, err := f.Lock("/d/lock", ""); return err },
		Free:        func() error { _, _, err := f.Free("/d"); return err },
		Read:        func() error { _, err := h.ReadAt(make([]byte, 1), 0); return err },
		Write:       func() error { _, err := h.WriteVecAt([][]byte{[]byte("x")}, 0); return err },
		Writeback:   func() error { return vfs.Writeback(h, 0, 1) },
		Datasync:    h.Datasync, Allocate: func() error { return h.Allocate(0, 1) }, Truncate: func() error { return h.Truncate(1) },
		Size: func() error { _, err := h.Size(); return err }, Close: h.Close,
	}
}

func TestEveryKindOfCallCanFailAndIsCounted(t *testing.T) {
	for i := range ops {
		op := Op(1) << i
		f := memory(t)
		f.unlatched = true // after each call that fails the others are tried
		h := create(t, f, "/d/a")
		if _, err := h.WriteAt([]byte("x"), 0); err != nil {
			t.Fatal(err)
		}
		before := f.Calls(Any)
		fault := f.Add(Rule{Ops: op, Err: syscall.EIO})
		for kind, call := range every(f, h) {
			if kind == Close && op != Close {
				continue // it would end the other calls
			}
			err := call()
			if (kind == op) != errors.Is(err, syscall.EIO) {
				t.Errorf("rule for %v: %v returns %v", op, kind, err)
			}
			if kind == op && !strings.Contains(err.Error(), op.String()) {
				t.Errorf("the error does not name %v: %v", op, err)
			}
		}
		if fault.Hits() != 1 || f.Calls(op) < 1 || f.Calls(Any) < before+int(ops)-1 {
			t.Errorf("%v: %d hits, %d calls, %d of all", op, fault.Hits(), f.Calls(op), f.Calls(Any)-before)
		}
	}
}

func TestAFailedCallDoesNotReachTheDisk(t *testing.T) {
	f := memory(t)
	vfstest.Put(t, f, "/d/a", "old")
	h, err := f.Open("/d/a")
	ok(t, err)
	f.Add(Rule{Ops: Any &^ (Open | Read | Size | Close), Err: syscall.EIO})
	if n, err := h.WriteAt([]byte("new"), 0); n != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("write: %d, %v", n, err)
	}
	for what, err := range map[string]error{
		"truncate": h.Truncate(0), "allocate": h.Allocate(0, 10), "remove": f.Remove("/d/a"), "rename": f.Rename("/d/a", "/d/b"),
		"remove all": f.RemoveAll("/d"),
	} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := vfstest.Get(t, f, "/d/a"); got != "old" {
		t.Errorf("the file holds %q", got)
	}
}

func TestWhichCallsARuleActsOn(t *testing.T) {
	for _, c := range []struct {
		name string
		rule Rule
		want string // one letter for each of six writes: a, b, a, b, … ; x: a failed write
	}{
		{"all", Rule{}, "xxxxxx"},
		{"by name", Rule{Path: "b.log"}, "axaxax"},
		{"by pattern", Rule{Path: "*.log"}, "xxxxxx"},
		{"by directory", Rule{Path: "/d/?.log"}, "xxxxxx"},
		{"by another directory", Rule{Path: "/e/*"}, "ababab"},
		{"a malformed pattern", Rule{Path: "["}, "ababab"},
		{"the third", Rule{From: 3, Count: 1}, "abxbab"},
		{"from the third on", Rule{From: 3}, "abxxxx"},
		{"the first two", Rule{Count: 2}, "xxabab"},
		{"the second and third of a name", Rule{Path: "a.log", From: 2, Count: 2}, "abxbxb"},
		{"a predicate", Rule{When: func(c Call) bool { return c.Off >= 3 && c.Len == 1 && c.Op == Write }}, "abaxxx"},
		{"a predicate counts by itself", Rule{When: func(c Call) bool { return c.Off >= 3 }, From: 2, Count: 1}, "ababxb"},
	} {
		f := memory(t)
		f.unlatched = true
		files := []vfs.File{create(t, f, "/d/a.log"), create(t, f, "/d/b.log")}
		c.rule.Ops, c.rule.Err = Write, syscall.ENOSPC
		fault := f.Add(c.rule)
		var got string
		for i := range 6 {
			if _, err := files[i%2].WriteAt([]byte("."), int64(i)); err != nil {
				got += "x"
			} else {
				got += string("ab"[i%2])
			}
		}
		if got != c.want || fault.Hits() != strings.Count(c.want, "x") {
			t.Errorf("%s: %s with %d hits, want %s", c.name, got, fault.Hits(), c.want)
		}
	}
}

func TestRulesSwitchAtRunTime(t *testing.T) {
	f := memory(t)
	h := create(t, f, "/d/a")
	fault := f.Add(Rule{Ops: Datasync, Err: syscall.EIO, From: 2})
	want := func(what string, fails bool) {
		t.Helper()
		if err := h.Datasync(); (err != nil) != fails {
			t.Errorf("%s: %v", what, err)
		}
	}
	want("the first", false)
	fault.Off()
	want("off", false)
	fault.On()
	want("the second: calls while it was off do not count", true)
	f.Clear()
	want("cleared", false)
	fault.On()
	want("cleared is for good", false)
}

func TestARenameIsMatchedByEitherName(t *testing.T) {
	f := memory(t)
	vfstest.Put(t, f, "/d/tmp", "")
	f.Add(Rule{Ops: Rename, Path: "checkpoint", Err: syscall.EIO, Count: 1})
	f.Add(Rule{Ops: Rename, Path: "tmp", Err: syscall.EDQUOT, Count: 1})
	for _, want := range []error{syscall.EIO, syscall.EDQUOT, nil} {
		if err := f.Rename("/d/tmp", "/d/checkpoint"); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

func TestShortWritesAndReads(t *testing.T) {
	for short, want := range map[int]string{0: "", 1: "0", 4: "0123", 7: "0123456", 10: "0123456789", 99: "0123456789"} {
		f := memory(t)
		h := create(t, f, "/d/a")
		f.Add(Rule{Ops: Write, Err: syscall.EIO, Short: short, Count: 1})
		bufs := [][]byte{[]byte("0123"), nil, []byte("456"), []byte("789")}
		n, err := h.WriteVecAt(bufs, 0)
		if n != len(want) || !errors.Is(err, syscall.EIO) {
			t.Errorf("short %d: %d, %v", short, n, err)
		}
		if got := vfstest.Get(t, f, "/d/a"); got != want {
			t.Errorf("short %d: the file holds %q", short, got)
		}
		if len(bufs) != 4 || string(bufs[0]) != "0123" || string(bufs[2]) != "456" || string(bufs[3]) != "789" {
			t.Errorf("short %d: WriteVecAt changed its argument", short)
		}
		f.Add(Rule{Ops: Read, Err: syscall.EIO, Short: short, Count: 1})
		p := make([]byte, 20)
		n, err = h.ReadAt(p, 0)
		if string(p[:n]) != want || !errors.Is(err, syscall.EIO) && (short < 99 || !errors.Is(err, io.EOF)) {
			t.Errorf("short %d: read %q, %v", short, p[:n], err)
		}
	}
}

func TestDelaysAddUpAndHooksHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory(t)
		h := create(t, f, "/d/a")
		held, release := make(chan Call), make(chan struct{})
		f.Add(Rule{Ops: Datasync, Delay: 100 * time.Millisecond})
		f.Add(Rule{Ops: Datasync, Delay: 50 * time.Millisecond, Before: func(c Call) { held <- c; <-release }})
		f.Add(Rule{Ops: Datasync, Err: syscall.EIO, Delay: time.Second})
		f.Add(Rule{Ops: Datasync, Err: syscall.ENOSPC, Delay: time.Hour})
		start := time.Now()
		done := make(chan error)
		go func() { done <- h.Datasync() }()
		if c := <-held; c.Op != Datasync || c.Path != "/d/a" || c.N != 1 {
			t.Errorf("held %+v", c)
		}
		if _, err := h.WriteAt([]byte("x"), 0); err != nil {
			t.Errorf("a held call holds others: %v", err)
		}
		close(release)
		if err := <-done; !errors.Is(err, syscall.EIO) {
			t.Errorf("the first error counts: %v", err)
		}
		if took := time.Since(start); took != 1150*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// Linux handles dirty pages that it could not write like this: it reports the error once, the next
// fdatasync succeeds, and the bytes are not on disk.
func TestTheSyncAfterAFailedOneProvesNothing(t *testing.T) {
	for drop, want := range map[Drop]struct{ read, disk string }{
		KeepDirty:   {"new", "new"},
		DropCached:  {"new", "old"},
		DropEvicted: {"old", "old"},
	} {
		under := crashfs.New(1)
		f := New(under)
		f.unlatched = true
		h := create(t, f, "/a")
		for _, content := range []string{"old", "new"} {
			if content == "new" {
				f.Add(Rule{Ops: Datasync, Path: "a", Err: syscall.EIO, Count: 1, Drop: drop})
			}
			if _, err := h.WriteAt([]byte(content), 0); err != nil {
				t.Fatal(err)
			}
			if err := h.Datasync(); (err != nil) != (content == "new") {
				t.Fatal(err)
			}
		}
		ok(t, f.SyncDir("/"))
		if err := h.Datasync(); err != nil {
			t.Errorf("the second sync fails: %v", err)
		}
		if got := vfstest.Get(t, f, "/a"); got != want.read {
			t.Errorf("drop %d: reads see %q, want %q", drop, got, want.read)
		}
		if got := vfstest.Get(t, under.PowerLoss(crashfs.KeepAll), "/a"); got != want.disk {
			t.Errorf("drop %d: the disk has %q, want %q", drop, got, want.disk)
		}
	}
}

// A failed write-back may lose the bytes as a failed sync does, and no sync says so
// (vfs.Writeback).
func TestAFailedWritebackIsNotReportedAgain(t *testing.T) {
	under := crashfs.New(1)
	f := New(under)
	f.unlatched = true
	h := create(t, f, "/a")
	ok(t, f.SyncDir("/"))
	if _, err := h.WriteAt([]byte("lost"), 0); err != nil {
		t.Fatal(err)
	}
	f.Add(Rule{Ops: Writeback, Err: syscall.EIO, Count: 1, Drop: DropCached})
	if err := vfs.Writeback(h, 0, 4); !errors.Is(err, syscall.EIO) {
		t.Errorf("the write-back: %v", err)
	}
	vfs.StartWriteback(h, 0, 4)
	ok(t, vfs.Writeback(h, 0, 4))
	ok(t, h.Datasync())
	if got := vfstest.Get(t, under.PowerLoss(crashfs.KeepAll), "/a"); got != "" {
		t.Errorf("the disk has %q", got)
	}
}

func TestARuleThatFailsCloseStillClosesTheFile(t *testing.T) {
	f := memory(t)
	h := create(t, f, "/d/a")
	f.Add(Rule{Ops: Close, Err: syscall.EIO, Count: 1})
	if err := h.Close(); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if _, err := h.Size(); err == nil {
		t.Error("the file is open")
	}
}
