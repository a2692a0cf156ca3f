package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func ptr(s string) *string { return &s }

// Kinds and texts are those of Apache Kafka 4.3.1 with one broker, id 1, except that the end of the
// text about the replication factor is shorter here.
func TestRefusedTopicsMatchKafka(t *testing.T) {
	c, s := cluster(t, 1)
	mustCreate(t, c, "a.b", 2)
	before := image(t, s).Version()
	one := []int32{1}
	for _, r := range []struct {
		what string
		spec TopicSpec
		kind Kind
		msg  string
	}{
		{"exists", TopicSpec{Name: "a.b", Partitions: 2, ReplicationFactor: 1}, TopicExists, "Topic 'a.b' already exists."},
		{"exists, the rest is invalid, too", TopicSpec{Name: "a.b", Configs: map[string]*string{"x": nil}}, TopicExists,
			"Topic 'a.b' already exists."},
		{"collides", TopicSpec{Name: "a_b", Partitions: 2, ReplicationFactor: 1}, InvalidTopic,
			"Topic 'a_b' collides with existing topic: a.b"},
		{"replication factor 99", TopicSpec{Name: "x", Partitions: 1, ReplicationFactor: 99}, InvalidReplicationFactor,
			"Unable to replicate the partition 99 time(s): The target replication factor of 99 cannot be reached because only 1 broker(s) are registered."},
		{"replication factor 0", TopicSpec{Name: "x", Partitions: 1}, InvalidReplicationFactor,
			"Replication factor must be larger than 0, or -1 to use the default value."},
		{"no partitions", TopicSpec{Name: "x", ReplicationFactor: 1}, InvalidPartitions,
			"Number of partitions was set to an invalid non-positive value."},
		{"-2 partitions", TopicSpec{Name: "x", Partitions: -2, ReplicationFactor: 1}, InvalidPartitions,
			"Number of partitions was set to an invalid non-positive value."},
		{"too many", TopicSpec{Name: "x", Partitions: 100_001, ReplicationFactor: 1}, PolicyViolation,
			"Excessively large number of partitions per request. At most 10000 can be created at once."},
		{"assignment and partitions", TopicSpec{Name: "x", Partitions: 1, ReplicationFactor: -1, Assignments: []Assignment{{0, one}}},
			InvalidRequest,
			"A manual partition assignment was specified, but numPartitions was not set to -1."},
		{"assignment and factor", TopicSpec{Name: "x", Partitions: -1, ReplicationFactor: 1, Assignments: []Assignment{{0, one}}},
			InvalidRequest,
			"A manual partition assignment was specified, but replication factor was not set to -1."},
		{"assigned twice", manual(Assignment{0, one}, Assignment{0, one}), InvalidReplicaAssignment,
			"Found multiple manual partition assignments for partition 0"},
		{"gap", manual(Assignment{1, one}), InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence"},
		{"negative partition", manual(Assignment{-1, one}), InvalidReplicaAssignment,
			"partitions should be a consecutive 0-based integer sequence"},
		{"unknown broker", manual(Assignment{0, []int32{7}}), InvalidReplicaAssignment,
			"The manual partition assignment includes broker 7, but no such broker is registered."},
		{"broker twice", manual(Assignment{0, []int32{1, 1}}), InvalidReplicaAssignment,
			"The manual partition assignment includes the broker 1 more than once."},
		{"no replica", manual(Assignment{0, nil}), InvalidReplicaAssignment,
			"The manual partition assignment includes an empty replica list."},
		{"null config", TopicSpec{Name: "x", Partitions: 1, ReplicationFactor: 1, Configs: map[string]*string{"segment.bytes": nil}},
			InvalidConfig, "Null value not supported for topic configs: segment.bytes"},
		{"bad config", TopicSpec{Name: "x", Partitions: 1, ReplicationFactor: 1, Configs: map[string]*string{"segment.bytes": ptr("abc")}},
			InvalidConfig, "Invalid value abc for configuration segment.bytes: Not a number of type INT"},
		{"unknown config", TopicSpec{Name: "x", Partitions: 1, ReplicationFactor: 99, Configs: map[string]*string{"no.such": ptr("1")}},
			InvalidConfig, "Unknown topic config name: no.such"},
	} {
		for _, validate := range []bool{false, true} {
			r.spec.ValidateOnly = validate
			_, err := c.CreateTopic(context.Background(), r.spec)
			wantError(t, err, r.kind, r.msg)
			if t.Failed() {
				t.Fatal(r.what)
			}
		}
	}
	if v := image(t, s).Version(); v != before {
		t.Errorf("refusals wrote something: version %d after %d", v, before)
	}
}

func manual(list ...Assignment) TopicSpec {
	return TopicSpec{Name: "x", Partitions: -1, ReplicationFactor: -1, Assignments: list}
}

func TestTopicNames(t *testing.T) {
	for name, msg := range map[string]string{
		"":                       "the empty string is not allowed",
		".":                      "'.' is not allowed",
		"..":                     "'..' is not allowed",
		strings.Repeat("x", 249): "",
		strings.Repeat("x", 250): "the length of '" + strings.Repeat("x", 250) + "' is longer than the max allowed length 249",
		"bad!name":               "'bad!name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
		"a/b":                    "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
		"ü":                      "'ü' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
		"...":                    "",
		"__cluster_metadata":     "",
		"aZ09._-":                "",
	} {
		if msg == "" {
			wantError(t, CheckTopicName(name), 0, "")
		} else {
			wantError(t, CheckTopicName(name), InvalidTopic, "Topic name is invalid: "+msg)
		}
	}
}

func FuzzTopicName(f *testing.F) {
	for _, s := range []string{"", "a.b", "..", "a\x00", "ü"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckTopicName(name) != nil {
			return
		}
		if k, err := metadata.ParseKey(metadata.NameKey(name)); err != nil || k.Kind != metadata.KindName ||
			strings.ContainsAny(name, "/\\\x00") {
			t.Errorf("the name %q is accepted and has no key of its own: %+v, %v", name, k, err)
		}
	})
}

func TestCreateTopicIsAtomic(t *testing.T) {
	c, s := cluster(t, 1, 2, 3)
	made, err := c.CreateTopic(context.Background(), TopicSpec{Name: "x", Partitions: 6, ReplicationFactor: 2,
		Configs: map[string]*string{"segment.ms": ptr("5")}})
	must.OK(t, err)
	m := image(t, s)
	x := m.Topic("x")
	if m.Version() != made.Revision || x.ID != made.ID || x.Partitions.Len() != 6 || made.ReplicationFactor != 2 || made.Partitions != 6 ||
		!maps.Equal(x.Configs, map[string]string{"segment.ms": "5"}) || x.Internal {
		t.Errorf("%+v, created %+v", x, made)
	}
	leaders := map[int32]int{}
	for i, p := range x.Partitions.All() {
		leaders[p.Leader]++
		if p.Leader != p.Replicas[0] || len(p.Replicas) != 2 || !slices.Equal(p.ISR, p.Replicas) || p.LeaderEpoch != 0 {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
	if leaders[1] != 2 || leaders[2] != 2 || leaders[3] != 2 {
		t.Errorf("leaders are not spread: %v", leaders)
	}
}

func TestDefaultsAndAssignments(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1, 2)
	dry, err := c.CreateTopic(ctx, TopicSpec{Name: "x", Partitions: -1, ReplicationFactor: -1, ValidateOnly: true})
	if err != nil || dry.Partitions != 2 || dry.ReplicationFactor != 1 || dry.ID != [16]byte{} || image(t, s).NumTopics() != 0 {
		t.Errorf("validate only: %+v, %v", dry, err)
	}
	if _, err := c.CreateTopic(ctx, manual(Assignment{1, []int32{2, 1}}, Assignment{0, []int32{1, 2}})); err != nil {
		t.Fatal(err)
	}
	x := image(t, s).Topic("x")
	if !slices.Equal(x.Partitions.At(0).Replicas, []int32{1, 2}) || !slices.Equal(x.Partitions.At(1).Replicas, []int32{2, 1}) {
		t.Errorf("assigned: %+v %+v", x.Partitions.At(0), x.Partitions.At(1))
	}
	_, err = c.CreateTopic(ctx, TopicSpec{Name: "y", Partitions: -1, ReplicationFactor: -1,
		Assignments: []Assignment{{0, []int32{1, 2}}, {1, []int32{1}}}})
	wantError(t, err, InvalidReplicaAssignment,
		"The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with previous partitions, which have 2 replica(s).")
	if made := mustCreate(t, c, "__consumer_offsets", 1); !image(t, s).TopicByID(made.ID).Internal {
		t.Error("__consumer_offsets is not internal")
	}
}

// If many clients concurrently create the same name, or colliding ones, exactly one succeeds.
func TestOneOfManyCreatorsWins(t *testing.T) {
	c, s := cluster(t, 1)
	var wg sync.WaitGroup
	var mu sync.Mutex
	won, names := 0, []string{"a.b.c", "a_b.c", "a.b_c", "a_b_c"}
	for i := range 40 {
		wg.Go(func() {
			_, err := c.CreateTopic(context.Background(), TopicSpec{Name: names[i%4], Partitions: 1, ReplicationFactor: 1})
			var e *Error
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !errors.As(err, &e) || e.Kind != TopicExists && e.Kind != InvalidTopic {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won != 1 || image(t, s).NumTopics() != 1 {
		t.Errorf("%d creators won, %d topics", won, image(t, s).NumTopics())
	}
}

// The name is taken between the check and the transaction.
func TestNameTakenMeanwhileIsRefused(t *testing.T) {
	for name, want := range map[string]struct {
		kind Kind
		msg  string
	}{
		"a.b": {TopicExists, "Topic 'a.b' already exists."},
		"a_b": {InvalidTopic, "Topic 'a.b' collides with existing topic: a_b"},
	} {
		c, s := cluster(t, 1)
		r := &rival{Store: s, times: 1, act: func() { mustCreate(t, c, name, 1) }}
		_, err := over(r).CreateTopic(context.Background(), TopicSpec{Name: "a.b", Partitions: 1, ReplicationFactor: 1})
		wantError(t, err, want.kind, want.msg)
		if n := image(t, s).NumTopics(); n != 1 {
			t.Errorf("%d topics", n)
		}
	}
}

// The topic grows between the read and its deletion: the new partition is also deleted.
func TestPartitionAddedMeanwhileIsDeletedToo(t *testing.T) {
	c, s := cluster(t, 1)
	made := mustCreate(t, c, "x", 1)
	r := &rival{Store: s, times: 1, act: func() {
		if _, err := c.CreatePartitions(context.Background(), PartitionsSpec{Topic: "x", Count: 2}); err != nil {
			t.Error(err)
		}
	}}
	if _, err := over(r).DeleteTopic(context.Background(), made.ID); err != nil {
		t.Fatal(err)
	}
	kvs, _, err := s.Range(context.Background(), metadata.PartitionPrefix)
	if len(kvs) != 0 || err != nil {
		t.Errorf("%d partitions are left of a deleted topic, %v", len(kvs), err)
	}
}

// A topic that is created again with the same name is another topic and shows nothing of the old
// one.
func TestDeletingATopicLeavesATombstone(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	old := mustCreate(t, c, "x", 3)
	if _, err := c.AlterConfigs(ctx, Resource{TopicResource, "x"}, []ConfigOp{{Name: "segment.ms", Value: ptr("5")}}, false); err != nil {
		t.Fatal(err)
	}
	tier := &metadata.Tier{Manifest: old.ID, End: 9, Bytes: 5, Epochs: []metadata.EpochStart{{}}}
	if _, err := s.Txn(ctx, metadata.Txn{Put: []metadata.KV{
		{Key: metadata.TierKey(metadata.TopicPartition{Topic: old.ID, Partition: 1}), Value: tier.Encode()}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.DeleteTopic(ctx, old.ID); err != nil {
		t.Fatal(err)
	}
	m := image(t, s)
	if d := m.Deleting(old.ID); m.NumTopics() != 0 || d == nil || d.Name != "x" || d.Partitions != 3 {
		t.Fatalf("after the deletion: %+v", d)
	}
	_, err := c.DeleteTopic(ctx, old.ID)
	wantError(t, err, UnknownTopicID, "There is no topic with the id "+metadata.FormatID(old.ID)+".")
	again := mustCreate(t, c, "x", 1)
	if x := image(t, s).Topic("x"); again.ID == old.ID || x.Partitions.Len() != 1 || len(x.Configs) != 0 {
		t.Errorf("made again: %+v", x)
	}
	for range 2 {
		if _, err := c.ForgetDeleted(ctx, 1, old.ID); err != nil || image(t, s).Deleting(old.ID) != nil {
			t.Errorf("forgotten: %v", err)
		}
	}
	kvs, _, err := s.Range(ctx, "")
	for _, kv := range kvs {
		if id, ok := metadata.TopicOf(kv); ok && id == old.ID {
			t.Errorf("%s of the deleted topic is left (%v)", kv.Key, err)
		}
	}
}

// limited is a store with a maximum number of keys per transaction.
type limited struct {
	metadata.Store
	keys int
}

func (l limited) Txn(ctx context.Context, txn metadata.Txn) (int64, error) {
	if len(txn.Put) > l.keys {
		return 0, metadata.ErrTooLarge
	}
	return l.Store.Txn(ctx, txn)
}

func TestTopicsOfOneOperationShareATransaction(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	mustCreate(t, c, "old", 1)
	before := image(t, s).Version()
	one := func(name string) TopicSpec { return TopicSpec{Name: name, Partitions: 2, ReplicationFactor: 1} }
	bad := one("bad")
	bad.Configs = map[string]*string{"no.such": ptr("1")}
	out := c.CreateTopics(ctx, []TopicSpec{one("a"), one("old"), one("x.y"), one("x_y"), bad, one("no!name"), one("b")})
	made := map[int]bool{0: true, 2: true, 6: true}
	for i := range out {
		if (out[i].Err == nil) != made[i] || made[i] && (out[i].Revision != before+1 || out[i].Partitions != 2 || out[i].ID == [16]byte{}) {
			t.Errorf("%d: %+v", i, out[i])
		}
	}
	wantError(t, out[1].Err, TopicExists, "Topic 'old' already exists.")
	wantError(t, out[3].Err, InvalidTopic, "Topic 'x_y' collides with existing topic: x.y")
	wantError(t, out[4].Err, InvalidConfig, "Unknown topic config name: no.such")
	img := image(t, s)
	if img.Version() != before+1 || img.Topic("a") == nil || img.Topic("b") == nil || img.Topic("x.y").ID != out[2].ID ||
		img.Topic("x_y") != nil {
		t.Errorf("version %d after %d", img.Version(), before)
	}

	nobody := metadata.NewID()
	revision, errs := c.DeleteTopics(ctx, [][16]byte{out[0].ID, nobody, out[6].ID})
	wantError(t, errs[1], UnknownTopicID, "There is no topic with the id "+metadata.FormatID(nobody)+".")
	if errs[0] != nil || errs[2] != nil || revision != before+2 {
		t.Errorf("deleted in %d: %v", revision, errs)
	}
	if img := image(t, s); img.Topic("a") != nil || img.Topic("b") != nil || img.Topic("x.y") == nil || img.Deleting(out[0].ID) == nil {
		t.Error("topics a and b exist, or x.y does not")
	}
	if revision, errs := c.DeleteTopics(ctx, [][16]byte{nobody}); revision != 0 || errs[0] == nil {
		t.Errorf("revision %d, %v", revision, errs)
	}
}

func TestLargeOperationIsSplitIntoTransactions(t *testing.T) {
	ctx := context.Background()
	_, s := cluster(t, 1)
	c := over(limited{s, 6}) // a topic of one partition has three
	var specs []TopicSpec
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		specs = append(specs, TopicSpec{Name: name, Partitions: 1, ReplicationFactor: 1})
	}
	specs[4].Partitions = 7
	var ids [][16]byte
	for i, o := range c.CreateTopics(ctx, specs) {
		if (o.Err == nil) != (i < 4) {
			t.Errorf("%d: %v", i, o.Err)
		}
		ids = append(ids, o.ID)
	}
	revision, errs := over(limited{s, 3}).DeleteTopics(ctx, ids[:4])
	if img := image(t, s); errors.Join(errs...) != nil || revision != img.Version() || img.Topic("a") != nil || img.Topic("d") != nil {
		t.Errorf("revision %d, %v", revision, errs)
	}
}

// Kafka 4.3 counts the partitions of all topics of a request, and refuses all.
func TestPartitionsAreCountedOverAllTopics(t *testing.T) {
	c, s := cluster(t, 1)
	mustCreate(t, c, "old", 1)
	before := image(t, s).Version()
	all := []TopicSpec{{Name: "a", Partitions: MaxPartitions - 2, ReplicationFactor: 1},
		{Name: "old", Partitions: -1, ReplicationFactor: 1},
		manual(Assignment{0, []int32{1}}), {Name: "none", Partitions: -7}, {Name: "b", Partitions: 1, ReplicationFactor: 1}}
	for _, o := range c.CreateTopics(context.Background(), all) {
		wantError(t, o.Err, PolicyViolation, "Excessively large number of partitions per request. At most 10000 can be created at once.")
	}
	if v := image(t, s).Version(); v != before {
		t.Errorf("version %d after %d", v, before)
	}
	for i, o := range c.CreateTopics(context.Background(), all[1:]) {
		if (o.Err == nil) != (i == 1 || i == 3) {
			t.Errorf("%d: %v", i, o.Err)
		}
	}
}

// History 31: every broker confirms a deletion, also one that is away, and the last one takes the
// tombstone along. Placements go with the confirmation.
func TestTheLastBrokerRemovesTheTombstone(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1, 2, 3)
	topics := []Created{mustCreate(t, c, "x", 1), mustCreate(t, c, "y", 1)}
	dirs := map[metadata.TopicPartition][16]byte{{Topic: topics[0].ID}: {5}, {Topic: topics[1].ID}: {5}}
	for _, x := range topics {
		if _, err := c.AssignDirs(ctx, 2, dirs); err != nil {
			t.Fatal(err)
		}
		if _, err := c.DeleteTopic(ctx, x.ID); err != nil {
			t.Fatal(err)
		}
	}
	if rev, err := c.AssignDirs(ctx, 2, dirs); err != nil || rev != image(t, s).Version() {
		t.Errorf("a placement of a deleted topic: revision %d, %v", rev, err)
	}
	for i, broker := range []int32{2, 3, 3, 1} {
		for _, x := range topics {
			if d := image(t, s).Deleting(x.ID); d == nil || !d.Waits(1) || d.Waits(broker) == (i == 2) {
				t.Fatalf("before broker %d confirms: %+v", broker, d)
			}
		}
		if _, err := c.ForgetDeleted(ctx, broker, topics[0].ID, topics[1].ID); err != nil {
			t.Fatal(err)
		}
	}
	kvs, _, err := s.Range(ctx, "/")
	for _, kv := range kvs {
		if strings.HasPrefix(kv.Key, metadata.DeletingPrefix) || strings.HasPrefix(kv.Key, metadata.PlacementPrefix) {
			t.Errorf("%s is left", kv.Key)
		}
	}
	if err != nil || len(kvs) != 8 {
		t.Errorf("%d keys are left, %v", len(kvs), err)
	}
}

// Two brokers that confirm at the same time see each other: one of them is the last.
func TestBrokersConfirmAtTheSameTime(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1, 2, 3, 4)
	for i := range 20 {
		x := mustCreate(t, c, fmt.Sprintf("x%d", i), 1)
		if _, err := c.DeleteTopic(ctx, x.ID); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for broker := range int32(4) {
			all.Go(func() {
				if _, err := c.ForgetDeleted(ctx, broker+1, x.ID); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if d := image(t, s).Deleting(x.ID); d != nil {
			t.Fatalf("round %d: the tombstone is left: %+v", i, d)
		}
	}
}
