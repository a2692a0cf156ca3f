package service

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/desk"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// shared is a broker with a share coordinator and what reaches it.
type shared struct {
	*broker
	t      testing.TB
	shares *Shares
	desk   *desk.Desk
	end    func()
}

// withShares starts a broker with a share coordinator.
func withShares(t testing.TB, fs vfs.FS, change func(*SharesOptions)) *shared {
	t.Helper()
	x := &shared{t: t}
	b, stop := startWith(t, fs, func(b *broker) {
		opt := SharesOptions{
			Options: Options{Self: 1, Replicas: b.replicas, Controller: b.control, Logger: zap.NewNop()}, Configs: b.configs,
			Static:  map[string]string{"share.coordinator.state.topic.num.partitions": "2"},
			Changed: func(c sharestate.Changed) { x.desk.Notify(c) },
		}
		change(&opt)
		var err error
		x.shares, err = NewShares(opt)
		must(t, err)
		x.desk = desk.New(desk.Options{Self: 1, Coordinators: x.shares, Logger: zap.NewNop()})
		b.add(x.shares.Service)
	})
	x.broker, x.end = b, func() {
		x.desk.Close()
		stop()
	}
	return x
}

func directories(t testing.TB) vfs.FS {
	t.Helper()
	fs := vfs.Memory()
	must(t, vfs.MakeDir(fs, "/metadata"))
	must(t, vfs.MakeDir(fs, "/logs"))
	return fs
}

// topic creates a topic of ten partitions, and returns its id.
func (x *shared) topic(name string) [16]byte {
	x.t.Helper()
	made, err := x.control.CreateTopic(x.t.Context(), controller.TopicSpec{Name: name, Partitions: 10, ReplicationFactor: 1})
	must(x.t, err)
	must(x.t, x.applier.WaitFor(x.t.Context(), made.Revision))
	return x.applier.Image().Topic(name).ID
}

// ask waits for the results of a request.
func ask[Item, Result any](x *shared, method func(context.Context, []Item, func([]Result)), items ...Item) []Result {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	answered := make(chan []Result, 1)
	method(ctx, items, func(results []Result) { answered <- results })
	return <-answered
}

// open initializes and opens a state, and returns what its leader then writes with.
func (x *shared) open(k format.Key) sharestate.Writing {
	x.t.Helper()
	begin := sharestate.Initializing{Key: k, StateEpoch: 1, Start: 0, Coordinator: sharestate.AnyCoordinator}
	if errs := ask(x, x.desk.Initialize, begin); errs[0] != nil {
		x.t.Fatal(errs[0])
	}
	p := ask(x, x.desk.Peek, k)[0]
	leader := x.applier.Image().TopicByID(k.Topic).Partitions.At(k.Partition).LeaderEpoch
	o := ask(x, x.desk.Open, sharestate.Opening{Key: k, ID: p.ID, Recorded: p.Leader, Leader: leader, Cut: -1,
		Epochs: sharetest.Epochs(leader)})[0]
	if p.Err != nil || o.Err != nil {
		x.t.Fatal(p.Err, o.Err)
	}
	return sharestate.Writing{Key: k, ID: p.ID, Leader: leader}
}

// accept stores that an offset is accepted, without a move of the start.
func (x *shared) accept(w sharestate.Writing, offset int64) {
	x.t.Helper()
	w.Marks = []window.Mark{{First: offset, Last: offset, State: window.Acknowledged, Count: 1}}
	w.Complete = 1
	if errs := ask(x, x.desk.Write, w); errs[0] != nil {
		x.t.Fatal(errs[0])
	}
}

// stored returns the state of a share partition, read by another open of its leader.
func (x *shared) stored(w sharestate.Writing) string {
	x.t.Helper()
	p := ask(x, x.desk.Peek, w.Key)[0]
	leader := x.applier.Image().TopicByID(w.Key.Topic).Partitions.At(w.Key.Partition).LeaderEpoch
	o := ask(x, x.desk.Open, sharestate.Opening{Key: w.Key, ID: w.ID, Recorded: p.Leader, Leader: leader, Cut: -1,
		Epochs: sharetest.Epochs(leader)})[0]
	if o.Err != nil {
		return o.Err.Message
	}
	return fmt.Sprint(o.Stored)
}

// The first Initialize creates the topic, and nothing before that does. What is stored survives a
// restart.
func TestTheFirstStateCreatesTheTopicOfShareGroups(t *testing.T) {
	fs := directories(t)
	x := withShares(t, fs, func(*SharesOptions) {})
	k := format.Key{Group: "g", Topic: x.topic("orders"), Partition: 3}
	if p := ask(x, x.desk.Peek, k)[0]; p.Err != kerr.InvalidRequest {
		t.Errorf("before the first state: %+v", p)
	}
	if s := ask(x, x.desk.Summarize, k)[0]; s.Err != kerr.InvalidRequest || x.applier.Image().Topic(SharesTopic) != nil {
		t.Errorf("before the first state: %+v", s)
	}
	w := x.open(k)
	x.accept(w, 5)
	topic := x.applier.Image().Topic(SharesTopic)
	for name, want := range map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1",
		"segment.bytes": "104857600", "min.insync.replicas": "2", configdef.DurabilityProfile: durability.Default} {
		if got := topic.Configs[name]; got != want {
			t.Errorf("%s of the topic is %q, want %q", name, got, want)
		}
	}
	if !topic.Internal || topic.Partitions.Len() != 2 {
		t.Errorf("%+v", topic)
	}
	want := x.stored(w)
	x.end()
	x = withShares(t, fs, func(*SharesOptions) {})
	defer x.end()
	if got := x.stored(w); got != want || want != "{0 [{5 5 acknowledged 1}]}" {
		t.Errorf("after a restart: %s, before: %s", got, want)
	}
}

// States of a deleted topic are removed, and internal topics have none.
func TestStatesEndWithTheirTopic(t *testing.T) {
	x := withShares(t, directories(t), func(*SharesOptions) {})
	defer x.end()
	w := x.open(format.Key{Group: "g", Topic: x.topic("orders")})
	if x.shares.Memory().Used() == 0 {
		t.Error("a state takes no memory")
	}
	internal := format.Key{Group: "g", Topic: x.applier.Image().Topic(SharesTopic).ID}
	err := ask(x, x.desk.Initialize, sharestate.Initializing{Key: internal, StateEpoch: 1, Coordinator: sharestate.AnyCoordinator})[0]
	if err != kerr.UnknownTopicOrPartition {
		t.Errorf("a state for an internal topic: %v", err)
	}
	revision, failed := x.control.DeleteTopic(t.Context(), w.Key.Topic)
	must(t, failed)
	must(t, x.applier.WaitFor(t.Context(), revision))
	for end := time.Now().Add(time.Minute); x.shares.Memory().Used() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the states of a deleted topic stay")
		}
	}
}

// The shards know the leader epochs of group coordinators as soon as the metadata have them.
func TestShardsKnowGroupCoordinators(t *testing.T) {
	x := withShares(t, directories(t), func(*SharesOptions) {})
	defer x.end()
	k := format.Key{Group: "g", Topic: x.topic("orders")}
	x.open(k)
	if epoch := (leaderEpochs{x.applier.Image()}).GroupEpoch("g"); epoch != -1 {
		t.Errorf("without a topic: leader epoch %d", epoch)
	}
	x.topic(OffsetsTopic)
	topic := x.applier.Image().Topic(OffsetsTopic)
	want := topic.Partitions.At(coordinator.PartitionFor("g", topic.Partitions.Len())).LeaderEpoch
	if epoch := (leaderEpochs{x.applier.Image()}).GroupEpoch("g"); epoch != want {
		t.Errorf("leader epoch %d, want %d", epoch, want)
	}
	if errs := ask(x, x.desk.Delete, sharestate.Deleting{Key: k, Coordinator: want}); errs[0] != nil {
		t.Errorf("a group coordinator asks for a removal: %v", errs[0])
	}
}

// The leader of a share partition is notified when another one than itself changes its state.
func TestTheLeaderIsNotified(t *testing.T) {
	x := withShares(t, directories(t), func(*SharesOptions) {})
	defer x.end()
	k := format.Key{Group: "g", Topic: x.topic("orders")}
	got := make(chan sharestate.Changed, 100)
	x.desk.Watch(func(c sharestate.Changed) { got <- c })
	w := x.open(k)
	if c := <-got; c != (sharestate.Changed{Key: k, ID: w.ID, Leader: -1}) {
		t.Errorf("a new state: %+v", c)
	}
	x.accept(w, 1)
	next := sharestate.Initializing{Key: k, StateEpoch: 2, Start: -1, Coordinator: sharestate.AnyCoordinator}
	ask(x, x.desk.Initialize, next) // it leaves the state
	next.Start = 7
	if errs := ask(x, x.desk.Initialize, next); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if c := <-got; c.ID == w.ID || c.ID.StateEpoch != 2 {
		t.Errorf("an alter: %+v", c)
	}
	ask(x, x.desk.Delete, sharestate.Deleting{Key: k, Coordinator: sharestate.AnyCoordinator})
	if c := <-got; c != (sharestate.Changed{Key: k, Leader: -1}) {
		t.Errorf("a delete: %+v", c)
	}
	if len(got) > 0 {
		t.Errorf("one more notification: %+v", <-got)
	}
}

// The topic is pruned when it has grown, also below states that are never written. A load from the
// new log start finds every state.
func TestAPruneKeepsEveryState(t *testing.T) {
	fs := directories(t)
	often := func(o *SharesOptions) { o.PruneBytes, o.PruneInterval = 4<<10, time.Millisecond }
	x := withShares(t, fs, often)
	topic := x.topic("orders")
	var idle, busy []sharestate.Writing
	for i := range int32(10) {
		idle = append(idle, x.open(format.Key{Group: "idle", Topic: topic, Partition: i}))
		x.accept(idle[i], int64(i)+3)
		busy = append(busy, x.open(format.Key{Group: "busy", Topic: topic, Partition: i}))
	}
	starts := func() (list []int64) {
		t := x.applier.Image().Topic(SharesTopic)
		for i := range t.Partitions.All() {
			part, err := x.replicas.Partition(t.ID, i)
			must(x.t, err)
			list = append(list, part.Ends().LogStart)
		}
		return list
	}
	// The second deletion is of snapshots that prunes have written.
	end := time.Now().Add(time.Minute)
	for offset, first := int64(0), []int64(nil); ; offset++ {
		for i := range busy {
			x.accept(busy[i], offset*2)
		}
		now := starts()
		if first == nil && slices.Min(now) > 40 {
			first = now
		}
		if len(first) == 2 && now[0] > first[0] && now[1] > first[1] {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after %d writes, the log starts are %v, and were %v", offset*10, now, first)
		}
	}
	want := map[format.Key]string{}
	x.shares.Stop() // no prune follows
	x.end()
	x = withShares(t, fs, func(*SharesOptions) {})
	for _, w := range append(idle, busy...) {
		want[w.Key] = x.stored(w)
	}
	for i, w := range idle {
		if got := want[w.Key]; got != fmt.Sprintf("{0 [{%d %d acknowledged 1}]}", i+3, i+3) {
			t.Errorf("%s: %s", w.Key, got)
		}
	}
	for _, w := range busy {
		if got := want[w.Key]; len(got) < 100 {
			t.Errorf("%s: %s", w.Key, got)
		}
	}
	x.end()
}

// A shard that does not run is not pruned, and no log is deleted then.
func TestNothingIsPrunedWithoutAShard(t *testing.T) {
	x := withShares(t, directories(t), func(*SharesOptions) {})
	w := x.open(format.Key{Group: "g", Topic: x.topic("orders")})
	topic := x.applier.Image().Topic(SharesTopic)
	index, _ := x.shares.Partition(w.Key.Coordinator())
	part, err := x.replicas.Partition(topic.ID, index)
	must(t, err)
	prune := func() int64 {
		_, err := x.shares.pruneOnce(t.Context(), index, part)
		must(t, err)
		return part.Ends().LogStart
	}
	end := part.Ends().LogEnd
	if first, second := prune(), prune(); first != 0 || second != end {
		t.Errorf("the log starts at %d after the first prune, at %d after the second one, and ended at %d before", first, second, end)
	}
	x.shares.Stop()
	if _, err := x.shares.pruneOnce(t.Context(), index, part); err == nil {
		t.Error("pruned without a shard")
	}
	x.end()
}

// A log that is not pruned grows without a bound, which is said once in a leader epoch.
func TestALogThatIsNotPrunedIsSaid(t *testing.T) {
	fs := directories(t)
	core, logged := observer.New(zap.InfoLevel)
	always := func(o *SharesOptions) { o.PruneBytes, o.PruneInterval, o.Logger = 1, time.Hour, zap.New(core) }
	x := withShares(t, fs, always)
	w := x.open(format.Key{Group: "g", Topic: x.topic("orders")})
	index, _ := x.shares.Partition(w.Key.Coordinator())
	part := func() *replica.Partition {
		part, err := x.replicas.Partition(x.applier.Image().Topic(SharesTopic).ID, index)
		must(t, err)
		return part
	}
	r := &round{epoch: -1}
	prune := func() string {
		for range 3 {
			for i := range int64(40) {
				x.accept(w, i)
			}
			x.shares.pruneGrown(index, r)
		}
		text := ""
		for _, e := range logged.FilterMessageSnippet("prune").TakeAll() {
			text += fmt.Sprintf("%s: %s, %v: %v; ", e.Level, e.Message, e.ContextMap()["partition"], e.ContextMap()["error"])
		}
		return text
	}
	if got := prune(); got != "" || part().Ends().LogStart == 0 {
		t.Errorf("of prunes that delete, %q was logged", got)
	}
	done := make(chan error, 1)
	newPartitionLog(part(), x.replicas.Purgatory(), nil).Append(part().LeaderEpoch(),
		[]coordinator.Record{{Key: []byte{0, 7, 1}, Value: []byte{1}}}, time.Now(), nil, func(err error) { done <- err })
	must(t, <-done)
	x.end()
	x = withShares(t, fs, always)
	w = x.open(w.Key)
	want := fmt.Sprintf("warn: a partition of __share_group_state is not pruned, and grows, %d: %v; ", index, sharestate.ErrForeign)
	if got := prune(); got != want {
		t.Errorf("%q was logged instead of %q", got, want)
	}
	x.shares.sayPruned(index, r.epoch, r, nil)
	if logged.FilterMessageSnippet("is pruned again").Len() != 1 {
		t.Errorf("the end was not logged: %v", logged.All())
	}
	x.end()
}

// Only changes of leader epochs, and new and deleted partitions, concern the shards.
func TestShardsKnowLeaderEpochs(t *testing.T) {
	before := epochs(t, map[string][]int32{"a": {1, 2}, "b": {3}})
	after := epochs(t, map[string][]int32{"a": {1, 4}, "c": {0}})
	if e := epochsChanged(before, metadata.Diff(before, before)); e != nil {
		t.Errorf("without a change: %+v", e)
	}
	e, ok := epochsChanged(after, metadata.Diff(before, after)).(sharestate.TopicsChanged)
	if !ok || !slices.Equal(e.Deleted, [][16]byte{{'b'}}) {
		t.Fatalf("%+v", e)
	}
	for _, c := range []struct {
		topic     byte
		partition int32
		want      int32
	}{{'a', 0, 1}, {'a', 1, 4}, {'a', 2, -1}, {'a', -1, -1}, {'b', 0, -1}, {'c', 0, 0}} {
		if got := e.Topics.LeaderEpoch([16]byte{c.topic}, c.partition); got != c.want {
			t.Errorf("%c-%d has the leader epoch %d, want %d", c.topic, c.partition, got, c.want)
		}
	}
}
