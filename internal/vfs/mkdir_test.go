package vfs_test

import (
	"testing"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

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
