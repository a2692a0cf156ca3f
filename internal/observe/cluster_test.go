package observe

import (
	"maps"
	"reflect"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/solestore"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// Brokers and led partitions are counted by state, and new leader epochs by where the leader comes
// from.
func TestAClustersMetricsFollowTheMetadata(t *testing.T) {
	store := solestore.Open(t, raftstore.Options{FS: vfs.Memory(), Dir: "/m", Log: zap.NewNop()})
	t.Cleanup(func() { _ = store.Close() })
	applier := metadata.NewApplier(zap.NewNop())
	core, logged := observer.New(zap.ErrorLevel)
	c := &Cluster{Self: 1, Log: zap.New(core), Image: applier.Image,
		MinISR:    func(*metadata.Image, *metadata.Topic, *metadata.Partition) int { return 1 },
		Elections: metrics.NewElections(nil), ISRChanges: metrics.NewISRChanges(nil)}
	applier.Subscribe("metrics", c.Follow)
	id := [16]byte{0xa0, 15: 1}
	write := func(kvs ...metadata.KV) {
		t.Helper()
		rev, err := store.Txn(t.Context(), metadata.Txn{Put: kvs})
		must.OK(t, err)
		must.OK(t, applier.WaitFor(t.Context(), rev))
	}
	partition := func(p metadata.Partition) { write(metadata.KV{Key: metadata.PartitionKey(id, 0), Value: p.Encode()}) }
	must.OK(t, applier.Start(t.Context(), store))
	t.Cleanup(applier.Stop)
	all := []int32{1, 2, 3}
	write(metadata.KV{Key: metadata.NameKey("a"), Value: metadata.Name{Topic: "a", ID: id}.Encode()},
		metadata.KV{Key: metadata.TopicKey(id), Value: metadata.TopicRecord{Name: "a", Partitions: 1}.Encode()},
		metadata.KV{Key: metadata.PartitionKey(id, 0), Value: metadata.Partition{Leader: 1, Replicas: all, ISR: all}.Encode()},
		metadata.KV{Key: metadata.BrokerKey(1), Value: metadata.Broker{}.Encode()},
		metadata.KV{Key: metadata.LivenessKey(1), Value: metadata.BrokerState{Liveness: metadata.Active}.Encode()},
		metadata.KV{Key: metadata.BrokerKey(2), Value: metadata.Broker{}.Encode()})
	for i, x := range []struct {
		p                    metadata.Partition
		isr                  map[int]int
		eligible, leaderless int
		counted              string
	}{
		{metadata.Partition{Leader: 1, LeaderEpoch: 0, Replicas: all, ISR: []int32{1}, ELR: []int32{3}}, map[int]int{1: 1}, 1, 0, ""},
		{metadata.Partition{Leader: -1, LeaderEpoch: 1, Replicas: all, ISR: []int32{1}, ELR: []int32{3}}, map[int]int{}, 0, 1, "none"},
		{metadata.Partition{Leader: 3, LeaderEpoch: 2, Replicas: all, ISR: []int32{3}, ELR: []int32{1}}, map[int]int{}, 0, 0, "elr"},
		{metadata.Partition{Leader: 2, LeaderEpoch: 5, Unclean: 5, Replicas: all, ISR: []int32{2}}, map[int]int{}, 0, 0, "unclean"},
		{metadata.Partition{Leader: 1, LeaderEpoch: 6, Unclean: 5, Replicas: all, ISR: []int32{1, 2}}, map[int]int{2: 1}, 0, 0, "isr"},
	} {
		x.p.PartitionEpoch = int32(i) + 1
		before := counts(t, c)
		partition(x.p)
		got := c.View()
		if !maps.Equal(got.ISR, x.isr) || got.Eligible != x.eligible || got.WithoutLeader() != x.leaderless ||
			got.Revision != applier.Image().Version() || got.Of(1).State != "active" || got.Of(2).State != "fenced" {
			t.Errorf("%d: %+v", i, got)
		}
		if x.counted != "" {
			before[x.counted]++
		}
		if got := counts(t, c); !maps.Equal(got, before) {
			t.Errorf("%d: counted %v, want %v", i, got, before)
		}
	}
	partition(metadata.Partition{Leader: 1, LeaderEpoch: 6, PartitionEpoch: 9, Unclean: 5, Replicas: all, ISR: []int32{1}, ELR: []int32{2},
		Adding: []int32{3}})
	partition(metadata.Partition{Leader: 1, LeaderEpoch: 6, PartitionEpoch: 10, Unclean: 5, Replicas: all, ISR: []int32{1, 3},
		Adding: []int32{3}})
	for kind, want := range map[string]float64{"shrink": 2, "expand": 2} { // with those of the steps above
		var m dto.Metric
		must.OK(t, c.ISRChanges.WithLabelValues(kind).Write(&m))
		if got := m.GetCounter().GetValue(); got != want {
			t.Errorf("%s: %v changes of ISRs that this broker leads, want %v", kind, got, want)
		}
	}
	if n := c.View().Moving; n != 1 {
		t.Errorf("%d partitions move, want 1", n)
	}
	logged.TakeAll()
	for _, p := range []metadata.Partition{
		{Leader: -1, LeaderEpoch: 20, Unclean: 5, PartitionEpoch: 20},
		{Leader: 2, LeaderEpoch: 21, Unclean: 21, PartitionEpoch: 21},
		{Leader: 2, LeaderEpoch: 21 + 1<<20, Unclean: 21 + 1<<20, PartitionEpoch: 22}, // its epoch is raised
		{Leader: 2, LeaderEpoch: 22 + 1<<20, Unclean: 22 + 1<<20, PartitionEpoch: 23}, // it has lost records, and leads again
	} {
		p.Replicas, p.ISR = all, []int32{2}
		partition(p)
	}
	if n := logged.Len(); n != 2 {
		t.Errorf("two losses, one of whose epochs is raised, are logged %d times", n)
	}
}

// A start finds the loss of the only replica, which its registration has written before.
func TestALossIsKnownAfterTheStart(t *testing.T) {
	for _, x := range []struct {
		p    metadata.Partition
		logs int
	}{
		{metadata.Partition{Leader: 1, LeaderEpoch: 6, Unclean: 5, Replicas: []int32{1}, ISR: []int32{1}}, 1},
		{metadata.Partition{Leader: 1, LeaderEpoch: 8, Unclean: 5, Replicas: []int32{1}, ISR: []int32{1}}, 0}, // of a start before
		{metadata.Partition{Leader: 1, LeaderEpoch: 5, Unclean: 5, Replicas: []int32{1, 2}, ISR: []int32{1}}, 1},
		{metadata.Partition{Leader: 1, LeaderEpoch: 6, Unclean: 5, Replicas: []int32{1, 2}, ISR: []int32{1}}, 0},
	} {
		core, logged := observer.New(zap.ErrorLevel)
		c := &Cluster{Self: 1, Log: zap.New(core)}
		store := solestore.Open(t, raftstore.Options{FS: vfs.Memory(), Dir: "/m", Log: zap.NewNop()})
		id := [16]byte{0xa0, 15: 1}
		_, err := store.Txn(t.Context(), metadata.Txn{Put: []metadata.KV{
			{Key: metadata.NameKey("a"), Value: metadata.Name{Topic: "a", ID: id}.Encode()},
			{Key: metadata.TopicKey(id), Value: metadata.TopicRecord{Name: "a", Partitions: 1}.Encode()},
			{Key: metadata.PartitionKey(id, 0), Value: x.p.Encode()}}})
		must.OK(t, err)
		applier := metadata.NewApplier(zap.NewNop())
		applier.Subscribe("metrics", c.Follow)
		must.OK(t, applier.Start(t.Context(), store))
		applier.Stop()
		must.OK(t, store.Close())
		if n := logged.Len(); n != x.logs {
			t.Errorf("%+v: %d losses are logged, want %d", x.p, n, x.logs)
		}
	}
}

// counts returns the counters of elections.
func counts(t *testing.T, c *Cluster) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, from := range []string{"isr", "elr", "unclean", "none"} {
		var m dto.Metric
		must.OK(t, c.Elections.WithLabelValues(from).Write(&m))
		all[from] = m.GetCounter().GetValue()
	}
	return all
}

// A listener name belongs to all active brokers: clients learn others by the name that they dialed.
func TestListenersThatSomeActiveBrokersLack(t *testing.T) {
	store := solestore.Open(t, raftstore.Options{FS: vfs.Memory(), Dir: "/m", Log: zap.NewNop()})
	t.Cleanup(func() { _ = store.Close() })
	applier := metadata.NewApplier(zap.NewNop())
	must.OK(t, applier.Start(t.Context(), store))
	t.Cleanup(applier.Stop)
	c := &Cluster{Self: 1, Image: applier.Image}
	write := func(kvs ...metadata.KV) {
		t.Helper()
		rev, err := store.Txn(t.Context(), metadata.Txn{Put: kvs})
		must.OK(t, err)
		must.OK(t, applier.WaitFor(t.Context(), rev))
	}
	register := func(id int32, state metadata.Liveness, dirs []metadata.BrokerDir, listeners ...string) {
		b := metadata.Broker{Member: uint64(id), Dirs: dirs}
		for _, name := range listeners {
			b.Listeners = append(b.Listeners, metadata.Endpoint{Listener: name, Host: "h", Port: 1})
		}
		write(metadata.KV{Key: metadata.BrokerKey(id), Value: b.Encode()},
			metadata.KV{Key: metadata.LivenessKey(id), Value: metadata.BrokerState{Liveness: state}.Encode()})
	}
	check := func(want ...view.Listener) {
		t.Helper()
		if got := c.View().Uncommon; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	disk := func(id byte) []metadata.BrokerDir { return []metadata.BrokerDir{{ID: [16]byte{id}}} }
	register(1, metadata.Active, disk(1), "default", "tls")
	register(2, metadata.Active, disk(2), "tls", "default")
	register(3, metadata.Fenced, disk(3), "brokers")
	register(4, metadata.Active, nil, "votes")
	register(5, metadata.Active, disk(5)) // it has run alone
	check()
	register(3, metadata.Active, disk(3), "brokers", "tls")
	check(view.Listener{Name: "brokers", On: []int32{3}, Lacks: []int32{1, 2}},
		view.Listener{Name: "default", On: []int32{1, 2}, Lacks: []int32{3}})
}
