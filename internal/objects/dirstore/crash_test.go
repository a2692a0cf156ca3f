package dirstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/objecttest"
	"github.com/chronik-io/chronik/internal/testing/race"
	"github.com/chronik-io/chronik/internal/vfs"
)

// work puts, copies and deletes objects until a call fails. It returns the objects that must exist,
// those that may exist, with their content, and the result.
func work(s *Store) (must, may map[string][]byte, err error) {
	ctx := context.Background()
	must, may = map[string][]byte{}, map[string][]byte{}
	change := func(name string, content []byte, call func() error) {
		if err != nil {
			return
		}
		may[name] = content
		delete(must, name)
		if err = call(); err == nil && content != nil {
			must[name] = content
		}
	}
	put := func(name string, content []byte) {
		change(name, content, func() error { return s.Put(ctx, name, bytes.NewReader(content)) })
	}
	large := objecttest.Bytes(piece+5000, 1)
	put("a/b/c", []byte("first"))
	put("a/b/d", large)
	put("x", []byte("second"))
	put("a/b/c", []byte("first"))
	change("y/z", large, func() error { return s.Copy(ctx, objects.Info{Name: "a/b/d", Size: int64(len(large))}, "y/z") })
	old := may["x"]
	change("x", nil, func() error { return s.Delete(ctx, "x") })
	may["x"] = old
	put("y/w", []byte("third"))
	return must, may, err
}

// Power is lost during each call to the disk: every object whose Put has returned is whole, every
// other one is whole or missing, and nothing else is listed, except what Unfinished names. The
// store then works, and what was left can be deleted.
func TestObjectsAreWholeAfterALossOfPower(t *testing.T) {
	for crash := 1; ; crash += race.Some(1, 5) {
		fsys := crashfs.New(uint64(crash))
		s := open(t, fsys)
		before := fsys.Ops()
		fsys.CrashDuring(before + crash)
		must, may, err := work(s)
		if !fsys.Crashed() {
			if err != nil || crash < 30 {
				t.Errorf("without a crash, after %d calls: %v", crash, err)
			}
			return
		}
		for seed := range uint64(race.Some(2, 1)) {
			for _, mode := range crashfs.Modes() {
				image := fsys.PowerLossImage(mode, seed)
				if fault := judge(image, must, may); fault != "" {
					t.Fatalf("crash in call %d, mode %v, seed %d: %s", crash, mode, seed, fault)
				}
			}
		}
	}
}

func judge(image vfs.FS, must, may map[string][]byte) string {
	ctx := context.Background()
	s, err := Open(image, "/store")
	if err != nil {
		return err.Error()
	}
	var left, names []string
	if err := s.List(ctx, "", func(in objects.Info) error {
		if objects.Unfinished(in.Name) {
			left = append(left, in.Name)
		} else {
			names = append(names, in.Name)
		}
		return nil
	}); err != nil {
		return err.Error()
	}
	for name := range must {
		if !slices.Contains(names, name) {
			return name + " is lost"
		}
	}
	for _, name := range names {
		want, known := may[name]
		p := make([]byte, len(want)+1)
		n, err := s.Get(ctx, name, 0, p)
		if !known || !errors.Is(err, io.EOF) || !bytes.Equal(p[:n], want) {
			return fmt.Sprintf("%s has %d bytes: %v", name, n, err)
		}
	}
	for _, name := range left {
		if err := s.Delete(ctx, name); err != nil {
			return err.Error()
		}
	}
	if must, _, err = work(s); err != nil {
		return err.Error()
	}
	n := 0
	if err := s.List(ctx, "", func(objects.Info) error { n++; return nil }); err != nil || n != len(must) {
		return fmt.Sprintf("afterwards it has %d objects: %v", n, err)
	}
	return ""
}

// Each call to the disk fails once, and a failed sync or write-back drops what it was to write: the
// operation fails, or has its whole effect, also after a loss of power. The next attempt succeeds,
// and what it reports as done is there after a loss of power.
func TestAFailedCallLeavesNoHalfObject(t *testing.T) {
	kinds := map[errfs.Op]int{}
	for _, op := range []errfs.Op{errfs.Create, errfs.Mkdir, errfs.Write, errfs.Writeback, errfs.Datasync, errfs.Close, errfs.Rename,
		errfs.SyncDir, errfs.Read, errfs.Open, errfs.Stat, errfs.Remove, errfs.Size, errfs.List} {
		step := race.Some(1, 3)
		for from := 1; ; from += step {
			power := crashfs.New(uint64(from))
			disk := errfs.New(power)
			s := open(t, disk)
			fault := disk.Add(errfs.Rule{Ops: op, From: from, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached})
			must, may, err := work(s)
			fault.Off()
			judged := func(when string, image vfs.FS) {
				t.Helper()
				if fault := judge(image, must, may); fault != "" {
					t.Errorf("%v, call %d, which failed with %v: %s: %s", op, from, err, when, fault)
				}
			}
			some := crashfs.Modes()[from%len(crashfs.Modes())]
			judged("a loss of all that was not synced", power.PowerLossImage(crashfs.DropUnsynced, 1))
			judged("a loss of power", power.PowerLossImage(some, 1))
			if must, may, err = work(s); err != nil {
				t.Errorf("%v, call %d: again: %v", op, from, err)
			}
			judged("again, and a loss of all that was not synced", power.PowerLossImage(crashfs.DropUnsynced, 2))
			judged("again", power)
			if fault.Hits() == 0 {
				break
			}
			kinds[op] += step
		}
	}
	if len(kinds) < 13 || kinds[errfs.SyncDir] < 10 || kinds[errfs.Writeback] < 5 {
		t.Errorf("calls that failed: %v", kinds)
	}
}

func TestErrorsHaveTheirKind(t *testing.T) {
	for errno, want := range map[error]error{
		syscall.ENOSPC: objects.ErrFull, syscall.EDQUOT: objects.ErrFull,
		syscall.EACCES: objects.ErrRefused, syscall.EROFS: objects.ErrRefused,
	} {
		fsys := errfs.New(vfs.Memory())
		s := open(t, fsys)
		fsys.Add(errfs.Rule{Ops: errfs.Write | errfs.Create, Err: errno})
		if err := s.Put(context.Background(), "x", bytes.NewReader([]byte("x"))); !errors.Is(err, want) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

// A directory that is missing is not created: it may be where a file system is to be mounted.
func TestAMissingDirectoryIsNotCreated(t *testing.T) {
	fsys := vfs.Memory()
	if _, err := Open(fsys, "/store"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "mount") {
		t.Errorf("open: %v", err)
	}
	s := open(t, fsys)
	must.OK(t, fsys.Remove("/store"))
	err := s.Put(context.Background(), "a/x", bytes.NewReader([]byte("x")))
	if _, gone := fsys.Stat("/store"); err == nil || gone == nil {
		t.Errorf("put after the directory was removed: %v", err)
	}
}

// A Put whose unfinished file a collection deletes fails, and can be repeated.
func TestAnUnfinishedObjectIsDeletedMeanwhile(t *testing.T) {
	fsys := errfs.New(vfs.Memory())
	s := open(t, fsys)
	fsys.Add(errfs.Rule{Ops: errfs.Datasync, Count: 1, Before: func(c errfs.Call) {
		names := objecttest.List(t, s, "")
		if len(names) != 1 {
			t.Errorf("%v are listed", names)
		}
		for name := range names {
			if !objects.Unfinished(name) {
				t.Errorf("%s is listed", name)
			}
			must.OK(t, s.Delete(context.Background(), name))
		}
	}})
	err := s.Put(context.Background(), "a/b", bytes.NewReader([]byte("x")))
	if err == nil || errors.Is(err, objects.ErrNotFound) || errors.Is(err, objects.ErrRefused) {
		t.Errorf("put: %v", err)
	}
	objecttest.Put(t, s, "a/b", []byte("x"))
}

// The directory of an object is removed between its creation and its use.
func TestADirectoryIsRemovedMeanwhile(t *testing.T) {
	fsys := errfs.New(vfs.Memory())
	s := open(t, fsys)
	removals := 0
	fsys.Add(errfs.Rule{Ops: errfs.Create, Count: 3, Before: func(errfs.Call) {
		removals++
		must.OK(t, s.Delete(context.Background(), "a/b/gone"))
	}})
	objecttest.Put(t, s, "a/b/x", []byte("x"))
	if got := objecttest.Get(t, s, "a/b/x"); string(got) != "x" || removals != 3 {
		t.Errorf("%q after %d removals", got, removals)
	}
}

// While the file system hangs, a call ends with its context, and no more goroutines wait than
// Parallel; of writes, only one. The calls that hang end as if they had failed: their objects do
// not appear later.
func TestAHangingDiskHoldsAFewGoroutines(t *testing.T) {
	for ops, most := range map[errfs.Op]int{errfs.Create: Parallel, errfs.Write: 1} {
		synctest.Test(t, func(t *testing.T) {
			fsys := errfs.New(vfs.Memory())
			s := open(t, fsys)
			hangs := make(chan struct{})
			fault := fsys.Add(errfs.Rule{Ops: ops, Before: func(errfs.Call) { <-hangs }})
			for i := range Parallel + 5 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				begin := time.Now()
				err := s.Put(ctx, fmt.Sprintf("x%d", i), bytes.NewReader([]byte("x")))
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
					t.Errorf("put %d: %v after %v", i, err, time.Since(begin))
				}
				cancel()
			}
			if fault.Hits() != most {
				t.Errorf("%d calls hang", fault.Hits())
			}
			close(hangs)
			synctest.Wait()
			if got := objecttest.List(t, s, ""); len(got) != 0 {
				t.Errorf("%v appeared", got)
			}
			objecttest.Put(t, s, "x", []byte("x"))
		})
	}
}

// What a caller does with its memory after a Get that ended early changes nothing, and the Get does
// not change it.
func TestALateReadDoesNotTouchTheCallersMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := errfs.New(vfs.Memory())
		s := open(t, fsys)
		objecttest.Put(t, s, "x", []byte("abc"))
		hangs := make(chan struct{})
		fsys.Add(errfs.Rule{Ops: errfs.Read, Before: func(errfs.Call) { <-hangs }})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		p := []byte("___")
		if _, err := s.Get(ctx, "x", 0, p); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("get: %v", err)
		}
		close(hangs)
		synctest.Wait()
		if string(p) != "___" {
			t.Errorf("the late read wrote %q", p)
		}
	})
}

// Files of other programs are not listed.
func TestForeignFilesAreNotListed(t *testing.T) {
	fsys := vfs.Memory()
	s := open(t, fsys)
	must.OK(t, fsys.MkdirAll("/store/.Trash/x"))
	must.OK(t, vfs.WriteFile(fsys, "/store/README", []byte("x"), false))
	objecttest.Put(t, s, "a", []byte("x"))
	if got := objecttest.List(t, s, ""); len(got) != 1 {
		t.Errorf("%v", got)
	}
}
