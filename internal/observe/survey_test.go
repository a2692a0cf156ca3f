package observe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/solestore"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// world is the metadata of a cluster of three brokers and a topic with one partition.
type world struct {
	t       *testing.T
	store   *raftstore.Store
	applier *metadata.Applier
	facts   *Cluster
	orphans int
}

var (
	topicA = [16]byte{0xa0, 15: 1}
	dirs   = map[int32][16]byte{1: {1}, 2: {2}, 3: {3}}
)

func newWorld(t *testing.T) *world {
	store := solestore.Open(t, raftstore.Options{FS: vfs.Memory(), Dir: "/m", Log: zap.NewNop()})
	t.Cleanup(func() { _ = store.Close() })
	w := &world{t: t, store: store, applier: metadata.NewApplier(zap.NewNop())}
	w.facts = &Cluster{Image: w.applier.Image, Log: zap.NewNop(),
		MinISR:    func(*metadata.Image, *metadata.Topic, *metadata.Partition) int { return 2 },
		Member:    func(_ *metadata.Image, c *view.Cluster) { c.Quorum.Orphans = w.orphans },
		Elections: metrics.NewElections(nil), ISRChanges: metrics.NewISRChanges(nil)}
	w.applier.Subscribe("facts", w.facts.Follow)
	must.OK(t, w.applier.Start(t.Context(), store))
	t.Cleanup(w.applier.Stop)
	for id, dir := range dirs {
		w.put(metadata.KV{Key: metadata.BrokerKey(id), Value: metadata.Broker{Dirs: []metadata.BrokerDir{{ID: dir}}}.Encode()})
		w.state(id, metadata.BrokerState{Liveness: metadata.Active})
		placed := new(metadata.Placement).With(map[int32][16]byte{0: dir})
		w.put(metadata.KV{Key: metadata.PlacementKey(id, topicA), Value: placed.Encode()})
	}
	w.put(metadata.KV{Key: metadata.NameKey("a"), Value: metadata.Name{Topic: "a", ID: topicA}.Encode()},
		metadata.KV{Key: metadata.TopicKey(topicA), Value: metadata.TopicRecord{Name: "a", Partitions: 1}.Encode()},
		metadata.KV{Key: metadata.PartitionKey(topicA, 0), Value: metadata.Partition{Leader: 1, Replicas: all(), ISR: all()}.Encode()})
	return w
}

func all() []int32 { return []int32{1, 2, 3} }

func (w *world) put(kvs ...metadata.KV) {
	w.t.Helper()
	rev, err := w.store.Txn(w.t.Context(), metadata.Txn{Put: kvs})
	must.OK(w.t, err)
	must.OK(w.t, w.applier.WaitFor(w.t.Context(), rev))
}

func (w *world) state(broker int32, s metadata.BrokerState) {
	w.t.Helper()
	w.put(metadata.KV{Key: metadata.LivenessKey(broker), Value: s.Encode()})
}

func (w *world) partition(p metadata.Partition) {
	w.t.Helper()
	if p.Replicas == nil {
		p.Replicas = all()
	}
	w.put(metadata.KV{Key: metadata.PartitionKey(topicA, 0), Value: p.Encode()})
}

func (w *world) at(now time.Time) *view.Cluster {
	f := checks.Facts{Now: now}
	w.facts.Facts(&f)
	return f.Cluster
}

// Without a metadata leader no ISR changes, so a partition waits for each broker in it.
func TestPartitionsThatWaitForABrokerThatIsNotReached(t *testing.T) {
	w := newWorld(t)
	var away []int32
	w.facts.Member = func(_ *metadata.Image, c *view.Cluster) {
		c.Quorum.Away = away
		for _, id := range away[:len(away)/2] { // no connection of replicas to others
			c.Unreached = append(c.Unreached, view.Unreached{Broker: id})
		}
	}
	for i, x := range []struct {
		leader    int32
		isr, away []int32
		apart     int
	}{
		{1, all(), nil, 0}, {1, all(), []int32{3}, 1}, {1, []int32{1, 2}, []int32{3}, 0},
		{1, []int32{1}, []int32{2, 3}, 1}, // fewer than min.insync.replicas
		{2, []int32{1, 2}, []int32{2, 3}, 1}, {-1, []int32{1}, nil, 1},
	} {
		away = x.away
		w.partition(metadata.Partition{Leader: x.leader, LeaderEpoch: int32(i), ISR: x.isr})
		if c := w.at(time.Now()); c.Partitions != 1 || c.Apart != x.apart {
			t.Errorf("%+v: %d of %d partitions wait", x, c.Apart, c.Partitions)
		}
	}
}

// A replica that is not in sync counts for its broker, and its partition as refusing acks=all if
// too few others are in sync. One that a reassignment adds is not missing.
func TestReplicasNotInSyncCountForTheirBroker(t *testing.T) {
	w := newWorld(t)
	w.partition(metadata.Partition{Leader: 1, LeaderEpoch: 1, ISR: []int32{1, 2}})
	missing := view.Partitions{Count: 1, Names: []string{"a-0"}}
	want := []view.Broker{{ID: 1, State: "active", Leads: 1, Replicas: 1, UnderReplicated: 1}, {ID: 2, State: "active", Replicas: 1},
		{ID: 3, State: "active", Replicas: 1, OutOfSync: missing, AtMin: 1}}
	if diff := cmp.Diff(want, w.at(time.Now()).Brokers, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("one is missing (-want +got):\n%s", diff)
	}
	w.state(3, metadata.BrokerState{})
	w.partition(metadata.Partition{Leader: 1, LeaderEpoch: 1, ISR: []int32{1}, ELR: []int32{2}})
	want = []view.Broker{{ID: 1, State: "active", Leads: 1, Replicas: 1, UnderReplicated: 1, UnderMinISR: 1},
		{ID: 2, State: "active", Replicas: 1, OutOfSync: missing, BelowMin: missing},
		{ID: 3, State: "fenced", Replicas: 1, OutOfSync: missing, BelowMin: missing}}
	if diff := cmp.Diff(want, w.at(time.Now()).Brokers, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("two are missing (-want +got):\n%s", diff)
	}
	w.partition(metadata.Partition{Leader: 1, LeaderEpoch: 1, ISR: []int32{1, 2}, Adding: []int32{3}})
	if x := w.at(time.Now()).Brokers; x[2].OutOfSync.Count != 0 || x[0].UnderReplicated != 0 {
		t.Errorf("a replica that is added is missing: %+v", x)
	}
}

// A replica that is not in sync with a leader whose log is damaged waits for that one, unless it is
// not there: then it may have what the leader lacks.
func TestAReplicaWaitsForALeaderWithADamagedLog(t *testing.T) {
	w := newWorld(t)
	w.partition(metadata.Partition{Leader: 1, LeaderEpoch: 1, ISR: []int32{1, 2}})
	awaits := func() []int32 { return w.at(time.Now()).Brokers[2].Awaits }
	if got := awaits(); len(got) > 0 {
		t.Errorf("the leader's log is whole: %v", got)
	}
	w.state(1, metadata.BrokerState{Liveness: metadata.Active, Damaged: []metadata.TopicPartition{{Topic: topicA}}})
	if got := awaits(); !slices.Equal(got, []int32{1}) {
		t.Errorf("the leader's log is damaged: %v", got)
	}
	w.state(3, metadata.BrokerState{})
	if got := awaits(); len(got) > 0 {
		t.Errorf("it is fenced: %v", got)
	}
}

// After a recovery the metadata do not say which replicas are in sync. What is known is which ones
// are there, and not that logs are damaged.
func TestRecoveredPartitionsWaitForAnOperator(t *testing.T) {
	w := newWorld(t)
	w.put(metadata.KV{Key: metadata.ClusterKey,
		Value: metadata.Cluster{ID: "c", Recovered: 1, FeatureLevel: metadata.MaxFeatureLevel}.Encode()})
	w.partition(metadata.Partition{Leader: -1})
	if at := w.at(time.Now()).Recovered; !at.Equal(time.UnixMilli(1)) {
		t.Errorf("recovered at %v", at)
	}
	if l := w.at(time.Now()).Leaderless; len(l) != 1 || l[0].Why != view.Recovered || len(l[0].Brokers) > 0 || !l[0].Lossless {
		t.Errorf("all replicas are there: %+v", l)
	}
	w.state(2, metadata.BrokerState{})
	w.state(3, metadata.BrokerState{Liveness: metadata.Active, Damaged: []metadata.TopicPartition{{Topic: topicA}}})
	if l := w.at(time.Now()).Leaderless; len(l) != 1 || l[0].Why != view.Recovered || !slices.Equal(l[0].Brokers, []int32{2, 3}) {
		t.Errorf("one is away, and one damaged: %+v", l)
	}
}

// A broker that cannot write is seen, with what it leads nevertheless.
func TestBrokersThatCannotWrite(t *testing.T) {
	w := newWorld(t)
	w.state(1, metadata.BrokerState{Liveness: metadata.Active, Unable: []metadata.UnableDir{{ID: dirs[1], Why: metadata.DirLow}}})
	w.state(2, metadata.BrokerState{Liveness: metadata.Active, Unable: []metadata.UnableDir{{ID: dirs[2], Why: metadata.DirHung}}})
	w.state(3, metadata.BrokerState{Liveness: metadata.Active, Unable: []metadata.UnableDir{{ID: dirs[3], Why: metadata.DirFailed}},
		Damaged: []metadata.TopicPartition{{Topic: topicA}}})
	w.partition(metadata.Partition{Leader: 1, LeaderEpoch: 1, ISR: []int32{1, 2, 3}})
	one := view.Partitions{Count: 1, Names: []string{"a-0"}}
	want := []view.Broker{{ID: 1, State: "active", Leads: 1, Replicas: 1, LowDirs: 1, Full: one},
		{ID: 2, State: "active", Replicas: 1, HungDirs: 1}, {ID: 3, State: "active", Replicas: 1, FailedDirs: 1, Damaged: one}}
	if diff := cmp.Diff(want, w.at(time.Now()).Brokers, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A damaged log that its broker leads is known as the last one: no copy replaces it.
func TestTheLastDamagedLogIsSeen(t *testing.T) {
	w := newWorld(t)
	for id := range int32(2) {
		w.state(id+1, metadata.BrokerState{Liveness: metadata.Active, Damaged: []metadata.TopicPartition{{Topic: topicA}}})
	}
	w.partition(metadata.Partition{Leader: 1, LeaderEpoch: 1, ISR: []int32{1}})
	b := w.at(time.Now()).Brokers
	if b[0].LastDamaged.Count != 1 || b[1].LastDamaged.Count != 0 || b[1].Damaged.Count != 1 {
		t.Errorf("%+v", b)
	}
	w.partition(metadata.Partition{Leader: 1, LeaderEpoch: 1, ISR: []int32{1}, Replicas: []int32{1}})
	if b = w.at(time.Now()).Brokers; b[0].LastDamaged.Count != 0 || b[0].SoleDamaged.Count != 1 {
		t.Errorf("the only replica: %+v", b)
	}
}

// What a partition without a leader waits for depends on who has its records, and where.
func TestWhatAPartitionWithoutALeaderWaitsFor(t *testing.T) {
	w := newWorld(t)
	down := metadata.BrokerState{}
	for _, x := range []struct {
		name  string
		p     metadata.Partition
		state map[int32]metadata.BrokerState
		want  view.Waiting
		on    []int32
	}{
		{"ISR away", metadata.Partition{ISR: []int32{2}}, map[int32]metadata.BrokerState{2: down}, view.ForBrokers, []int32{2}},
		{"the only replica is away", metadata.Partition{Replicas: []int32{2}, ELR: []int32{2}}, map[int32]metadata.BrokerState{2: down},
			view.ForBrokers, []int32{2}},
		{"ELR away, too", metadata.Partition{ISR: []int32{2}, ELR: []int32{3}}, map[int32]metadata.BrokerState{2: down, 3: down},
			view.ForBrokers, []int32{2, 3}},
		{"ELR can lead", metadata.Partition{ISR: []int32{2}, ELR: []int32{3}}, map[int32]metadata.BrokerState{2: down},
			view.Elected, []int32{2, 3}},
		{"one is not compared", metadata.Partition{ISR: []int32{2, 3}}, map[int32]metadata.BrokerState{3: down,
			2: {Liveness: metadata.Active, Uncompared: true}}, view.Comparison, []int32{3}},
		{"the only member is not compared", metadata.Partition{ISR: []int32{2}}, map[int32]metadata.BrokerState{
			2: {Liveness: metadata.Active, Uncompared: true}}, view.Elected, []int32{2}},
		{"its directory failed", metadata.Partition{ISR: []int32{2}},
			map[int32]metadata.BrokerState{2: {Liveness: metadata.Active,
				Unable: []metadata.UnableDir{{ID: dirs[2], Why: metadata.DirFailed}}}},
			view.ForDirectory, []int32{2}},
		{"its log is damaged", metadata.Partition{ISR: []int32{2}}, map[int32]metadata.BrokerState{2: {Liveness: metadata.Active,
			Damaged: []metadata.TopicPartition{{Topic: topicA}}}}, view.ForDirectory, []int32{2}},
		{"last away", metadata.Partition{Last: metadata.LastReplica{Broker: 3, Dir: dirs[3]}}, map[int32]metadata.BrokerState{3: down},
			view.ForBrokers, []int32{3}},
		{"last is back without its directory", metadata.Partition{Last: metadata.LastReplica{Broker: 3, Dir: [16]byte{9}}}, nil,
			view.ForDirectory, []int32{3}},
		{"lossy", metadata.Partition{Last: metadata.LastReplica{Broker: 3, Dir: dirs[3], Lossy: true}},
			map[int32]metadata.BrokerState{1: down}, view.Lossy, []int32{1}},
	} {
		for id := range dirs {
			s := metadata.BrokerState{Liveness: metadata.Active}
			if other, ok := x.state[id]; ok {
				s = other
			}
			w.state(id, s)
		}
		x.p.Leader = -1
		w.partition(x.p)
		now := time.Now()
		w.at(now)
		got := w.at(now.Add(time.Minute)).Leaderless
		for i := range got {
			got[i].For = got[i].For.Round(time.Second) // the case before may have had the same reason
		}
		want := []view.Leaderless{{Partitions: view.Partitions{Count: 1, Names: []string{"a-0"}}, Why: x.want, Brokers: x.on,
			Sole: len(x.p.Replicas) == 1, For: time.Minute}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", x.name, diff)
		}
	}
}

// An unclean election remains a finding, whatever leader follows and whatever process has started
// since, until an operator confirms it.
func TestUncleanElectionsAreFoundUntilTheyAreConfirmed(t *testing.T) {
	w := newWorld(t)
	if at := w.at(time.Now()).Recovered; !at.IsZero() {
		t.Errorf("recovered at %v", at)
	}
	for _, x := range []struct {
		epoch, unclean, confirmed int32
		want                      int
	}{{4, 0, 0, 0}, {5, 5, 0, 1}, {6, 5, 0, 1}, {60, 5, 0, 1}, {61, 5, 5, 0}, {62, 62, 5, 1}} {
		w.partition(metadata.Partition{Leader: 2, LeaderEpoch: x.epoch, Unclean: x.unclean, Confirmed: x.confirmed, ISR: []int32{2}})
		if got := w.at(time.Now().Add(25 * time.Hour)).Unclean; got.Count != x.want || x.want > 0 && got.Names[0] != "a-0" {
			t.Errorf("%+v: found %+v", x, got)
		}
	}
}

// A broker that starts logs the present leader's election only.
func TestAStartLogsThePresentUncleanElection(t *testing.T) {
	w := newWorld(t)
	core, logs := observer.New(zap.ErrorLevel)
	again := &Cluster{Log: zap.New(core)}
	for epoch, want := range map[int32]int{5: 1, 6: 0} {
		w.partition(metadata.Partition{Leader: 2, LeaderEpoch: epoch, Unclean: 5, ISR: []int32{2}})
		first := &metadata.Delta{Created: []*metadata.Topic{w.applier.Image().TopicByID(topicA)}}
		must.OK(t, again.Follow(t.Context(), nil, nil, first))
		if n := len(logs.TakeAll()); n != want {
			t.Errorf("epoch %d: a new process logs %d", epoch, n)
		}
	}
}

// A voter without a broker counts from the time at which it was first seen.
func TestSinceWhenAVoterHasNoBroker(t *testing.T) {
	w := newWorld(t)
	begin := time.Now()
	w.at(begin)
	w.orphans = 1
	w.at(begin.Add(time.Minute))
	if got := w.at(begin.Add(2 * time.Minute)).Quorum.Orphaned; got != time.Minute {
		t.Errorf("orphaned for %v, want a minute", got)
	}
	w.orphans = 0
	if got := w.at(begin.Add(3 * time.Minute)).Quorum.Orphaned; got != 0 {
		t.Errorf("orphaned for %v although its broker is back", got)
	}
}

// A follower that lags is the same in metrics, in the findings and in the JSON of the admin port. A
// replica that a reassignment adds is in none of them.
func TestALaggingFollowerIsTheSameEverywhere(t *testing.T) {
	w := newWorld(t)
	w.facts.Self = 1
	w.facts.Lags = func() map[int32]replica.Lag {
		return map[int32]replica.Lag{3: {Records: 120, Longest: 2500 * time.Millisecond}}
	}
	reg := prometheus.NewRegistry()
	must.OK(t, metrics.RegisterCluster(reg, w.facts.View))
	for _, x := range []struct {
		adding []int32
		out    int
	}{{nil, 1}, {[]int32{3}, 0}} {
		w.partition(metadata.Partition{Leader: 1, LeaderEpoch: 1, ISR: []int32{1, 2}, Adding: x.adding})
		now := w.facts.View()
		text, err := json.Marshal(view.Brokers{List: now.Brokers})
		must.OK(t, err)
		if want := fmt.Sprintf(`"outOfSync":{"count":%d,`, x.out); !strings.Contains(string(text), want) ||
			!strings.Contains(string(text), `"lag":{"records":120,"ms":2500}`) {
			t.Errorf("%+v: no %s in %s", x, want, text)
		}
		got := map[string]float64{}
		all, err := reg.Gather()
		must.OK(t, err)
		for _, m := range all {
			got[m.GetName()] = m.GetMetric()[0].GetGauge().GetValue()
		}
		if got["chronik_partitions_under_replicated"] != float64(x.out) ||
			got["chronik_partitions_reassigning"] != float64(len(x.adding)) ||
			got["chronik_replica_lag_records"] != 120 || got["chronik_replica_lag_seconds"] != 2.5 {
			t.Errorf("%+v: %v", x, got)
		}
		findings, _ := checks.Examine(checks.Checks(), &checks.Facts{Serving: true, Cluster: now})
		about := slices.ContainsFunc(findings, func(f health.Finding) bool {
			return f.Subject == "broker 3" && strings.Contains(f.Problem, "a-0")
		})
		if about != (x.out > 0) {
			t.Errorf("%+v: %+v", x, findings)
		}
	}
}

// What an image says is read once. What does not follow from it is always as it is now, and what
// one caller gets does not change with the next call.
func TestAnImageIsReadOnce(t *testing.T) {
	w := newWorld(t)
	w.facts.Self = 1
	read := 0
	w.facts.MinISR = func(*metadata.Image, *metadata.Topic, *metadata.Partition) int { read++; return 2 }
	w.facts.Lags = func() map[int32]replica.Lag { return map[int32]replica.Lag{3: {Records: int64(read)}} }
	first, text := w.facts.View(), func(c *view.Cluster) string { return fmt.Sprintf("%+v", *c) }
	was, once := text(first), read
	for range 3 {
		w.at(time.Now())
	}
	if read != once || once == 0 {
		t.Errorf("the image was read %d times, want once", read/max(once, 1))
	}
	w.partition(metadata.Partition{Leader: 1, ISR: []int32{1}})
	if next := w.facts.View(); next.Apart != 1 || next.Brokers[2].OutOfSync.Count != 1 || next.Brokers[2].Lag.Records != int64(read) {
		t.Errorf("after a change: %+v", next)
	}
	if now := text(first); now != was {
		t.Errorf("a view has changed from %s to %s", was, now)
	}
}
