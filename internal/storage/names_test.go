package storage

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// longTopic is the longest name of a topic.
var longTopic = strings.Repeat("n", 249)

// makeLong creates a log of a topic with the longest name, with the largest partition number that
// the name of its directory has room for, and one of another topic.
func makeLong(t *testing.T, d *Dir) (long, other *Log) {
	t.Helper()
	logs, err := d.Create([]Spec{
		{ID: ID{Topic: [16]byte{1}, Partition: 99_999}, Topic: longTopic, Config: testConfig("sync")},
		{ID: ID{Topic: [16]byte{2}}, Topic: "t", Config: testConfig("sync")},
	})
	must(t, err)
	lead(logs...)
	return logs[0], logs[1]
}

// A topic with the longest name can be deleted, and its directory can be renamed.
func TestALongTopicNameIsDeletedAndSetAside(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	long, other := makeLong(t, d)
	put(t, long, 3, 1000)
	must(t, d.Delete(long, other))
	if names := namesIn(t, disk, "/d", "-"); strings.Contains(names, "nnn") {
		t.Errorf("left: %s", names)
	}

	must(t, disk.MkdirAll(long.path))
	must(t, writePartitionMeta(disk, long.path, ID{Topic: [16]byte{7}}))
	writeFile(t, disk, long.path+"/00000000000000000000.log", []byte{1})
	long, _ = makeLong(t, d)
	put(t, long, 1, 10)
	want := "07000000000000000000000000000000-99999-"
	if names := namesIn(t, disk, "/d", straySuffix); !strings.HasPrefix(names, want) {
		t.Errorf("set aside as %q, want %s…", names, want)
	}
}

// The frames of a log whose topic has the longest name are quarantined: by a repair, after which
// the log accepts records again, and by a start.
func TestALongTopicNameIsQuarantined(t *testing.T) {
	disk := crashfs.New(1)
	errs := errfs.New(disk)
	d := mustOpen(t, errs, "sync")
	long, other := makeLong(t, d)
	put(t, long, 5, 1000)
	must(t, long.flush())
	errs.Add(errfs.Rule{Ops: errfs.Datasync, Path: long.path + "/*", Err: syscall.EIO, Count: 1})
	if err := long.flushAndSync(); err == nil {
		t.Fatal("no error")
	}
	eventually(t, "the log is repaired", func() bool { return long.Err() == nil })
	put(t, long, 1, 1000)
	put(t, other, 1, 1000)

	errs = errfs.New(disk.KillImage(1))
	errs.Add(errfs.Rule{Ops: errfs.Write, Path: long.path + "/*", Err: syscall.EIO})
	d = mustOpen(t, errs, "sync")
	holds(t, byTopic(t, d, "t"), 1)
	if err := byTopic(t, d, longTopic).Offline(); err == nil {
		t.Error("the log is online")
	}
	must(t, d.Close())
	errs.Clear()
	holds(t, byTopic(t, mustOpen(t, errs, "sync"), longTopic), 6)
}

func byTopic(t *testing.T, d *Dir, topic string) *Log {
	t.Helper()
	for _, l := range d.Logs() {
		if l.topic == topic {
			return l
		}
	}
	t.Fatalf("no log of %.20s", topic)
	return nil
}

// A deletion that cannot remove one directory removes the others.
func TestADeletionContinuesAfterAnError(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	d := mustOpen(t, disk, "sync")
	logs := makeLogs(t, d, 3, "sync")
	disk.Add(errfs.Rule{Ops: errfs.Rename, Path: logs[0].path, Err: syscall.EIO})
	disk.Add(errfs.Rule{Ops: errfs.Rename, Path: logs[1].path, Err: syscall.EACCES})
	err := d.Delete(logs...)
	if !errors.Is(err, syscall.EIO) || !errors.Is(err, syscall.EACCES) {
		t.Errorf("deleted: %v", err)
	}
	if names := namesIn(t, disk, "/d", "t-"); names != "t-0 t-1" {
		t.Errorf("left: %s", names)
	}
	ids := []ID{logs[0].id, logs[1].id, logs[2].id}
	left := d.leftOf(ids)
	if len(left) != 2 {
		t.Fatalf("%d logs are left", len(left))
	}
	disk.Clear()
	must(t, d.finishDeletion(left))
	if names := namesIn(t, disk, "/d", "t-"); names != "" || len(d.leftOf(ids)) > 0 {
		t.Errorf("left: %s, %v", names, d.leftOf(ids))
	}
}

// The page lists each kind of name in a log directory.
func TestThePageListsTheNames(t *testing.T) {
	page, err := os.ReadFile("../../docs/journal.md")
	must(t, err)
	for _, part := range []string{deleteSuffix, straySuffix, replacedSuffix, futureSuffix, FramesSuffix, unknownPrefix, damagedFrames,
		CheckpointDir, CheckpointMirror, IdentityFile, JournalIdentityFile, segment.LogSuffix, segment.DeletedSuffix, segment.CleanedSuffix,
		segment.SwapSuffix, segment.ProducersSuffix, segment.AbortedSuffix, segment.OffsetsSuffix, segment.TimesSuffix} {
		row := slices.ContainsFunc(strings.Split(string(page), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "| `") && strings.Contains(strings.SplitN(line, "|", 3)[1], part)
		})
		if !row {
			t.Errorf("docs/journal.md does not list %q", part)
		}
	}
}
