package statelog

import (
	"bytes"
	"errors"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

var mirrored = Options{Dir: "/s", Mirror: "/copy"}

func on(fsys vfs.FS, opts Options) Options {
	opts.FS = fsys
	return opts
}

func TestTheMirrorHoldsTheSameFiles(t *testing.T) {
	fsys := vfs.Memory()
	o := own(t, on(fsys, mirrored))
	must(t, o.add("a"))
	must(t, o.rotate())
	must(t, o.add("b"))
	must(t, o.Close())
	first, second := files(t, fsys, "/s"), files(t, fsys, "/copy")
	if len(first) != 2 || len(second) != 2 {
		t.Errorf("%d and %d files", len(first), len(second))
	}
	for name := range first {
		if !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

// No start depends on the bytes of the mirror, and every start renews it.
func TestAStartReplacesADamagedOrLostMirror(t *testing.T) {
	for name, harm := range map[string]func(vfs.FS) error{
		"gone":         func(fsys vfs.FS) error { return fsys.RemoveAll("/copy") },
		"no snapshot":  func(fsys vfs.FS) error { return fsys.Remove(snapshotName("/copy", 1)) },
		"no log":       func(fsys vfs.FS) error { return fsys.Remove(logName("/copy", 1)) },
		"one is ahead": func(fsys vfs.FS) error { return fsys.Rename(snapshotName("/copy", 1), snapshotName("/copy", 7)) },
	} {
		fsys := errfs.New(vfs.Memory())
		o := own(t, on(fsys, mirrored))
		must(t, o.add("a"))
		must(t, o.Close())
		must(t, harm(fsys))
		fsys.Add(errfs.Rule{Ops: errfs.Read, Path: "/copy/*", Err: errors.New("a start read the mirror")})
		core, said := observer.New(zap.WarnLevel)
		opts := on(fsys, mirrored)
		opts.Log = zap.New(core)
		o, err := tryOwn(opts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n := said.FilterField(zap.String("dir", "/copy")).Len(); (n == 1) != (name == "no snapshot") {
			t.Errorf("%s: said %+v", name, said.All())
		}
		must(t, o.add("b"))
		fsys.Clear()
		if got, _, err := readList(fsys, "/copy"); got != "a,b" || err != nil {
			t.Errorf("%s: the mirror holds %s, %v", name, got, err)
		}
	}
}

// A start in an empty directory would begin a new log and remove the only copy.
func TestALostLogWithAMirrorIsRefused(t *testing.T) {
	for _, gone := range []string{"/s", logName("/copy", 1), snapshotName("/copy", 1)} {
		fsys := vfs.Memory()
		must(t, own(t, on(fsys, mirrored)).add("a"))
		must(t, fsys.RemoveAll("/s"))
		must(t, fsys.RemoveAll(gone))
		var d *Damage
		if _, err := tryOwn(on(fsys, mirrored)); !errors.As(err, &d) || !d.Lost || d.File != "/s" {
			t.Errorf("first copy and %s gone: %v", gone, err)
		}
	}
}

func TestACopyReplacesALostOrDamagedLog(t *testing.T) {
	for name, harm := range map[string]func(vfs.FS) error{
		"nothing": func(vfs.FS) error { return nil },
		"gone":    func(fsys vfs.FS) error { return fsys.RemoveAll("/s") },
		"no log":  func(fsys vfs.FS) error { return fsys.Remove(logName("/s", 1)) },
		"a damaged one of a later generation": func(fsys vfs.FS) error {
			return fsys.Rename(snapshotName("/s", 1), snapshotName("/s", 7))
		},
	} {
		fsys := vfs.Memory()
		o := own(t, on(fsys, mirrored))
		must(t, o.add("a"))
		must(t, o.add("b"))
		must(t, harm(fsys))
		c, err := Restore(fsys, "/copy", "/s", testFormat, &list{})
		if err != nil || c.Sequence != 2 {
			t.Fatalf("%s: %+v, %v", name, c, err)
		}
		if len(files(t, fsys, "/s")) != 2 {
			t.Errorf("%s: files %v", name, files(t, fsys, "/s"))
		}
		o, err = tryOwn(on(fsys, mirrored))
		if err != nil || o.String() != "a,b" {
			t.Errorf("%s: %s, %v", name, o.String(), err)
		}
	}
}

func TestADamagedCopyReplacesNothing(t *testing.T) {
	for name, harm := range map[string]func(vfs.FS) error{
		"gone":   func(fsys vfs.FS) error { return fsys.RemoveAll("/copy") },
		"no log": func(fsys vfs.FS) error { return fsys.Remove(logName("/copy", 1)) },
	} {
		fsys := vfs.Memory()
		o := own(t, on(fsys, mirrored))
		must(t, o.add("a"))
		must(t, harm(fsys))
		if _, err := Restore(fsys, "/copy", "/s", testFormat, &list{}); err == nil {
			t.Errorf("%s: restored", name)
		}
		if got, _, err := readList(fsys, "/s"); got != "a" || err != nil {
			t.Errorf("%s: the first copy holds %s, %v", name, got, err)
		}
	}
}

// After a crash of Restore the directory is either rejected or complete; a second Restore completes
// it.
func TestCrashAtEverySystemCallOfARestore(t *testing.T) {
	prepared := func() *crashfs.FS {
		fsys := crashfs.New(1)
		o := own(t, on(fsys, mirrored))
		must(t, o.add("a", "b"))
		must(t, o.rotate())
		must(t, fsys.Rename(snapshotName("/s", 2), snapshotName("/s", 7)))
		must(t, fsys.SyncDir("/s"))
		return fsys
	}
	for call := 0; ; call++ {
		fsys := prepared()
		before := fsys.Ops()
		fsys.CrashDuring(before + call)
		_, restored := Restore(fsys, "/copy", "/s", testFormat, &list{})
		for _, m := range crashfs.Modes() {
			for seed := range uint64(10) {
				image := fsys.PowerLossImage(m, seed)
				got, c, err := readList(image, "/s")
				switch {
				case err == nil && c.Used && got == "a,b":
				case restored != nil && errors.Is(err, ErrDamaged):
				default:
					t.Fatalf("crash at call %d: restored %v, reads as %s, %+v, %v", call, restored, got, c, err)
				}
				if _, err := Restore(image, "/copy", "/s", testFormat, &list{}); err != nil {
					t.Fatalf("crash at call %d, second restore: %v", call, err)
				}
				if got, _, err := readList(image, "/s"); got != "a,b" || err != nil {
					t.Fatalf("crash at call %d, second restore holds %s, %v", call, got, err)
				}
			}
		}
		if restored == nil {
			return
		}
	}
}
