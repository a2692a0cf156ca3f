package controller

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// Apache Kafka 4.3.1's answers.
func TestRefusedPartitionCountsMatchKafka(t *testing.T) {
	c, s := cluster(t, 1)
	mustCreate(t, c, "a.b", 2)
	before := image(t, s).Version()
	for _, r := range []struct {
		spec PartitionsSpec
		kind Kind
		msg  string
	}{
		{PartitionsSpec{Topic: "a.b", Count: 1}, InvalidPartitions,
			"The topic a.b currently has 2 partition(s); 1 would not be an increase."},
		{PartitionsSpec{Topic: "a.b", Count: 2}, InvalidPartitions, "Topic already has 2 partition(s)."},
		{PartitionsSpec{Topic: "a.b", Count: -2147483648}, InvalidPartitions,
			"The topic a.b currently has 2 partition(s); -2147483648 would not be an increase."},
		{PartitionsSpec{Topic: "a.b", Count: 2147483647}, PolicyViolation,
			"Excessively large number of partitions per request. At most 10000 can be created at once."},
		{PartitionsSpec{Topic: "nope", Count: 3}, UnknownTopic, "The topic 'nope' does not exist."},
		{PartitionsSpec{Topic: "a_b", Count: 3}, UnknownTopic, "The topic 'a_b' does not exist."},
		{PartitionsSpec{Topic: "a.b", Count: 4, Assignments: [][]int32{{1}}}, InvalidReplicaAssignment,
			"Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."},
		{PartitionsSpec{Topic: "a.b", Count: 3, Assignments: [][]int32{{9}}}, InvalidReplicaAssignment,
			"The manual partition assignment includes broker 9, but no such broker is registered."},
		{PartitionsSpec{Topic: "a.b", Count: 3, Assignments: [][]int32{{}}}, InvalidReplicaAssignment,
			"The manual partition assignment includes an empty replica list."},
	} {
		_, err := c.CreatePartitions(context.Background(), r.spec)
		wantError(t, err, r.kind, r.msg)
	}
	if rev, err := c.CreatePartitions(context.Background(), PartitionsSpec{Topic: "a.b", Count: 3, ValidateOnly: true}); rev != 0 ||
		err != nil {
		t.Errorf("validate only: %d, %v", rev, err)
	}
	if v := image(t, s).Version(); v != before {
		t.Errorf("version %d after %d", v, before)
	}
}

func TestPartitionsAreAdded(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1, 2)
	mustCreate(t, c, "x", 1)
	if _, err := c.CreatePartitions(ctx, PartitionsSpec{Topic: "x", Count: 3, Assignments: [][]int32{{2}, {1}}}); err != nil {
		t.Fatal(err)
	}
	rev, err := c.CreatePartitions(ctx, PartitionsSpec{Topic: "x", Count: 70})
	m := image(t, s)
	x := m.Topic("x")
	if err != nil || m.Version() != rev || x.Partitions.Len() != 70 || x.Partitions.At(1).Leader != 2 || x.Partitions.At(2).Leader != 1 {
		t.Errorf("%d partitions, %v", x.Partitions.Len(), err)
	}
}

// I9: one transaction for all partitions, and nothing else in them changes.
func TestEpochsAreRaisedTogether(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	x, y := mustCreate(t, c, "x", 3), mustCreate(t, c, "y", 1)
	before := image(t, s)
	tp := metadata.TopicPartition{Topic: x.ID, Partition: 2}
	rev, err := c.RaiseEpochs(ctx, map[metadata.TopicPartition]metadata.Raise{{Topic: x.ID}: {Lossy: true}, tp: {}, {Topic: y.ID}: {},
		{Topic: [16]byte{9}}: {}, {Topic: x.ID, Partition: 7}: {Lossy: true}})
	m := image(t, s)
	if err != nil || rev != before.Version()+1 || m.Version() != rev {
		t.Fatalf("revision %d after %d, %v", rev, before.Version(), err)
	}
	p := m.Partition(tp)
	if lost := m.Topic("x").Partitions.At(0); lost.LeaderEpoch != 1 || lost.Unclean != 1 {
		t.Errorf("with lost records: %+v", lost)
	}
	if p.LeaderEpoch != 1 || p.PartitionEpoch != 1 || p.Unclean != 0 || m.Topic("x").Partitions.At(1).LeaderEpoch != 0 ||
		m.Topic("y").Partitions.At(0).LeaderEpoch != 1 {
		t.Errorf("%+v", p)
	}
	if rev, err := c.RaiseEpochs(ctx, nil); rev != m.Version() || err != nil {
		t.Errorf("nothing to raise: %d, %v", rev, err)
	}
}

// A broker whose log, or a partition of whose transactions, knows a later epoch gets one that
// no broker was given, also where replicas with records of it are not there, unless the epoch has
// changed.
func TestAnEpochIsRaisedAboveAnother(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	tp := metadata.TopicPartition{Topic: mustCreate(t, c, "x", 1).ID}
	gap := metadata.Gap(image(t, s).Generation())
	raise := func(from, seen, want int32) {
		t.Helper()
		if _, err := c.RaiseEpochs(ctx, map[metadata.TopicPartition]metadata.Raise{tp: {From: from, Seen: seen}}); err != nil {
			t.Fatal(err)
		}
		if p := image(t, s).Partition(tp); p.LeaderEpoch != want || p.Leader != 1 {
			t.Errorf("above %d: %+v, want epoch %d", seen, p, want)
		}
	}
	raise(0, 5, 5+gap)
	raise(0, 9, 5+gap)
	raise(5+gap, 3, 6+gap)
	raise(6+gap, math.MaxInt32-7, 6+gap) // none is left
}

// A partition without epochs does not prevent that those of others are raised.
func TestAPartitionWithoutEpochsIsOmitted(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	id := mustCreate(t, c, "x", 3).ID
	at := func(i int32) metadata.TopicPartition { return metadata.TopicPartition{Topic: id, Partition: i} }
	raises := map[metadata.TopicPartition]metadata.Raise{at(0): {Seen: -1}, at(1): {Seen: math.MaxInt32}, at(2): {Seen: -1}}
	_, err := c.RaiseEpochs(ctx, raises)
	must.OK(t, err)
	m := image(t, s)
	for i, want := range []int32{1, 0, 1} {
		if p := m.Partition(at(int32(i))); p.LeaderEpoch != want {
			t.Errorf("partition %d has epoch %d, want %d", i, p.LeaderEpoch, want)
		}
	}
}

func TestDirectoriesAreAssignedToOneReplica(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1, 2)
	made, err := c.CreateTopic(ctx, manual(Assignment{0, []int32{1, 2}}, Assignment{1, []int32{2, 1}}))
	must.OK(t, err)
	dir, tp0, tp1 := [16]byte{5}, metadata.TopicPartition{Topic: made.ID}, metadata.TopicPartition{Topic: made.ID, Partition: 1}
	rev, err := c.AssignDirs(ctx, 2, map[metadata.TopicPartition][16]byte{tp0: dir, tp1: dir, {Topic: [16]byte{9}}: dir})
	must.OK(t, err)
	m := image(t, s)
	for _, tp := range []metadata.TopicPartition{tp0, tp1} {
		if got, ok := m.Placement(2, tp); got != dir || !ok || m.Partition(tp).Revision >= rev {
			t.Errorf("%v: directory of broker 2: %v, %t; partition at revision %d", tp, got, ok, m.Partition(tp).Revision)
		}
		if got, ok := m.Placement(1, tp); ok {
			t.Errorf("%v: directory of broker 1: %v", tp, got)
		}
	}
	again, err := c.AssignDirs(ctx, 2, map[metadata.TopicPartition][16]byte{tp0: dir})
	if err != nil || again != rev {
		t.Errorf("an unchanged assignment was written again: %d after %d, %v", again, rev, err)
	}
	for _, tp := range []metadata.TopicPartition{tp0, tp1} {
		p := metadata.Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}
		put := metadata.KV{Key: metadata.PartitionKey(tp.Topic, tp.Partition), Value: p.Encode()}
		if _, err := s.Txn(ctx, metadata.Txn{Put: []metadata.KV{put}}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.AssignDirs(ctx, 2, map[metadata.TopicPartition][16]byte{tp: {}}); err != nil {
			t.Fatal(err)
		}
		if got, ok := image(t, s).Placement(2, tp); ok {
			t.Errorf("%v: removed, but still in %v", tp, got)
		}
	}
	if kv, _, err := s.Get(ctx, metadata.PlacementKey(2, made.ID)); err != nil || kv.ModRevision != 0 {
		t.Errorf("an empty placement is stored: %v, %v", kv, err)
	}
}

// deleting is a store in which a topic is deleted before the first read of one of its partitions.
type deleting struct {
	metadata.Store
	act func()
}

func (d *deleting) Get(ctx context.Context, key string) (metadata.KV, int64, error) {
	if act := d.act; act != nil && strings.HasPrefix(key, metadata.PartitionPrefix) {
		d.act = nil
		act()
	}
	return d.Store.Get(ctx, key)
}

// A topic is deleted while a broker removes what is recorded of a former replica. That is no error:
// nothing is left to remove.
func TestARemovalFromADeletedTopicIsNoError(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1, 2)
	made, err := c.CreateTopic(ctx, manual(Assignment{0, []int32{1}}))
	must.OK(t, err)
	tp := metadata.TopicPartition{Topic: made.ID}
	if _, err := c.AssignDirs(ctx, 2, map[metadata.TopicPartition][16]byte{tp: {5}}); err != nil {
		t.Fatal(err)
	}
	d := &deleting{Store: s, act: func() {
		if _, err := c.DeleteTopic(ctx, made.ID); err != nil {
			t.Error(err)
		}
	}}
	if _, err := over(d).AssignDirs(ctx, 2, map[metadata.TopicPartition][16]byte{tp: {}}); err != nil || d.act != nil {
		t.Error(err)
	}
}
