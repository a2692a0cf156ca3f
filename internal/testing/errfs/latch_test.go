package errfs

import (
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// After a failed call a file must be cut, or written again, before it is synced or written beyond.
func TestWhatAFileNeedsAfterAFailedCall(t *testing.T) {
	write := func(off int64) func(vfs.FS, vfs.File) error {
		return func(_ vfs.FS, h vfs.File) error {
			_, err := h.WriteAt([]byte("0123"), off)
			return err
		}
	}
	cut := func(size int64) func(vfs.FS, vfs.File) error {
		return func(_ vfs.FS, h vfs.File) error { return h.Truncate(size) }
	}
	grow := func(_ vfs.FS, h vfs.File) error { return h.Allocate(0, 100) }
	fail := func(f vfs.FS, h vfs.File) error {
		f.(*FS).Add(Rule{Ops: Datasync, Err: syscall.EIO, Count: 1})
		_ = h.Datasync()
		return nil
	}
	sync := func(_ vfs.FS, h vfs.File) error { return h.Datasync() }
	again := func(then func(vfs.FS, vfs.File) error) func(vfs.FS, vfs.File) error {
		return func(f vfs.FS, h vfs.File) error {
			ok(t, h.Close())
			ok(t, f.Rename("/a", "/b"))
			h, err := f.Open("/b")
			ok(t, err)
			return then(f, h)
		}
	}
	fresh := func(f vfs.FS, _ vfs.File) error {
		ok(t, f.Remove("/a"))
		return create(t, f, "/a").Datasync()
	}
	type calls = []func(vfs.FS, vfs.File) error
	for name, test := range map[string]struct {
		fails Op
		then  calls
		trust bool // the last call trusts the file
	}{
		"sync":                    {Datasync, calls{sync}, true},
		"write-back":              {Writeback, calls{sync}, true},
		"write beyond":            {Datasync, calls{write(8), sync}, true},
		"cut":                     {Datasync, calls{cut(4), write(4), sync}, false},
		"cut too late":            {Datasync, calls{cut(6), sync}, true},
		"written again":           {Datasync, calls{write(4), sync, write(8), sync}, false},
		"half of it":              {Datasync, calls{write(2), sync}, true},
		"opened again":            {Datasync, calls{again(sync)}, true},
		"opened again and cut":    {Datasync, calls{again(cut(0))}, false},
		"another file":            {Datasync, calls{fresh}, false},
		"write":                   {Write, calls{sync}, false}, // nothing was written
		"write, then beyond":      {Write, calls{write(12), sync}, true},
		"write, then as before":   {Write, calls{write(8), sync}, false},
		"after growth":            {Datasync, calls{cut(4), sync, grow, fail, sync}, true},
		"of nothing":              {Datasync, calls{cut(4), sync, sync}, false},
		"write, then write, sync": {Write, calls{write(8), write(12), sync}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(crashfs.New(1))
			h := create(t, f, "/a")
			ok(t, write(0)(f, h))
			ok(t, h.Datasync())
			ok(t, write(4)(f, h))
			f.Add(Rule{Ops: test.fails, Err: syscall.EIO, Count: 1})
			switch test.fails {
			case Datasync:
				_ = h.Datasync()
			case Writeback:
				_ = vfs.Writeback(h, 0, 8)
			default:
				_ = write(8)(f, h)
			}
			said := ""
			for i, call := range test.then {
				func() {
					defer func() {
						if p := recover(); p != nil {
							said = p.(string)
						}
					}()
					ok(t, call(f, h))
				}()
				if (said != "") != (test.trust && i == len(test.then)-1) {
					t.Fatalf("call %d: %q", i, said)
				}
			}
			if test.trust && !strings.Contains(said, "input/output error") {
				t.Errorf("%q does not name the cause", said)
			}
		})
	}
}

// What another process wrote and did not sync is lost with a sync of this one that fails.
func TestWhatAFoundFileNeeds(t *testing.T) {
	under := crashfs.New(1)
	h := create(t, under, "/a")
	_, err := h.WriteAt([]byte("0123"), 0)
	ok(t, err)
	ok(t, h.Datasync())
	_, err = h.WriteAt([]byte("4567"), 4)
	ok(t, err)
	f := New(under.KillImage(1))
	h, err = f.Open("/a")
	ok(t, err)
	f.Add(Rule{Ops: Datasync, Err: syscall.EIO, Count: 1})
	_ = h.Datasync()
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "from 4 on") {
			t.Errorf("the second sync says %q", p)
		}
	}()
	_ = h.Datasync()
}

// The last handle of a file takes what was not synced with it.
func TestALastCloseDropsDirtyPages(t *testing.T) {
	under := crashfs.New(1)
	f := New(under)
	h := create(t, f, "/a")
	ok(t, f.SyncDir("/"))
	other, err := f.Open("/a")
	ok(t, err)
	_, err = h.WriteAt([]byte("x"), 0)
	ok(t, err)
	ok(t, other.Close())
	ok(t, h.Datasync())
	_, err = h.WriteAt([]byte("y"), 1)
	ok(t, err)
	ok(t, h.Close())
	h, err = f.Open("/a")
	ok(t, err)
	ok(t, h.Datasync())
	got, err := vfs.ReadFile(under.PowerLoss(crashfs.KeepAll), "/a")
	ok(t, err)
	if string(got) != "x" {
		t.Errorf("the disk has %q", got)
	}
}
