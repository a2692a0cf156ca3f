package storage

import (
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// A checkpoint that cannot be replaced stays: a repair that meets a disk error must not remove the
// only copy.
func TestReplacingACheckpointRemovesNoneThatIsWhole(t *testing.T) {
	disk := used(t)
	before, err := ReadState(disk, "/d")
	must(t, err)
	errs := errfs.New(disk)
	errs.Add(errfs.Rule{Ops: errfs.List, Path: "/d/" + CheckpointMirror, Err: syscall.EIO})
	b, err := OpenForRepair(Location{Path: "/d"}, Options{FS: errs})
	must(t, err)
	defer func() { _ = b.Close() }()
	if err := b.Commit(before.Clone()); err == nil {
		t.Error("the error of the disk is not returned")
	}
	after, err := ReadState(disk, "/d")
	if err != nil || after.Seq != before.Seq {
		t.Errorf("the checkpoint afterwards: %+v, %v", after, err)
	}
}
