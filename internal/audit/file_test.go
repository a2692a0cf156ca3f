package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// The files have a bounded size, only the user may read them, and the newest lines stay.
func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "logs", "audit.log")
	f, err := OpenFile(vfs.OS(), name)
	must.OK(t, err)
	f.max = 100
	for i := range 200 {
		must.OK(t, f.Write(fmt.Appendf(nil, "line %04d\n", i)))
	}
	must.OK(t, errors.Join(f.Flush(), f.Close()))
	list, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(list) != fileCount {
		t.Fatalf("%v %v", list, err)
	}
	for _, e := range list {
		info, err := e.Info()
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() > 100 {
			t.Errorf("%s: %v %d bytes %v", e.Name(), info.Mode(), info.Size(), err)
		}
	}
	for i, n := range map[string]string{name: "line 0190", name + ".1": "line 0180", name + ".7": "line 0120"} {
		if text, err := os.ReadFile(i); err != nil || !strings.HasPrefix(string(text), n) {
			t.Errorf("%s begins with %.9q, not %q: %v", i, text, n, err)
		}
	}
}

// syncFails is a failed sync whose blocks show what the disk has.
func syncFails() errfs.Rule {
	return errfs.Rule{Ops: errfs.Datasync, Err: syscall.EIO, Drop: errfs.DropEvicted}
}

// What a failed sync leaves is no line, whether Flush calls it, a rotation, or a file that another
// program has moved; and Flush reports it once.
func TestI5FileThatIsNotSynced(t *testing.T) {
	for name, by := range map[string]func(t *testing.T, disk vfs.FS, x *File) error{
		"a flush": func(_ *testing.T, _ vfs.FS, x *File) error { return x.Flush() },
		"a rotation": func(t *testing.T, _ vfs.FS, x *File) error {
			x.max = x.size
			if err := x.Write([]byte("c\n")); err == nil {
				t.Error("a line went to the next file")
			}
			x.max = fileBytes
			return x.Flush()
		},
		"a moved file": func(t *testing.T, disk vfs.FS, x *File) error {
			must.OK(t, disk.Rename(x.name, x.name+".moved"))
			if err := x.Write([]byte("c\n")); err == nil {
				t.Error("a line went to the next file")
			}
			return x.Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := errfs.New(crashfs.New(1))
			x, err := OpenFile(disk, "/logs/audit.log")
			must.OK(t, err)
			must.OK(t, x.Write([]byte("a\n")))
			must.OK(t, x.Flush())
			must.OK(t, x.Write([]byte("bbbb\n")))
			fault := disk.Add(syncFails())
			if err := by(t, disk, x); err == nil {
				t.Fatal("no error")
			}
			fault.Off()
			must.OK(t, x.Write([]byte("d\n")))
			must.OK(t, x.Flush())
			must.OK(t, x.Close())
			if text := inFiles(t, disk, x.name+".moved", x.name); text != "a\nd\n" {
				t.Errorf("%q", text)
			}
		})
	}
}

// inFiles returns what is in the files that exist.
func inFiles(t *testing.T, disk vfs.FS, names ...string) string {
	t.Helper()
	var all []byte
	for _, name := range names {
		b, err := vfs.ReadFile(disk, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return string(all)
}

// A sync that fails before a rotation, with all lines flushed, does not end the log.
func TestASyncThatFailsBetweenFlushes(t *testing.T) {
	disk := errfs.New(crashfs.New(1))
	x, err := OpenFile(disk, "/logs/audit.log")
	must.OK(t, err)
	x.max = 1 // each line goes to a file of its own
	synctest.Test(t, func(t *testing.T) {
		l := Open(Options{Mode: Refusals, Sink: Same(x)})
		record := func(i int) {
			l.Record(refused("User:x", "10.0.0.1", fmt.Sprint(i)))
			synctest.Wait()
		}
		record(1)
		time.Sleep(flushEvery)
		synctest.Wait()
		fault := disk.Add(syncFails())
		record(2)
		fault.Off()
		time.Sleep(2 * flushEvery)
		record(3)
		must.OK(t, l.Close(context.Background()))
		if s := l.Stats(); s.Dropped != 1 || fault.Hits() != 1 {
			t.Errorf("%+v, after %d failed syncs", s, fault.Hits())
		}
	})
	text := inFiles(t, disk, x.name+".2", x.name+".1", x.name)
	if strings.Count(text, "\n") != 3 || !strings.Contains(text, `"lost"`) {
		t.Errorf("%s", text)
	}
}

// Whichever call to the disk fails, a line that was written and flushed without an error is in the
// files after a power loss, once. No whole line is whose write failed.
func TestI5AFaultAtEveryCallOfAFile(t *testing.T) {
	for _, rule := range []errfs.Rule{
		{Err: syscall.EIO, Count: 1}, {Err: syscall.EIO, Count: 1, Drop: errfs.DropCached}, {Err: syscall.EIO, Count: 1, Short: 3},
		{Err: syscall.EIO, Count: 3, Drop: errfs.DropEvicted}, {Err: syscall.ENOSPC, Count: 2, Short: 1},
	} {
		last := 0
		for ; ; last++ {
			rule.From = last + 1
			power := crashfs.New(uint64(last))
			disk := errfs.New(power)
			fault := disk.Add(rule)
			flushed, written := writeThrough(t, disk)
			if fault.Hits() == 0 {
				break
			}
			names := []string{"/logs/moved"}
			for i := range fileCount - 1 {
				names = append(names, fmt.Sprintf("/logs/audit.log.%d", fileCount-1-i))
			}
			got := inFiles(t, power.PowerLoss(crashfs.DropUnsynced), append(names, "/logs/audit.log")...)
			if !within(flushed, got) || !within(got, written) {
				t.Errorf("%+v: %q is in the files, of which %q was flushed, and %q written", rule, got, flushed, written)
			}
		}
		if last < 50 {
			t.Errorf("%d calls", last)
		}
	}
}

// within reports whether all whole lines of a are in b, as often as there.
func within(a, b string) bool {
	there := map[string]int{}
	for line := range strings.SplitAfterSeq(b, "\n") {
		there[line]++
	}
	for line := range strings.SplitAfterSeq(a, "\n") {
		if there[line]--; there[line] < 0 && strings.HasSuffix(line, "\n") {
			return false
		}
	}
	return true
}

// writeThrough writes lines to files of a disk that may fail, and returns those that were written
// without an error, and those that were flushed, too.
func writeThrough(t *testing.T, disk vfs.FS) (flushed, written string) {
	t.Helper()
	var x *File
	var err error
	for range 3 { // the broker is started again
		if x, err = OpenFile(disk, "/logs/audit.log"); err == nil {
			break
		}
	}
	for ; err != nil; x, err = OpenFile(disk, "/logs/audit.log") {
	}
	x.max = 2000
	pending := ""
	flush := func() {
		if x.Flush() == nil {
			flushed += pending
		}
		pending = ""
	}
	moved := false
	for i := range 18 {
		line := fmt.Sprintf("line %02d%0600d\n", i, 0) // more than a sector
		if x.Write([]byte(line)) == nil {
			pending, written = pending+line, written+line
		}
		if i%4 == 3 {
			flush()
		}
		if i > 6 && !moved { // another program renames it
			moved = disk.Rename("/logs/audit.log", "/logs/moved") == nil
		}
	}
	flush()
	flush() // after a failed one, as the log does
	_ = x.Close()
	return flushed, written
}

// Lines of a flush that failed are gone, also if it failed before the sync.
func TestALineOfAFailedFlushIsGone(t *testing.T) {
	disk := errfs.New(crashfs.New(1))
	x, err := OpenFile(disk, "/logs/audit.log")
	must.OK(t, err)
	must.OK(t, x.Write([]byte("one\n")))
	disk.Add(errfs.Rule{Ops: errfs.Size, Err: syscall.EIO, Count: 1})
	if err := x.Flush(); err == nil {
		t.Error("the flush succeeds")
	}
	must.OK(t, errors.Join(x.Write([]byte("two\n")), x.Flush()))
	if text, err := vfs.ReadFile(disk, "/logs/audit.log"); string(text) != "two\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// A file whose last line was cut is used further, with the next line on its own, and its
// permissions are tightened.
func TestFileAfterACrash(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	must.OK(t, os.WriteFile(name, []byte("whole\ncut"), 0o644))
	f, err := OpenFile(vfs.OS(), name)
	must.OK(t, err)
	must.OK(t, errors.Join(f.Write([]byte("next\n")), f.Close()))
	text, err := os.ReadFile(name)
	if info, _ := os.Stat(name); err != nil || string(text) != "whole\ncut\nnext\n" || info.Mode().Perm() != 0o600 {
		t.Errorf("%q %v %v", text, info.Mode(), err)
	}
	if _, err := OpenFile(vfs.OS(), os.DevNull); err == nil {
		t.Error("a device is taken for a file")
	}
}

// When another program has renamed the file, or removed or cut it, as logrotate does, no line goes
// where it would not be found.
func TestFileThatOthersRotate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	f, err := OpenFile(vfs.OS(), name)
	must.OK(t, err)
	for i, rotate := range []func() error{
		func() error { return os.Rename(name, name+"-20261122") },
		func() error { return os.Remove(name) },
		func() error { return os.Truncate(name, 0) },
	} {
		before := fmt.Sprintf("before %d\n", i)
		after := fmt.Sprintf("after %d\n", i)
		must.OK(t, errors.Join(f.Write([]byte(before)), rotate(), f.Write([]byte(after)), f.Flush()))
		if text, err := os.ReadFile(name); err != nil || string(text) != after {
			t.Errorf("%d: the file has %q: %v", i, text, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
