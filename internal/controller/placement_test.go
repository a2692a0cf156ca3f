package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// Brokers of racks with as many brokers each get as many replicas, whichever broker leads first.
func TestEqualRacksGetAsManyReplicas(t *testing.T) {
	brokers := []candidate{{id: 0, rack: "a"}, {id: 1, rack: "a"}, {id: 2, rack: "b"}, {id: 3, rack: "b"}}
	for range 50 { // the first leader is random
		out, err := spread(brokers, 8, 2)
		must.OK(t, err)
		has := map[int32]int{}
		for _, b := range slices.Concat(out...) {
			has[b]++
		}
		for _, b := range brokers {
			if has[b.id] != 4 {
				t.Fatalf("%v: broker %d has %d replicas, want 4", out, b.id, has[b.id])
			}
		}
	}
}

// Replicas of a partition are in as many racks as possible, on the fittest brokers if there are
// enough, and brokers of equal racks get about as many.
func TestReplicasAreSpreadOverRacks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		brokers := make([]candidate, rapid.IntRange(1, 7).Draw(t, "brokers"))
		active, racks := 0, map[string]int{}
		for i := range brokers {
			brokers[i] = candidate{id: int32(i + 1), rack: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "rack"),
				fit: rapid.SampledFrom([]fitness{able, able, slow, unfit, voter}).Draw(t, "fit")}
		}
		holders := slices.DeleteFunc(slices.Clone(brokers), func(c candidate) bool { return c.fit == voter })
		best := slices.MinFunc(brokers, func(a, b candidate) int { return int(a.fit - b.fit) }).fit
		for _, c := range brokers {
			if c.fit == best && best < unfit {
				active++
				racks[c.rack]++
			}
		}
		rf, partitions := rapid.IntRange(1, 4).Draw(t, "rf"), rapid.Int32Range(1, 40).Draw(t, "partitions")
		out, err := spread(brokers, partitions, rf)
		if rf > len(holders) || active == 0 {
			if !isRefusal(err, InvalidReplicationFactor) {
				t.Fatalf("%d replicas on %d brokers, %d of them fit: %v", rf, len(brokers), active, err)
			}
			return
		}
		must.OK(t, err)
		leads := map[int32]int{}
		for _, list := range out {
			idle, has := 0, map[string]bool{}
			for _, b := range list {
				if brokers[b-1].fit == voter {
					t.Fatalf("replicas %v, one on a broker that only votes", list)
				}
				if c := brokers[b-1]; c.fit == best {
					has[c.rack] = true
				} else {
					idle++
				}
			}
			if len(slices.Compact(slices.Sorted(slices.Values(list)))) != rf || idle > max(rf-active, 0) {
				t.Fatalf("replicas %v, %d of them less fit", list, idle)
			}
			if brokers[list[0]-1].fit != best || len(has) < min(rf, len(racks)) {
				t.Fatalf("replicas %v are in %d racks of %d", list, len(has), len(racks))
			}
			leads[list[0]]++
		}
		for _, n := range leads {
			if want := int(partitions) / active; n < want || n > want+1 {
				t.Fatalf("%d of %d partitions on %d brokers are led by one", n, partitions, active)
			}
		}
	})
}

func (w *world) controller() *Controller {
	return over(w.store)
}

// Only active brokers are in the first ISR.
func TestANewPartitionIsInSyncOnActiveBrokersOnly(t *testing.T) {
	w := three(t)
	w.procs[3].up = false
	w.pass(DefaultSessionTimeout + DefaultHeartbeatInterval)
	c := w.controller()
	made, err := c.CreateTopic(context.Background(), manual(Assignment{0, []int32{3, 2, 1}}))
	w.must(err)
	w.must(w.applier.WaitShown(context.Background(), made.Revision))
	p := w.applier.Image().Partition(metadata.TopicPartition{Topic: made.ID})
	if p.Leader != 2 || !slices.Equal(p.ISR, []int32{2, 1}) || !slices.Equal(p.Replicas, []int32{3, 2, 1}) {
		t.Errorf("%+v", p)
	}
	spec := manual(Assignment{0, []int32{3}})
	spec.Name = "y"
	_, err = c.CreateTopic(context.Background(), spec)
	wantError(t, err, InvalidReplicaAssignment,
		"All brokers specified in the manual partition assignment are fenced or in controlled shutdown, or have no log directory that works.")
}

// New partitions are on brokers with a log directory that works and has room, as long as there are
// enough. A broker without a directory that works leads none and is in sync in none.
func TestNewPartitionsAreWhereTheyCanBeWritten(t *testing.T) {
	w := three(t)
	create := func(name string, rf int16) metadata.Partition {
		t.Helper()
		made, err := w.controller().CreateTopic(context.Background(), TopicSpec{Name: name, Partitions: 1, ReplicationFactor: rf})
		w.must(err)
		w.must(w.applier.WaitShown(context.Background(), made.Revision))
		return *w.applier.Image().Partition(metadata.TopicPartition{Topic: made.ID})
	}
	w.procs[1].failed, w.procs[2].unable = [][16]byte{{1}}, metadata.DirLow
	w.pass(time.Second)
	for i := range 10 {
		if p := create(fmt.Sprint("one", i), 1); p.Leader != 3 {
			t.Fatalf("led by %d", p.Leader)
		}
	}
	if p := create("two", 2); p.Leader != 3 || !slices.Equal(p.Replicas, []int32{3, 2}) || !slices.Equal(p.ISR, []int32{3}) {
		t.Errorf("of two: %+v", p)
	}
	if p := create("three", 3); p.Leader != 3 || !slices.Equal(p.ISR, []int32{3}) {
		t.Errorf("of three: %+v", p)
	}
	internal := metadata.Partition{Replicas: []int32{3}}
	if got := raised(w.applier.Image(), &internal, 0, 2); got != nil {
		t.Errorf("an internal topic gets the replicas %v", got)
	}
	w.procs[3].unable = metadata.DirHung
	w.pass(time.Second)
	if p := create("none", 1); p.Leader == 1 {
		t.Errorf("no broker has room: %+v", p)
	}
	w.procs[2].failed, w.procs[3].failed = [][16]byte{{2}}, [][16]byte{{3}}
	w.procs[2].unable, w.procs[3].unable = 0, 0
	w.pass(time.Second)
	_, err := w.controller().CreateTopic(context.Background(), TopicSpec{Name: "no", Partitions: 1, ReplicationFactor: 1})
	if !isRefusal(err, InvalidReplicationFactor) {
		t.Errorf("no directory works: %v", err)
	}
}

// A broker that is fenced between the choice of replicas and the transaction is not chosen: the
// controller has examined the partitions of the broker by then.
func TestAFencedBrokerIsNotChosen(t *testing.T) {
	w := three(t)
	r := &rival{Store: w.store, times: 1, act: func() {
		w.put(metadata.LivenessKey(1), metadata.BrokerState{Liveness: metadata.Fenced}.Encode())
	}}
	spec := manual(Assignment{0, []int32{1, 2}})
	spec.Name = "z"
	made, err := over(r).CreateTopic(context.Background(), spec)
	w.must(err)
	w.must(w.applier.WaitShown(context.Background(), made.Revision))
	if p := w.applier.Image().Partition(metadata.TopicPartition{Topic: made.ID}); p.Leader != 2 || !slices.Equal(p.ISR, []int32{2}) {
		t.Errorf("%+v", p)
	}
}

// A placement that a dead process sent does not arrive during or after the registration of its
// successor.
func TestAPlacementOfAFormerProcessIsRefused(t *testing.T) {
	for step := range 4 {
		w := three(t)
		r := &rival{Store: w.store, times: step}
		former := w.procs[3]
		late := &delayed{Store: w.store}
		_, err := over(late).As(former.Incarnation).AssignDirs(context.Background(), 3, map[metadata.TopicPartition][16]byte{tpA: {33}})
		if !errors.Is(err, errCut) || late.txn == nil {
			t.Fatal(err)
		}
		r.act = func() {
			if r.times == 0 {
				_, _ = w.store.Txn(context.Background(), *late.txn)
			}
		}
		w.use(r)
		p := w.start(3, func(q *RegisterRequest) { q.Dirs[0].ID = [16]byte{99} })
		_, _ = w.store.Txn(context.Background(), *late.txn)
		if _, err := over(w.store).As(former.Incarnation).AssignDirs(context.Background(), 3,
			map[metadata.TopicPartition][16]byte{tpA: {34}}); !isRefusal(err, StaleBrokerEpoch) {
			t.Errorf("the former process still writes: %v", err)
		}
		w.pass(DefaultHeartbeatInterval)
		if dir, _ := w.applier.Image().Placement(3, tpA); step != 1 && dir != [16]byte{3} {
			t.Errorf("sent before transaction %d: placed in %v", step, dir)
		}
		if p := w.applier.Image().Partition(tpA); slices.Contains(p.ISR, 3) {
			t.Errorf("sent before transaction %d: an empty log is in sync", step)
		}
		_, err = over(w.store).As(p.Incarnation).AssignDirs(context.Background(), 3, map[metadata.TopicPartition][16]byte{tpA: {99}})
		w.must(err)
	}
}

// delayed is a store that keeps the Txns instead of making them.
type delayed struct {
	metadata.Store
	txn *metadata.Txn
}

func (d *delayed) Txn(_ context.Context, t metadata.Txn) (int64, error) {
	d.txn = &t
	return 0, errCut
}

// lagging is a store of a node that shows changes late: reads show the state of an earlier
// revision until WaitFor.
type lagging struct {
	metadata.Store
	shown map[string]metadata.KV // nil: everything
	waits int
}

func (l *lagging) Get(ctx context.Context, key string) (metadata.KV, int64, error) {
	if l.shown != nil {
		return l.shown[key], 1, nil
	}
	return l.Store.Get(ctx, key)
}

func (l *lagging) WaitFor(ctx context.Context, revision int64) error {
	l.shown = nil
	l.waits++
	return l.Store.WaitFor(ctx, revision)
}

// History 47: after a conflict, the operation waits until its own store shows what was in the way.
func TestAConflictIsWaitedFor(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	if _, _, err := c.ProducerIDBlock(ctx); err != nil {
		t.Fatal(err)
	}
	none := metadata.KV{Key: metadata.ProducerIDsKey, ModRevision: 1, Value: metadata.ProducerIDs{}.Encode()}
	l := &lagging{Store: s, shown: map[string]metadata.KV{none.Key: none}}
	first, _, err := over(l).ProducerIDBlock(ctx)
	if err != nil || first != ProducerIDBlockSize || l.waits != 1 {
		t.Errorf("block from %d after %d waits, %v", first, l.waits, err)
	}
}
