package replica

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// shared adds a partition of brokers 1 and 2, both in sync, which a broker leads in an epoch.
func (c *cluster) shared(id [16]byte, leader, epoch int32) metadata.TopicPartition {
	c.put(metadata.NameKey("a"), metadata.Name{Topic: "a", ID: id}.Encode())
	c.put(metadata.TopicKey(id), metadata.TopicRecord{Name: "a", Partitions: 1}.Encode())
	c.partition(id, 0, metadata.Partition{Leader: leader, LeaderEpoch: epoch, Replicas: []int32{1, 2}, ISR: []int32{1, 2}})
	return metadata.TopicPartition{Topic: id}
}

// assign gives a partition to other brokers.
func (c *cluster) assign(t testing.TB, tp metadata.TopicPartition, replicas ...int32) {
	t.Helper()
	must(t, c.change(tp, func(p *metadata.Partition) {
		p.Replicas, p.ISR, p.ELR, p.Leader = replicas, replicas[len(replicas)-1:], nil, replicas[len(replicas)-1]
		p.LeaderEpoch++
	}))
}

// stored returns the names in a directory that begin with "a-".
func stored(t testing.TB, fsys vfs.FS, dir string) (names []string) {
	t.Helper()
	infos, err := fsys.List(dir)
	must(t, err)
	for _, in := range infos {
		if strings.HasPrefix(in.Name, "a-") {
			names = append(names, in.Name)
		}
	}
	return names
}

// A replica that the metadata assigns to other brokers ends at once, and its log and its placement
// go. If it is assigned again, it begins with an empty log.
func TestAReplicaOfOtherBrokersIsRemoved(t *testing.T) {
	c, fs := newCluster(), vfs.Memory()
	l := start(t, fs, c)
	tp := c.shared(idA, self, 0)
	must(t, c.apply(t, l.Manager))
	p := l.partition(t, idA, 0)
	must(t, begin(t, p, AcksLeader, 3).wait(t))
	waits := begin(t, p, AcksAll, 1)
	c.assign(t, tp, 2, 3)
	must(t, c.show(t, l.Manager))
	if err := waits.wait(t); !errors.Is(err, ErrNotLeader) {
		t.Errorf("an append that waited: %v", err)
	}
	if leader, _ := p.Leader(); leader != 3 {
		t.Errorf("the hint names broker %d", leader)
	}
	must(t, l.AwaitApplied(t.Context(), c.image.Version()))
	if _, err := l.Partition(idA, 0); !errors.Is(err, ErrUnknownPartition) || len(l.storage.Logs()) != 0 {
		t.Errorf("%v, %d logs", err, len(l.storage.Logs()))
	}
	must(t, c.apply(t, l.Manager))
	if dir, ok := c.image.Placement(self, tp); ok {
		t.Errorf("it is still placed in %x", dir)
	}
	c.assign(t, tp, self, 3)
	must(t, c.apply(t, l.Manager))
	if again := l.partition(t, idA, 0); again.Ends().LogEnd != 0 || again == p {
		t.Errorf("it is back with %+v", again.Ends())
	}
}

// leads returns a broker that leads a partition of two brokers, with records.
func leads(t *testing.T) (c *cluster, errs *errfs.FS, l life, tp metadata.TopicPartition) {
	t.Helper()
	c, errs = newCluster(), errfs.New(vfs.Memory())
	l = start(t, errs, c)
	tp = c.shared(idA, self, 0)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	must(t, begin(t, l.partition(t, idA, 0), AcksLeader, 3).wait(t))
	return c, errs, l, tp
}

// A replica is assigned again while its log is being removed. The new log comes after the old one
// is gone, and the old one is not adopted.
func TestAReplicaReturnsWhileItIsRemoved(t *testing.T) {
	c, errs, l, tp := leads(t)
	stuck := hold(t, errs, errfs.Rename, "/d/a-0")
	c.assign(t, tp, 2, 3)
	must(t, c.show(t, l.Manager))
	waitFor(t, "the disk holds the deletion", func() bool { return stuck.Hits() > 0 })
	c.assign(t, tp, self, 3)
	must(t, c.show(t, l.Manager))
	if _, err := l.Partition(idA, 0); !errors.Is(err, ErrOffline) {
		t.Errorf("while the old log is there: %v", err)
	}
	must(t, c.change(tp, func(p *metadata.Partition) { p.LeaderEpoch++ })) // another image before the deletion ends
	must(t, c.show(t, l.Manager))
	stuck.open()
	waitFor(t, "a new log", func() bool { return l.has(idA, 0) })
	p := l.partition(t, idA, 0)
	if _, epoch := p.Leader(); p.Ends().LogEnd != 0 || epoch != 3 {
		t.Errorf("%+v in epoch %d", p.Ends(), epoch)
	}
	waitFor(t, "its placement", func() bool {
		must(t, c.show(t, l.Manager))
		dir, _ := c.image.Placement(self, tp)
		return dir == p.log.Dir().ID()
	})
	if l.Failed() != nil {
		t.Errorf("failed: %v", l.failedNow())
	}
}

// While the broker is down, one replica is assigned to others, and the metadata is replaced by a
// copy that is older than another log. Only the former is deleted.
func TestOnlyRecordedReplicasAreRemovedAtAStart(t *testing.T) {
	c, fs := newCluster(), vfs.Memory()
	l := start(t, fs, c)
	tp := c.shared(idA, self, 0)
	c.topic("b", idB, 1)
	c.topic("gone", [16]byte{0xc}, 1)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	must(t, l.storage.Close())

	c.assign(t, tp, 2, 3)
	b := metadata.TopicPartition{Topic: idB}
	c.assign(t, b, 2, 3)
	c.mu.Lock()
	delete(c.keys, metadata.PlacementKey(self, idB))
	for _, k := range []string{metadata.NameKey("gone"), metadata.TopicKey([16]byte{0xc}), metadata.PartitionKey([16]byte{0xc}, 0),
		metadata.PlacementKey(self, [16]byte{0xc})} {
		delete(c.keys, k)
	}
	c.mu.Unlock()
	core, logs := observer.New(zap.WarnLevel)
	l = startWith(t, fs, c, Options{Logger: zap.New(core)}, "/d")
	must(t, c.apply(t, l.Manager))
	if l.storage.Get(storage.ID{Topic: idA}) != nil || l.storage.Get(storage.ID{Topic: idB}) == nil ||
		l.storage.Get(storage.ID{Topic: [16]byte{0xc}}) == nil || len(l.Partitions()) != 0 {
		t.Errorf("%d logs, %d partitions", len(l.storage.Logs()), len(l.Partitions()))
	}
	named := logs.FilterMessageSnippet("kept").All()
	if len(named) != 1 || named[0].ContextMap()["logs"] != int64(2) {
		t.Errorf("%+v", named)
	}
}

// History 49, and its opposite: an empty log replaces a lost one only if other replicas have the
// records.
func TestALostLogIsReplacedOnlyIfOthersHaveTheRecords(t *testing.T) {
	for name, x := range map[string]struct {
		isr, elr []int32
		replaced bool
	}{
		"in sync":       {[]int32{2, 1}, nil, false},
		"eligible":      {[]int32{2}, []int32{1}, false},
		"no replica":    {nil, nil, false},
		"others":        {[]int32{2}, nil, true},
		"others, later": {nil, []int32{2}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			tp := c.shared(idA, 2, 0)
			c.record(self, tp, idB)
			must(t, c.change(tp, func(p *metadata.Partition) {
				p.ISR, p.ELR = x.isr, x.elr
				if len(x.isr) == 0 {
					p.Leader = -1
				}
			}))
			l := start(t, vfs.Memory(), c)
			err := c.apply(t, l.Manager)
			if l.has(idA, 0) != x.replaced || (err == nil) != x.replaced {
				t.Errorf("replaced: %t, %v", l.has(idA, 0), err)
			}
		})
	}
}

// An image from before the registration gives no roles: it shows epochs of an earlier life. When
// another process has registered under this broker's id, this one leads nothing any longer.
func TestRolesFollowTheRegistration(t *testing.T) {
	c := newCluster()
	l := startWith(t, vfs.Memory(), c, Options{Incarnation: idA}, "/d")
	c.register(self, idB)
	tp := c.shared(idA, self, 4)
	c.partition(idA, 0, metadata.Partition{Leader: self, LeaderEpoch: 4, Replicas: []int32{1}, ISR: []int32{1}})
	must(t, c.apply(t, l.Manager))
	if n := len(l.Partitions()); n != 0 {
		t.Fatalf("%d partitions before the registration", n)
	}
	c.register(self, idA)
	must(t, c.change(tp, func(p *metadata.Partition) { p.LeaderEpoch = 5 }))
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager)) // shows the placement
	p := l.partition(t, idA, 0)
	grow(t, p)
	if p.LeaderEpoch() != 5 || len(c.raised) != 0 {
		t.Errorf("epoch %d, raised %v", p.LeaderEpoch(), c.raised)
	}
	c.register(self, idB)
	must(t, c.change(tp, func(p *metadata.Partition) { p.LeaderEpoch = 6 }))
	if err := c.apply(t, l.Manager); !errors.Is(err, ErrReplaced) {
		t.Errorf("reported: %v", err)
	}
	if err := begin(t, p, AcksAll, 1).wait(t); !errors.Is(err, ErrNotLeader) {
		t.Errorf("an append in the other's epoch: %v", err)
	}
	if err := c.apply(t, l.Manager); !errors.Is(err, ErrReplaced) {
		t.Errorf("still: %v", err)
	}
}

// A process that another one has replaced for a while, such as a copy of its data directory, leads
// and follows again when the metadata show its own registration. What happened meanwhile counts,
// and what it followed in the same epoch, too.
func TestAProcessThatRegistersAgainHasItsRolesAgain(t *testing.T) {
	c := newCluster()
	l := startWith(t, vfs.Memory(), c, Options{Incarnation: idA}, "/d")
	c.register(self, idA)
	led := c.shared(idA, self, 5)
	c.partition(idA, 0, metadata.Partition{Leader: self, LeaderEpoch: 5, Replicas: []int32{1}, ISR: []int32{1}})
	c.topic("b", idB, 1)
	c.partition(idB, 0, metadata.Partition{Leader: 2, LeaderEpoch: 7, Replicas: []int32{1, 2}, ISR: []int32{1, 2}})
	c.topic("gone", [16]byte{0xc}, 1)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager)) // shows the placements
	p, q := l.partition(t, idA, 0), l.partition(t, idB, 0)
	grow(t, p)

	c.register(self, idB)
	must(t, c.change(led, func(p *metadata.Partition) { p.Leader, p.LeaderEpoch = -1, 6 }))
	if err := c.apply(t, l.Manager); !errors.Is(err, ErrReplaced) {
		t.Fatalf("while another process is registered: %v", err)
	}
	if at, epoch := q.Leader(); at != -1 || epoch != 7 {
		t.Errorf("it follows %d in epoch %d", at, epoch)
	}
	c.delete("gone", [16]byte{0xc}, 1)
	if err := c.apply(t, l.Manager); !errors.Is(err, ErrReplaced) {
		t.Fatalf("while another process is registered: %v", err)
	}

	c.register(self, idA)
	must(t, c.apply(t, l.Manager))
	if at, epoch := q.Leader(); at != 2 || epoch != 7 {
		t.Errorf("it follows %d in epoch %d, want 2 in 7", at, epoch)
	}
	if err := begin(t, p, AcksAll, 1).wait(t); !errors.Is(err, ErrNotLeader) {
		t.Errorf("an append before it leads again: %v", err)
	}
	must(t, c.change(led, func(p *metadata.Partition) { p.Leader, p.LeaderEpoch = self, 7 }))
	must(t, c.apply(t, l.Manager))
	grow(t, p)
	if _, err := l.Partition([16]byte{0xc}, 0); !errors.Is(err, ErrUnknownPartition) {
		t.Errorf("a topic that was deleted meanwhile: %v", err)
	}
}

// blocked is a metadata store without a quorum: every call waits until the test ends.
type blocked struct {
	*cluster
	once    sync.Once
	entered chan struct{}
}

func (b *blocked) wait(ctx context.Context) (int64, error) {
	b.once.Do(func() { close(b.entered) })
	<-ctx.Done()
	return 0, ctx.Err()
}

func (b *blocked) AssignDirs(ctx context.Context, _ int32, _ map[metadata.TopicPartition][16]byte) (int64, error) {
	return b.wait(ctx)
}

func (b *blocked) RaiseEpochs(ctx context.Context, _ map[metadata.TopicPartition]metadata.Raise) (int64, error) {
	return b.wait(ctx)
}

// History 33: the metadata store answers nothing, and the disk does not either. A broker learns all
// the same that it no longer leads.
func TestRolesWaitForNeitherStoreNorDisk(t *testing.T) {
	c, errs := newCluster(), errfs.New(vfs.Memory())
	l := start(t, errs, c)
	tp := c.shared(idA, self, 0)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	must(t, c.change(tp, func(p *metadata.Partition) { p.LeaderEpoch = 5 }))
	must(t, c.apply(t, l.Manager))
	must(t, begin(t, l.partition(t, idA, 0), AcksLeader, 1).wait(t))
	must(t, l.storage.Close())
	must(t, c.change(tp, func(p *metadata.Partition) { p.LeaderEpoch = 3 })) // restored from a copy

	l = start(t, errs, c)
	store := &blocked{cluster: c, entered: make(chan struct{})}
	l.opt.Cluster = store
	stuck := hold(t, errs, errfs.Mkdir, "/d/*")
	c.topic("b", idB, 1)
	must(t, c.show(t, l.Manager)) // raises the epoch, creates a log
	<-store.entered
	waitFor(t, "the disk holds the creation", func() bool { return stuck.Hits() > 0 })
	p := l.partition(t, idA, 0)
	for _, x := range []struct{ leader, epoch int32 }{{1, 6}, {2, 7}} {
		must(t, c.change(tp, func(p *metadata.Partition) { p.Leader, p.LeaderEpoch = x.leader, x.epoch }))
		must(t, c.show(t, l.Manager))
		if leader, epoch := p.Leader(); leader != x.leader || epoch != x.epoch {
			t.Errorf("led by %d in epoch %d, want %+v", leader, epoch, x)
		}
	}
}

// History 32: a topic was deleted and its name used again while the broker was down, or it was
// killed between the two. The old log is removed before the new one is created, and nothing stays.
func TestADeletedLogMakesRoomBeforeItsNameIsReused(t *testing.T) {
	c, fs := newCluster(), vfs.Memory()
	l := start(t, fs, c)
	c.topic("a", idA, 2)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	for i := range int32(2) {
		grow(t, l.partition(t, idA, i))
	}
	must(t, l.storage.Close())
	c.delete("a", idA, 2)
	c.topic("a", idB, 2)
	l = start(t, fs, c)
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	for i := range int32(2) {
		p := l.partition(t, idB, i)
		if grow(t, p); p.Ends().LogEnd != 1 {
			t.Errorf("%s has records of the deleted topic: %+v", p, p.Ends())
		}
	}
	waitFor(t, "only the new logs are in the directory", func() bool { return len(stored(t, fs, "/d")) == 2 })
	must(t, c.apply(t, l.Manager))
	if c.image.Deleting(idA) != nil {
		t.Error("the tombstone stays")
	}
}

// The applier combines revisions into one image. AwaitApplied for one of them waits for the tasks
// of that image.
func TestAwaitAppliedCoversCombinedRevisions(t *testing.T) {
	c, errs := newCluster(), errfs.New(vfs.Memory())
	l := start(t, errs, c)
	must(t, c.apply(t, l.Manager)) // revision 1
	stuck := hold(t, errs, errfs.Mkdir, "/d/*")
	c.topic("a", idA, 1)
	c.revision += 3
	must(t, c.show(t, l.Manager)) // 2 to 5
	waitFor(t, "the disk holds the creation", func() bool { return stuck.Hits() > 0 })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for version := range int64(8) {
		err := l.AwaitApplied(ended, version)
		if covered := version >= 2 && version <= 5; errors.Is(err, context.Canceled) != covered {
			t.Errorf("version %d: %v", version, err)
		}
	}
	stuck.open()
	must(t, l.AwaitApplied(t.Context(), 3))
	if !l.has(idA, 0) {
		t.Error("the log is not there")
	}
}

// A replica that an unclean election did not know has records of a later epoch than its leader's,
// which restored metadata gave. It asks for an epoch above its own, in which it follows, and asks
// again if that fails. A member asks for nothing.
func TestAReplicaThatWasPassedOverAsksForAHigherEpoch(t *testing.T) {
	c := newCluster()
	l := startWith(t, vfs.Memory(), c, Options{Incarnation: idA}, "/d")
	c.register(self, idA)
	tp := c.shared(idA, self, 9)
	c.partition(idA, 0, metadata.Partition{Leader: self, LeaderEpoch: 9, Replicas: []int32{self, 2}, ISR: []int32{self}})
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager)) // shows the placement
	p := l.partition(t, idA, 0)
	must(t, begin(t, p, AcksLeader, 3).wait(t))
	set := func(unclean int32, isr ...int32) {
		t.Helper()
		must(t, c.change(tp, func(p *metadata.Partition) {
			p.Leader, p.LeaderEpoch, p.Unclean, p.ISR = 2, 4, unclean, isr
		}))
		must(t, c.show(t, l.Manager))
		must(t, l.AwaitApplied(t.Context(), c.image.Version()))
	}
	set(4, self, 2)
	set(0, 2)
	if len(c.raised) != 0 {
		t.Fatalf("raised %v for a member, or without an unclean election", c.raised)
	}
	refuse := func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.fail = err
	}
	requests := func(n int) func() bool {
		return func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.raised) >= n
		}
	}
	refuse(metadata.ErrUnavailable)
	set(4, 2)
	waitFor(t, "the request has failed", requests(1))
	refuse(nil)
	waitFor(t, "it was repeated", requests(2))
	must(t, c.apply(t, l.Manager))
	must(t, c.apply(t, l.Manager))
	want := 9 + metadata.Gap([16]byte{})
	if now := c.image.Partition(tp); now.LeaderEpoch != want || now.Unclean != want || now.Leader != 2 {
		t.Fatalf("%+v, want epoch %d", now, want)
	}
	if lost, err := p.MayTruncate(want, 0); err != nil {
		t.Errorf("it does not follow: %v, %v", lost, err)
	}
}

// A record of log directories names a whole topic. A leader examines the partitions that it
// changes, and no others: with thousands of partitions, each move would delay all clients.
func TestAPlacementConcernsItsPartition(t *testing.T) {
	c := newCluster()
	l := start(t, vfs.Memory(), c)
	c.register(2, [16]byte{2})
	c.topic("a", idA, 2)
	for i := range int32(2) {
		must(t, c.change(metadata.TopicPartition{Topic: idA, Partition: i}, func(p *metadata.Partition) { p.Replicas = []int32{self, 2} }))
	}
	c.applyUntilPlaced(t, l.Manager, idA, 1)
	must(t, c.apply(t, l.Manager))
	roles := func() (list [2]*role) {
		for i := range list {
			list[i] = l.partition(t, idA, int32(i)).role.Load()
		}
		return list
	}
	before := roles()
	c.record(2, metadata.TopicPartition{Topic: idA, Partition: 1}, [16]byte{22})
	must(t, c.apply(t, l.Manager))
	if after := roles(); after[0] != before[0] || after[1] == before[1] {
		t.Errorf("partition 0 changed %t, partition 1 changed %t", after[0] != before[0], after[1] != before[1])
	}
}

// A topic is deleted while the log of a replica that left this broker could not be deleted yet. The
// tombstone stays until that log is gone: otherwise a start would find it and nothing would say
// whose it is.
func TestATombstoneOutlivesTheLogOfAReplicaThatLeft(t *testing.T) {
	c, errs, l, tp := leads(t)
	fault := errs.Add(errfs.Rule{Ops: errfs.Rename | errfs.Write | errfs.Create, Path: "/d/checkpoint/*", Err: syscall.EIO})
	c.assign(t, tp, 2)
	must(t, c.show(t, l.Manager))
	waitFor(t, "the deletion of the log has failed", func() bool {
		return fault.Hits() > 0 && l.opt.Storage.Get(storage.ID{Topic: idA}) == nil
	})
	c.delete("a", idA, 1)
	must(t, c.show(t, l.Manager))
	must(t, l.AwaitApplied(t.Context(), c.image.Version()))
	must(t, c.show(t, l.Manager))
	if c.image.Deleting(idA) == nil {
		t.Fatal("the tombstone is gone, and the log is not")
	}
	fault.Off()
	waitFor(t, "the tombstone is gone", func() bool {
		must(t, c.show(t, l.Manager))
		return c.image.Deleting(idA) == nil
	})
	if left := stored(t, errs, "/d"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
