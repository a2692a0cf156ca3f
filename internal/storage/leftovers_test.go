package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// namesIn lists the names in a directory that contain part.
func namesIn(t *testing.T, fsys vfs.FS, dir, part string) string {
	t.Helper()
	infos, err := fsys.List(dir)
	must(t, err)
	var names []string
	for _, in := range infos {
		if strings.Contains(in.Name, part) {
			names = append(names, in.Name)
		}
	}
	return strings.Join(names, " ")
}

// A quarantine file stays if its log was made again and lacks the records, also if it has others at
// their offsets: it may be the last copy. So does a file whose contents are not known.
func TestAStartKeepsFramesThatTheLogLacks(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 3, 1000)
	end, epoch := l.Ends().LogEnd, l.EpochAt(0)
	must(t, d.Close())
	name := func(seq int) string { return fmt.Sprintf("/d/%x-0-%d.frames", l.ID().Topic, seq) }
	gap := func(from, to int64, epoch int32) []byte {
		f := journal.Frame{LSN: 9, Stream: l.ID(), Type: journal.Gap, PrevEnd: from, NextEnd: to, Epoch: epoch}
		return f.Encode(nil)
	}
	has := gap(0, end, epoch)
	for i, b := range [][]byte{has, gap(0, end+1, epoch), gap(0, end, epoch+77), append(has[:len(has):len(has)], 1), {1},
		slices.Concat(gap(0, 1, epoch+77), gap(1, end, epoch))} {
		writeFile(t, disk, name(i), b)
	}
	must(t, mustOpen(t, disk, "sync").Close())
	left := namesIn(t, disk, "/d", ".frames")
	for i, keeps := range []bool{false, true, true, true, true, true} {
		if strings.Contains(left, name(i)[len("/d/"):]) != keeps {
			t.Errorf("file %d: kept is %v", i, !keeps)
		}
	}
}

// A start removes quarantine files that no checkpoint lists and no log needs. Files of a log that
// is out of use or unknown stay.
func TestAStartRemovesAbandonedFrames(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	for _, l := range makeLogs(t, d, 3, "sync") {
		put(t, l, 3, 1000)
	}
	must(t, d.Delete(byPartition(t, d, 2)))
	image := disk.PowerLossImage(crashfs.KeepAll, 1)
	topic := func(n byte) string { return fmt.Sprintf("%x", [16]byte{n}) }
	gone := []string{topic(1) + "-0-1", topic(1) + "-2-9"}
	stay := []string{topic(1) + "-1-1", "unknown-" + topic(1) + "-0-3", topic(9) + "-0-1", topic(1) + "-0-notes", topic(1) + "-0",
		topic(1)[2:] + "-0-1", "x" + topic(1) + "-0-1", topic(1) + "--0-1", topic(1) + "-0-01"}
	for _, name := range append(gone, stay...) {
		id, _ := framesOf(name + ".frames")
		f := journal.Frame{LSN: 9, Stream: id, Type: journal.Gap, NextEnd: 1}
		f.Epoch = byPartition(t, d, 0).EpochAt(0)
		writeFile(t, image, "/d/"+name+".frames", f.Encode(nil))
	}
	errs := errfs.New(image)
	errs.Add(errfs.Rule{Ops: errfs.List, Path: "/d/t-1", Err: syscall.EIO})
	mustOpen(t, errs, "sync")
	left := strings.Fields(namesIn(t, image, "/d", ".frames"))
	for _, name := range gone {
		if slices.Contains(left, name+".frames") {
			t.Errorf("%s.frames is left", name)
		}
	}
	for _, name := range stay {
		if !slices.Contains(left, name+".frames") {
			t.Errorf("%s.frames is gone", name)
		}
	}
	image = image.PowerLossImage(crashfs.KeepAll, 1)
	errs = errfs.New(image)
	removed := errs.Add(errfs.Rule{Ops: errfs.Remove, Path: "/d/" + topic(1) + "-1-*.frames"})
	holds(t, byPartition(t, mustOpen(t, errs, "sync"), 1), 3)
	if n := removed.Hits(); n != 2 {
		t.Errorf("two files were removed %d times", n)
	}
	if left := namesIn(t, image, "/d", topic(1)+"-1-"); left != "" {
		t.Errorf("the log is back, and left is %s", left)
	}
}

// The directory of a deleted log could not be renamed. It is removed when a log of its name is
// created, and nothing of it is kept as a stray.
func TestADeletedLogsDirectoryIsNoStray(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 3, 1000)
	must(t, l.flush())
	stuck := disk.Add(errfs.Rule{Ops: errfs.Rename, Path: "/d/t-0", Err: syscall.EIO})
	if err := d.Delete(l); err == nil || stuck.Hits() == 0 {
		t.Fatalf("deleted: %v", err)
	}
	disk.Clear()
	logs, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{2}}, Topic: "t", Config: testConfig("sync")}})
	must(t, err)
	put(t, logs[0], 1, 10)
	if names := namesIn(t, disk, "/d", "t-0"); names != "t-0" {
		t.Errorf("left: %s", names)
	}
	must(t, d.Close())
	holds(t, mustOpen(t, disk, "sync").Logs()[0], 1)
}

// A log whose deletion failed may be in the checkpoint on disk. A log of its name is created only
// when it is certainly not.
func TestALogWhoseDeletionFailedKeepsItsDirectory(t *testing.T) {
	for failing := 1; failing < 5; failing++ {
		disk := crashfs.New(1)
		errs := errfs.New(disk)
		d := mustOpen(t, errs, "sync")
		l := makeLogs(t, d, 1, "sync")[0]
		put(t, l, 3, 1000)
		must(t, errors.Join(l.flushAndSync(), d.checkpoint(nil)))
		errs.Add(errfs.Rule{Ops: errfs.SyncDir | errfs.Rename | errfs.Create, Path: "/d/checkpoint*", From: failing, Err: syscall.EIO})
		errs.Add(errfs.Rule{Ops: errfs.SyncDir, Path: "/d", From: failing, Err: syscall.EIO})
		if err := d.Delete(l); err == nil {
			continue
		}
		_, _ = d.Create([]Spec{{ID: ID{Topic: [16]byte{2}}, Topic: "t", Config: testConfig("sync")}})
		for _, image := range []*crashfs.FS{disk.KillImage(1), disk.PowerLossImage(crashfs.DropUnsynced, 1)} {
			for _, l := range mustOpen(t, image, "sync").Logs() {
				if err := l.Offline(); err != nil {
					t.Errorf("failing from %d: %v", failing, err)
				}
			}
		}
	}
}
