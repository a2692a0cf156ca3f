package replica

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

var idA, idB = [16]byte{0xa}, [16]byte{0xb}

func (l life) partition(t testing.TB, id [16]byte, i int32) *Partition {
	t.Helper()
	p, err := l.Partition(id, i)
	must(t, err)
	return p
}

// grow appends one record and waits until it is acknowledged.
func grow(t testing.TB, p *Partition) {
	t.Helper()
	must(t, begin(t, p, AcksAll, 1).wait(t))
}

func TestATopicsLogsAreCreatedAndPlaced(t *testing.T) {
	c := newCluster()
	l := start(t, vfs.Memory(), c)
	c.topic("a", idA, 3)
	must(t, c.apply(t, l.Manager))
	if len(c.assigned) != 1 || len(c.assigned[0]) != 3 || len(c.raised) != 0 {
		t.Fatalf("placed %v, raised %v", c.assigned, c.raised)
	}
	must(t, c.apply(t, l.Manager)) // the directories are recorded
	for i := range int32(3) {
		p := l.partition(t, idA, i)
		grow(t, p)
		if p.LeaderEpoch() != 0 || p.String() != fmt.Sprintf("a-%d", i) {
			t.Errorf("%s leads in epoch %d", p, p.LeaderEpoch())
		}
	}
	if len(c.assigned) != 1 || len(l.Partitions()) != 3 {
		t.Errorf("placed %d times, %d partitions", len(c.assigned), len(l.Partitions()))
	}
	if _, err := l.Partition(idA, 3); !errors.Is(err, ErrUnknownPartition) {
		t.Error(err)
	}
}

func TestACleanRestartContinuesItsEpoch(t *testing.T) {
	fs, c := vfs.Memory(), newCluster()
	l := start(t, fs, c)
	c.topic("a", idA, 1)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	grow(t, l.partition(t, idA, 0))
	must(t, l.storage.Close())

	l = start(t, fs, c)
	must(t, c.apply(t, l.Manager))
	p := l.partition(t, idA, 0)
	grow(t, p)
	if p.LeaderEpoch() != 0 || p.Ends().HighWatermark != 2 || len(c.raised) != 0 {
		t.Errorf("epoch %d, %+v, raised %v", p.LeaderEpoch(), p.Ends(), c.raised)
	}
}

// Metadata that were restored from a copy give epochs below those of the log. The broker asks for a
// higher one, and leads in no other, again and again.
func TestALogWithALaterEpochIsLedInAHigherOne(t *testing.T) {
	fs, c := vfs.Memory(), newCluster()
	l := start(t, fs, c)
	c.topic("a", idA, 1)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	tp := metadata.TopicPartition{Topic: idA}
	must(t, c.edit(tp, func(p *metadata.Partition) { p.LeaderEpoch = 9 }))
	must(t, c.apply(t, l.Manager))
	grow(t, l.partition(t, idA, 0))
	must(t, l.storage.Close())

	must(t, c.edit(tp, func(p *metadata.Partition) { p.LeaderEpoch = 3 }))
	c.fail = errors.New("store is gone")
	l = start(t, fs, c)
	must(t, c.apply(t, l.Manager))
	if err := begin(t, l.partition(t, idA, 0), AcksAll, 1).wait(t); !errors.Is(err, ErrNotLeader) {
		t.Fatalf("an append below the epoch of the log: %v", err)
	}
	if w := l.Leaderless(); len(w) != 1 || w[0].TopicPartition != tp || w[0].Raise != (metadata.Raise{From: 3, Seen: 9}) {
		t.Fatalf("it waits for %+v", w)
	}
	c.mu.Lock()
	c.fail = nil
	c.mu.Unlock()
	must(t, c.edit(tp, func(p *metadata.Partition) { p.LeaderEpoch = 4 })) // another election, in vain
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	p := l.partition(t, idA, 0)
	grow(t, p)
	raised := 9 + metadata.Gap([16]byte{})
	if p.LeaderEpoch() != raised || len(l.Leaderless()) > 0 {
		t.Errorf("epoch %d, want %d; %+v", p.LeaderEpoch(), raised, l.Leaderless())
	}

	// An unclean election that did not know the epoch begins with the raised one.
	must(t, c.edit(tp, func(p *metadata.Partition) { p.LeaderEpoch, p.Unclean = 5, 5 }))
	must(t, l.storage.Close())
	c.fail = errors.New("store is gone")
	l = start(t, fs, c)
	must(t, c.apply(t, l.Manager))
	if w := l.Leaderless(); len(w) != 1 || w[0].Raise != (metadata.Raise{From: 5, Seen: raised, Lossy: true}) {
		t.Errorf("it waits for %+v", w)
	}
}

// After a stop that was not clean, the registration has raised the epoch that restored metadata
// gave, to one that the log has already. No leader continues it, and none leads in the epochs after
// it whose records may be lost.
func TestAnEpochOfRestoredMetadataIsNotResumed(t *testing.T) {
	for _, clean := range []bool{true, false} {
		disk, c := crashfs.New(1), newCluster()
		l := start(t, disk, c)
		c.topic("a", idA, 1)
		tp := metadata.TopicPartition{Topic: idA}
		must(t, c.edit(tp, func(p *metadata.Partition) { p.LeaderEpoch = 2 }))
		must(t, c.apply(t, l.Manager))
		must(t, c.apply(t, l.Manager))
		grow(t, l.partition(t, idA, 0))
		if clean {
			must(t, l.storage.Close())
		} else {
			disk = disk.Kill()
		}
		l = start(t, disk, c)
		must(t, c.apply(t, l.Manager))
		p := l.partition(t, idA, 0)
		want := int32(2)
		if !clean {
			if err := begin(t, p, AcksAll, 1).wait(t); !errors.Is(err, ErrNotLeader) {
				t.Fatalf("an append in the epoch of the former process: %v", err)
			}
			want = 3 + metadata.Gap([16]byte{})
		}
		must(t, c.apply(t, l.Manager))
		grow(t, p)
		must(t, c.apply(t, l.Manager)) // its own records are no reason
		if p.LeaderEpoch() != want || len(l.Leaderless()) > 0 {
			t.Errorf("clean %t: epoch %d, want %d; %+v", clean, p.LeaderEpoch(), want, l.Leaderless())
		}
	}
}

func TestAMissingLogIsOfflineAndListed(t *testing.T) {
	fs, c := vfs.Memory(), newCluster()
	l := start(t, fs, c)
	c.topic("a", idA, 1)
	c.topic("b", idB, 1)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	grow(t, l.partition(t, idA, 0))
	must(t, l.storage.Close())

	l = start(t, fs, c)
	c.topic("lost", [16]byte{0xc}, 1)
	c.place(metadata.TopicPartition{Topic: [16]byte{0xc}}, [16]byte{7})
	err := c.apply(t, l.Manager)
	if !errors.Is(err, ErrOffline) || !strings.Contains(err.Error(), "lost-0") || !strings.Contains(err.Error(), "put the directory back") {
		t.Fatalf("%v", err)
	}
	if _, err := l.Partition([16]byte{0xc}, 0); !errors.Is(err, ErrOffline) {
		t.Error(err)
	}
	grow(t, l.partition(t, idA, 0)) // the other topics work
	c.delete("lost", [16]byte{0xc}, 1)
	must(t, c.apply(t, l.Manager))
	if _, err := l.Partition([16]byte{0xc}, 0); !errors.Is(err, ErrUnknownPartition) {
		t.Errorf("deleted: %v", err)
	}
}

func TestADeletedTopicLeavesNothingAndMayComeBack(t *testing.T) {
	fs, c := vfs.Memory(), newCluster()
	l := start(t, fs, c)
	c.topic("a", idA, 2)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	old := l.partition(t, idA, 0)
	grow(t, old)
	c.delete("a", idA, 2)
	c.topic("a", idB, 1) // in the same image
	must(t, c.apply(t, l.Manager))
	if _, err := l.Partition(idA, 0); !errors.Is(err, ErrUnknownPartition) {
		t.Errorf("deleted: %v", err)
	}
	if err := begin(t, old, AcksAll, 1).wait(t); !errors.Is(err, ErrNotLeader) && !errors.Is(err, storage.ErrClosed) {
		t.Errorf("an append to what was deleted: %v", err)
	}
	p := l.partition(t, idB, 0)
	must(t, c.apply(t, l.Manager))
	if grow(t, p); p.Ends().LogEnd != 1 {
		t.Errorf("the new one begins anew: %+v", p.Ends())
	}
	if c.keys[metadata.DeletingKey(idA)].Key != "" || c.image.Deleting(idA) != nil {
		t.Error("the tombstone stays though nothing is left")
	}
	must(t, l.storage.Close())
	l = start(t, fs, c)
	must(t, c.apply(t, l.Manager))
	if got := l.partition(t, idB, 0).Ends().LogEnd; got != 1 || len(l.Partitions()) != 1 {
		t.Errorf("after a restart: end %d, %d partitions", got, len(l.Partitions()))
	}
}

func TestATombstoneDeletesLogsThatAStartFinds(t *testing.T) {
	fs, c := vfs.Memory(), newCluster()
	l := start(t, fs, c)
	c.topic("a", idA, 1)
	must(t, c.apply(t, l.Manager))
	must(t, l.storage.Close())
	c.delete("a", idA, 1) // while the broker is down
	l = start(t, fs, c)
	if len(l.storage.Logs()) != 1 {
		t.Fatal("the log is there")
	}
	must(t, c.apply(t, l.Manager))
	if len(l.storage.Logs()) != 0 || c.keys[metadata.DeletingKey(idA)].Key != "" {
		t.Error("the log or its tombstone is still there")
	}
}

func TestAConfigReachesTheLog(t *testing.T) {
	c := newCluster()
	l := start(t, vfs.Memory(), c)
	c.topic("a", idA, 1)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	p := l.partition(t, idA, 0)
	c.put(metadata.TopicConfigKey(idA), metadata.EncodeConfigs(map[string]string{"profile": "os"}))
	must(t, c.apply(t, l.Manager))
	if got := p.Log().Config().Profile.Name; got != "os" {
		t.Errorf("profile %s", got)
	}
	grow(t, p)
}

func TestTheMetadataMovesTheRole(t *testing.T) {
	c := newCluster()
	l := start(t, vfs.Memory(), c)
	c.topic("a", idA, 1)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	tp := metadata.TopicPartition{Topic: idA}
	set := func(leader, epoch int32, replicas, isr []int32) {
		t.Helper()
		must(t, c.change(tp, func(p *metadata.Partition) {
			p.Leader, p.LeaderEpoch, p.Replicas, p.ISR = leader, epoch, replicas, isr
		}))
		must(t, c.apply(t, l.Manager))
	}
	p := l.partition(t, idA, 0)
	grow(t, p)
	set(2, 1, []int32{1, 2}, []int32{1, 2})
	if err := begin(t, p, AcksAll, 1).wait(t); !errors.Is(err, ErrNotLeader) {
		t.Error(err)
	}
	c.register(2, idA)
	c.record(2, tp, idB)
	set(1, 2, []int32{1, 2}, []int32{1, 2})
	a := begin(t, p, AcksAll, 1)
	must(t, c.acknowledge(p, 2, 2, idB, 2))
	must(t, a.wait(t))
	set(1, 2, []int32{1, 2}, []int32{1}) // the follower leaves the ISR
	grow(t, p)
}

func TestAPartitionOfOtherBrokersIsNotCreated(t *testing.T) {
	c := newCluster()
	l := start(t, vfs.Memory(), c)
	c.topic("a", idA, 1)
	must(t, c.change(metadata.TopicPartition{Topic: idA},
		func(p *metadata.Partition) { p.Leader, p.Replicas, p.ISR = 2, []int32{2}, []int32{2} }))
	must(t, c.apply(t, l.Manager))
	if _, err := l.Partition(idA, 0); !errors.Is(err, ErrUnknownPartition) || len(c.assigned) != 0 || len(l.storage.Logs()) != 0 {
		t.Errorf("%v, placed %v", err, c.assigned)
	}
}

func TestAFailedCreationAffectsNoOtherLog(t *testing.T) {
	c, fs := newCluster(), vfs.Memory()
	l := start(t, fs, c)
	f, err := fs.Create("/d/b-1") // at the path of the new directory
	must(t, err)
	must(t, f.Close())
	c.topic("a", idA, 3)
	c.topic("b", idB, 3)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	for _, tp := range []metadata.TopicPartition{{Topic: idA}, {Topic: idA, Partition: 1}, {Topic: idA, Partition: 2}, {Topic: idB},
		{Topic: idB, Partition: 2}} {
		grow(t, l.partition(t, tp.Topic, tp.Partition))
	}
	if _, err := l.Partition(idB, 1); !errors.Is(err, ErrOffline) || !strings.Contains(err.Error(), "the log of b-1 could not be created") {
		t.Error(err)
	}
}

// Close reports hanging work, and nothing if there is none, even if its context has already ended.
func TestCloseWithAnEndedContextFindsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 200 {
		m := NewManager(Options{Self: self, Storage: openStorage(t, vfs.Memory(), "/d"), Logger: zap.NewNop()})
		must(t, m.Close(ctx))
	}
}
