package vfs_test

import (
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A failed sync of any directory is an error, but for those of other users, and after it the call
// can be repeated.
func TestMakeDirHearsOfFailedSyncs(t *testing.T) {
	const dir = "/a/b/c"
	for at, failed := 1, true; failed; at++ {
		for _, why := range []syscall.Errno{syscall.EIO, syscall.EACCES} {
			power := crashfs.New(1)
			must.OK(t, power.MkdirAll("/a")) // empty, and not synced
			f := errfs.New(power)
			fault := f.Add(errfs.Rule{Ops: errfs.SyncDir, From: at, Count: 1, Err: why})
			err := vfs.MakeDir(f, dir)
			if failed = fault.Hits() > 0; failed && err == nil && why == syscall.EIO {
				t.Errorf("sync %d failed, and the directory is made", at)
			}
			if err != nil {
				must.OK(t, vfs.MakeDir(f, dir))
			}
			if _, err := power.PowerLossImage(crashfs.DropUnsynced, 1).Stat(dir); err != nil && why == syscall.EIO {
				t.Errorf("sync %d failed once: %v", at, err)
			}
		}
	}
}

// A directory is durable although a call for its sibling, which made their parent, failed before
// it had synced that.
func TestMakeDirBesideACallThatFailed(t *testing.T) {
	power := crashfs.New(1)
	f := errfs.New(power)
	f.Add(errfs.Rule{Ops: errfs.SyncDir, Path: "/", Count: 1, Err: syscall.EIO})
	if err := vfs.MakeDir(f, "/new/a"); err == nil {
		t.Fatal("the sync did not fail")
	}
	must.OK(t, vfs.MakeDir(f, "/new/b"))
	if _, err := power.PowerLossImage(crashfs.DropUnsynced, 1).Stat("/new/b"); err != nil {
		t.Error(err)
	}
}

// A directory created by MakeDir survives a power loss, even if the process was killed at any call
// of MakeDir and the next process found the directory.
func TestMadeDirectoriesSurvive(t *testing.T) {
	const dir = "/a/b/c"
	for at := 1; ; at++ {
		f := crashfs.New(uint64(at))
		f.CrashDuring(f.Ops() + at)
		first := vfs.MakeDir(f, dir)
		next := f.KillImage(1)
		must.OK(t, vfs.MakeDir(next, dir))
		after := next.PowerLossImage(crashfs.DropUnsynced, 1)
		if _, err := after.Stat(dir); err != nil {
			t.Errorf("killed at call %d: %v", at, err)
		}
		if first == nil && !f.Crashed() {
			return
		}
	}
}

// Each call to the disk fails once, after MakeDir was killed at any call: what was reported as made
// survives a power loss. Errors other than those of a disk, such as above the user's own
// directories, do not count where nothing was made.
func TestIfTheDiskFailsNoDirectoryIsMade(t *testing.T) {
	const dir = "/a/b/c"
	for at := 0; ; at++ {
		first := crashfs.New(1)
		first.CrashAt(at)
		whole := vfs.MakeDir(first, dir) == nil
		for from := 1; ; from++ {
			power := first.KillImage(1)
			disk := errfs.New(power)
			fault := disk.Add(errfs.Rule{Err: syscall.EIO, From: from, Count: 1})
			err := vfs.MakeDir(disk, dir)
			if err != nil {
				err = vfs.MakeDir(disk, dir)
			}
			must.OK(t, err)
			if _, err := power.PowerLossImage(crashfs.DropUnsynced, 1).Stat(dir); err != nil {
				t.Errorf("killed at call %d, and call %d failed: %v", at, from, err)
			}
			if fault.Hits() == 0 {
				break
			}
		}
		if whole {
			break
		}
	}
	disk := errfs.New(vfs.Memory())
	must.OK(t, disk.MkdirAll("/a"))
	for _, err := range []error{syscall.EACCES, syscall.EINVAL, syscall.EROFS} {
		fault := disk.Add(errfs.Rule{Ops: errfs.SyncDir, Err: err})
		must.OK(t, vfs.MakeDir(disk, "/a"))
		fault.Off()
	}
}
