package controller

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// I9: nothing that the lost changes may have given is given again, and no replica counts as in sync
// only because older metadata says so.
func TestRecoveredMetadataTrustNoISR(t *testing.T) {
	gap := metadata.Gap([16]byte{8})
	topic, other := [16]byte{1}, [16]byte{2}
	several := metadata.Partition{Leader: 2, LeaderEpoch: 7, Replicas: []int32{1, 2, 3}, ISR: []int32{2, 3}, ELR: []int32{1}, Unclean: 3,
		PartitionEpoch: 9}
	last := metadata.Partition{Leader: -1, LeaderEpoch: 4, Replicas: []int32{1, 2}, Last: metadata.LastReplica{Broker: 2, Dir: [16]byte{4}}}
	sole := metadata.Partition{Leader: 1, LeaderEpoch: 2, Replicas: []int32{1}, ISR: []int32{1}}
	record := metadata.Cluster{ID: metadata.FormatID([16]byte{5}), Generation: [16]byte{6}, FeatureLevel: metadata.MaxFeatureLevel}
	keys := []metadata.KV{
		{Key: metadata.ClusterKey, Value: record.Encode(), ModRevision: 1},
		{Key: metadata.BrokerKey(1), Value: metadata.Broker{Member: 11, Incarnation: [16]byte{9}}.Encode(), ModRevision: 6},
		{Key: metadata.LivenessKey(1), Value: metadata.BrokerState{Liveness: metadata.Active}.Encode(), ModRevision: 7},
		{Key: metadata.ProducerIDsKey, Value: metadata.ProducerIDs{Next: 3000}.Encode(), ModRevision: 8},
		{Key: metadata.PartitionKey(topic, 0), Value: several.Encode(), ModRevision: 9},
		{Key: metadata.PartitionKey(topic, 1), Value: last.Encode(), ModRevision: 10},
		{Key: metadata.PartitionKey(other, 0), Value: sole.Encode(), ModRevision: 11},
	}
	after, revision, err := Recovered(keys, 12, [16]byte{8}, time.UnixMilli(77))
	if err != nil || revision != 12+int64(gap) || len(after) != len(keys)-1 {
		t.Fatalf("%d keys, revision %d, %v", len(after), revision, err)
	}
	for _, kv := range after {
		k, err := metadata.ParseKey(kv.Key)
		must.OK(t, err)
		switch k.Kind {
		case metadata.KindCluster:
			c, err := metadata.DecodeCluster(kv)
			if err != nil || c.ID != record.ID || c.Generation != [16]byte{8} || c.Recovered != 77 {
				t.Errorf("cluster %+v, %v", c, err)
			}
		case metadata.KindBroker:
			if kv.ModRevision != 6 {
				t.Errorf("the registration has revision %d", kv.ModRevision)
			}
		case metadata.KindProducerIDs:
			ids, err := metadata.DecodeProducerIDs(kv)
			if err != nil || ids.Next < 3000+1000*ProducerIDBlockSize {
				t.Errorf("producer ids %+v, %v", ids, err)
			}
		case metadata.KindPartition:
			p, err := metadata.DecodePartition(kv)
			if err != nil || p.Leader != -1 || p.LeaderEpoch < gap || p.PartitionEpoch < gap || p.Check() != "" {
				t.Errorf("%s: %+v, %s, %v", kv.Key, p, p.Check(), err)
			}
			switch {
			case len(p.Replicas) > 1 && (len(p.ISR)+len(p.ELR) > 0 || !p.Last.IsZero()),
				len(p.Replicas) == 1 && !slices.Equal(p.ISR, sole.ISR):
				t.Errorf("%s: %+v", kv.Key, p)
			}
		default:
			t.Errorf("key %s", kv.Key)
		}
	}

	for _, young := range [][]metadata.KV{keys[:1], keys[:3]} { // of a time before the first producer
		after, _, err := Recovered(young, 12, [16]byte{8}, time.UnixMilli(77))
		i := slices.IndexFunc(after, func(kv metadata.KV) bool { return kv.Key == metadata.ProducerIDsKey })
		if err != nil || i < 0 {
			t.Fatalf("the next producer id is 0 again: %+v, %v", after, err)
		}
		if ids, err := metadata.DecodeProducerIDs(after[i]); err != nil || ids.Next < 1000*ProducerIDBlockSize {
			t.Errorf("producer ids %+v, %v", ids, err)
		}
	}

	half, _, err := Recovered(keys, 12, [16]byte{8, 15: 1}, time.UnixMilli(77))
	must.OK(t, err)
	i := slices.IndexFunc(half, func(kv metadata.KV) bool { return kv.Key == metadata.PartitionKey(topic, 0) })
	one, _ := metadata.DecodePartition(after[i])
	if two, err := metadata.DecodePartition(half[i]); err != nil || one.LeaderEpoch == two.LeaderEpoch {
		t.Errorf("two halves go on in leader epochs %d and %d, %v", one.LeaderEpoch, two.LeaderEpoch, err)
	}

	several.LeaderEpoch = math.MaxInt32 - 5
	keys[4].Value = several.Encode()
	if _, _, err := Recovered(keys, 12, [16]byte{8}, time.UnixMilli(77)); err == nil {
		t.Error("leader epochs overflow")
	}
}

// The metadata of a restored cluster are those of the snapshot, for one broker, and nothing that
// the original may have given since is given again.
func TestRestoredMetadataAreThoseOfAnotherCluster(t *testing.T) {
	topic := [16]byte{1}
	p := metadata.Partition{Leader: 2, LeaderEpoch: 7, Replicas: []int32{2, 3, 4}, ISR: []int32{2, 3}, ELR: []int32{4}, Adding: []int32{4},
		Unclean: 3, PartitionEpoch: 9}
	record := metadata.Cluster{ID: metadata.FormatID([16]byte{5}), Generation: [16]byte{6}, FeatureLevel: metadata.MaxFeatureLevel}
	kept := []metadata.KV{
		{Key: metadata.TopicKey(topic), Value: metadata.TopicRecord{Name: "t", Partitions: 1}.Encode(), ModRevision: 3},
		{Key: metadata.NameKey("t"), Value: metadata.Name{Topic: "t", ID: topic}.Encode(), ModRevision: 3},
		{Key: metadata.TopicConfigKey(topic), Value: metadata.EncodeConfigs(map[string]string{"retention.ms": "1"}), ModRevision: 4},
		{Key: metadata.BrokerConfigKey(2), Value: metadata.EncodeConfigs(map[string]string{"log.retention.ms": "1"}), ModRevision: 4},
		{Key: metadata.GroupConfigKey("g"), Value: metadata.EncodeConfigs(map[string]string{}), ModRevision: 4},
	}
	dropped := []metadata.KV{
		{Key: metadata.BrokerKey(2), Value: metadata.Broker{Member: 11, Incarnation: [16]byte{9}}.Encode(), ModRevision: 6},
		{Key: metadata.LivenessKey(2), Value: metadata.BrokerState{Liveness: metadata.Active}.Encode(), ModRevision: 7},
		{Key: metadata.PlacementKey(2, topic), ModRevision: 7}, {Key: metadata.GoneKey(3), ModRevision: 7},
		{Key: metadata.Key{Kind: metadata.KindDeleting, ID: [16]byte{8}}.String(), ModRevision: 7},
		{Key: metadata.Key{Kind: metadata.KindDeletingBroker, ID: [16]byte{8}, Broker: 2}.String(), ModRevision: 7},
		{Key: metadata.SnapshotKey(5), ModRevision: 7}, {Key: metadata.MarkKey, ModRevision: 7},
		{Key: metadata.CollectionKey, ModRevision: 7}, {Key: metadata.ObjectStoreKey, ModRevision: 7},
	}
	changed := []metadata.KV{
		{Key: metadata.ClusterKey, Value: record.Encode(), ModRevision: 1},
		{Key: metadata.ProducerIDsKey, Value: metadata.ProducerIDs{Next: 3000}.Encode(), ModRevision: 8},
		{Key: metadata.PartitionKey(topic, 0), Value: p.Encode(), ModRevision: 9},
	}
	s := Successor{Cluster: metadata.FormatID([16]byte{15: 9}), Generation: [16]byte{8}, Node: 1}
	after, revision, err := Restored(slices.Concat(kept, dropped, changed), 12, s)
	must.OK(t, err)
	gap := metadata.Gap(s.Generation)
	if len(after) != len(kept)+len(changed) || revision != 12+int64(gap) {
		t.Errorf("%d keys, revision %d", len(after), revision)
	}
	for _, kv := range kept {
		if !slices.ContainsFunc(after, func(a metadata.KV) bool { return a.Key == kv.Key && bytes.Equal(a.Value, kv.Value) }) {
			t.Errorf("%s has changed", kv.Key)
		}
	}
	img, err := metadata.Load(after, revision)
	must.OK(t, err)
	q := img.Partition(metadata.TopicPartition{Topic: topic})
	if img.ClusterID() != s.Cluster || img.Generation() != s.Generation || len(img.Brokers()) != 0 || q == nil {
		t.Fatalf("cluster %s, generation %x, partition %+v", img.ClusterID(), img.Generation(), q)
	}
	if q.Leader != -1 || q.LeaderEpoch != p.LeaderEpoch+gap+2 || q.PartitionEpoch != p.PartitionEpoch+gap ||
		q.Unclean != p.LeaderEpoch+gap ||
		!slices.Equal(q.Replicas, []int32{1}) || !slices.Equal(q.ISR, []int32{1}) || len(q.ELR)+len(q.Adding) > 0 {
		t.Errorf("partition %+v", q)
	}
	i := slices.IndexFunc(after, func(kv metadata.KV) bool { return kv.Key == metadata.ProducerIDsKey })
	if ids, err := metadata.DecodeProducerIDs(after[i]); err != nil || ids.Next < 3000+1<<40 {
		t.Errorf("producer ids %+v, %v", ids, err)
	}
	if _, _, err := Restored(changed, math.MaxInt64-5, s); err == nil {
		t.Error("revisions overflow")
	}
	changed[1].Value = metadata.ProducerIDs{Next: math.MaxInt64 - 5}.Encode()
	if _, _, err := Restored(changed, 12, s); err == nil {
		t.Error("producer ids overflow")
	}
}
