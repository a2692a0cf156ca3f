package replica

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// twoDirs starts a broker with the log directories /d and /e.
func twoDirs(t testing.TB, fs vfs.FS, c *cluster) life {
	t.Helper()
	return startIn(t, fs, c, "/d", "/e")
}

// split creates a topic with four partitions, two in each of /d and /e, each with one record, and
// stops the broker.
func split(t testing.TB, fs vfs.FS, c *cluster) {
	t.Helper()
	l := twoDirs(t, fs, c)
	c.topic("a", idA, 4)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	for i := range int32(4) {
		grow(t, l.partition(t, idA, i))
	}
	must(t, l.storage.Close())
}

// unreadable makes reads of a directory's checkpoint fail, and also those of its identity if all is
// set.
func unreadable(fs vfs.FS, dir string, all bool) vfs.FS {
	errs := errfs.New(fs)
	errs.Add(errfs.Rule{Ops: errfs.Read, Path: dir + "/checkpoint/*", Err: syscall.EIO})
	if all {
		errs.Add(errfs.Rule{Ops: errfs.Read, Path: dir + "/chronik.dir", Err: syscall.EIO})
	}
	return errs
}

// The partitions of a directory that cannot be opened are offline and listed with the reason. Other
// and new partitions work. None is created again elsewhere. A start that can open the directory has
// them again.
func TestPartitionsOfABadDirectoryAreOfflineAndNotCreatedElsewhere(t *testing.T) {
	for _, all := range []bool{false, true} {
		fs, c := vfs.Memory(), newCluster()
		split(t, fs, c)
		l := twoDirs(t, unreadable(fs, "/e", all), c)
		err := c.apply(t, l.Manager)
		if !errors.Is(err, ErrOffline) || !strings.Contains(err.Error(), "a-1") || !strings.Contains(err.Error(), "/e") {
			t.Fatal(err)
		}
		var offline int
		for i := range int32(4) {
			p, err := l.Partition(idA, i)
			if err == nil {
				grow(t, p)
				continue
			}
			if offline++; !errors.Is(err, ErrOffline) || !errors.Is(err, syscall.EIO) {
				t.Errorf("partition %d: %v", i, err)
			}
		}
		c.topic("b", idB, 2)
		must(t, c.apply(t, l.Manager))
		must(t, c.apply(t, l.Manager))
		for i := range int32(2) {
			grow(t, l.partition(t, idB, i))
		}
		if n := len(l.storage.Logs()); offline != 2 || n != 4 {
			t.Errorf("%d partitions are offline, %d logs are there", offline, n)
		}
		must(t, l.storage.Close())

		l = twoDirs(t, fs, c)
		must(t, c.apply(t, l.Manager))
		for i := range int32(4) {
			grow(t, l.partition(t, idA, i))
		}
	}
}

// A partition whose directory was not recorded may be in the directory that cannot be opened, so it
// is not created elsewhere.
func TestAnUnrecordedPartitionIsNotCreatedNextToABadDirectory(t *testing.T) {
	fs, c := vfs.Memory(), newCluster()
	c.fail = errors.New("store is gone")
	l := twoDirs(t, fs, c)
	c.topic("a", idA, 2)
	must(t, c.apply(t, l.Manager))
	for i := range int32(2) {
		must(t, begin(t, l.partition(t, idA, i), AcksLeader, 1).wait(t))
	}
	must(t, l.Close(t.Context()))
	must(t, l.storage.Close())
	c.fail = nil

	l = twoDirs(t, unreadable(fs, "/e", false), c)
	if err := c.apply(t, l.Manager); !errors.Is(err, ErrOffline) {
		t.Error(err)
	}
	if n := len(l.storage.Logs()); n != 1 {
		t.Errorf("%d logs are there", n)
	}
	must(t, l.storage.Close())

	l = twoDirs(t, fs, c)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	for i := range int32(2) {
		if p := l.partition(t, idA, i); p.Ends().LogEnd != 1 {
			t.Errorf("partition %d ends at %d", i, p.Ends().LogEnd)
		}
	}
}

// A topic is deleted while one of its directories cannot be opened. It is not forgotten: the start
// that opens the directory deletes its logs.
func TestADeletedTopicIsRememberedUntilItsDirectoryOpens(t *testing.T) {
	fs, c := vfs.Memory(), newCluster()
	split(t, fs, c)
	l := twoDirs(t, unreadable(fs, "/e", false), c)
	if err := c.apply(t, l.Manager); !errors.Is(err, ErrOffline) {
		t.Fatal(err)
	}
	c.delete("a", idA, 4)
	must(t, c.apply(t, l.Manager))
	if _, err := l.Partition(idA, 1); !errors.Is(err, ErrUnknownPartition) {
		t.Error(err)
	}
	if _, kept := c.keys[metadata.DeletingKey(idA)]; !kept {
		t.Error("forgotten while two of its logs are on a disk")
	}
	must(t, l.storage.Close())

	l = twoDirs(t, fs, c)
	must(t, c.apply(t, l.Manager))
	if _, kept := c.keys[metadata.DeletingKey(idA)]; kept || len(l.storage.Logs()) > 0 {
		t.Errorf("the tombstone is there: %v, logs: %v", kept, l.storage.Logs())
	}
}

// A topic whose deletion failed is not forgotten either.
func TestADeletedTopicIsRememberedIfItsDeletionFailed(t *testing.T) {
	mem, c := vfs.Memory(), newCluster()
	errs := errfs.New(mem)
	l := twoDirs(t, errs, c)
	c.topic("a", idA, 2)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	errs.Add(errfs.Rule{Ops: errfs.Write | errfs.Create | errfs.Rename, Path: "/e/checkpoint*/*", Err: syscall.EIO})
	c.delete("a", idA, 2)
	must(t, c.apply(t, l.Manager))
	if _, kept := c.keys[metadata.DeletingKey(idA)]; !kept {
		t.Error("forgotten although a start may find one of its logs")
	}
}

// A log in another directory than the one recorded for it is a copy, and is not used.
func TestALogInAnotherDirectoryIsNotServed(t *testing.T) {
	fs, c := vfs.Memory(), newCluster()
	l := start(t, fs, c)
	c.topic("a", idA, 1)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	must(t, l.storage.Close())
	c.place(metadata.TopicPartition{Topic: idA}, [16]byte{9})
	l = start(t, fs, c)
	if err := c.apply(t, l.Manager); !errors.Is(err, ErrOffline) || !strings.Contains(err.Error(), "/d") {
		t.Error(err)
	}
	if _, err := l.Partition(idA, 0); !errors.Is(err, ErrOffline) {
		t.Error(err)
	}
}

// A replica is assigned again after its removal, and the process ends before the directory of the
// new log is recorded. If others have all records, the log is used, and its directory recorded.
func TestTheNewLogOfAReplicaInAnotherDirectoryIsUsed(t *testing.T) {
	fs, c := vfs.Memory(), newCluster()
	l := start(t, fs, c)
	c.topic("a", idA, 1)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	must(t, l.storage.Close())
	tp := metadata.TopicPartition{Topic: idA}
	c.place(tp, [16]byte{9})
	must(t, c.change(tp, func(p *metadata.Partition) {
		p.Leader, p.LeaderEpoch, p.Replicas, p.ISR = 2, 1, []int32{2, self}, []int32{2}
	}))
	l = start(t, fs, c)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	at := l.partition(t, idA, 0).Log().Dir().ID()
	if dir, _ := c.image.Placement(self, tp); dir != at {
		t.Errorf("recorded is %x, the log is in %x", dir, at)
	}
}

// A directory that is not there is named by its last path, if that is known.
func TestAMissingDirectoryHasAPath(t *testing.T) {
	m := &Manager{opt: Options{Self: 2, DirPaths: map[[16]byte]string{{1}: "/disk1"}}}
	for id, want := range map[[16]byte]string{
		{1}: "log directory 01000000000000000000000000000000 of broker 2, last in /disk1",
		{2}: "log directory 02000000000000000000000000000000 of broker 2, whose path is not known",
	} {
		if got := m.named(id); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
