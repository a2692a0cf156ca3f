package replica

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// settings returns the settings of a broker with a static default, and their log.
func settings(t *testing.T, keepAll bool) (*TopicSettings, *observer.ObservedLogs) {
	t.Helper()
	profiles, err := durability.NewSet()
	must(t, err)
	core, logs := observer.New(zap.ErrorLevel)
	return NewTopicSettings(SettingsOptions{Self: self, Configs: configdef.New(configdef.Options{Profiles: profiles}),
		Static: map[string]string{"min.insync.replicas": "3"}, KeepAll: keepAll, Logger: zap.New(core)}), logs
}

// A topic's configuration is resolved once per change of its own, the broker's or the cluster-wide
// configs.
func TestSettingsAreResolvedOncePerChange(t *testing.T) {
	s, _ := settings(t, false)
	c := newCluster()
	l := start(t, vfs.Memory(), c)
	show := func() (*metadata.Image, *metadata.Topic) {
		must(t, c.apply(t, l.Manager))
		return c.image, c.image.Topic("a")
	}
	c.topic("a", idA, 1)
	img, topic := show()
	first := s.Of(img, topic)
	if first.Conf.MinInSyncReplicas != 3 || first.Err != nil || first.Rules.MaxBatchBytes == 0 {
		t.Errorf("%+v", first)
	}
	c.topic("b", idB, 1) // does not concern topic a
	if img, topic = show(); s.Of(img, topic) != first {
		t.Error("resolved again without a change")
	}
	c.put(metadata.TopicConfigKey(idA), metadata.EncodeConfigs(map[string]string{"max.message.bytes": "1000", "cleanup.policy": "compact"}))
	img, topic = show()
	own := s.Of(img, topic)
	if own == first || own.Rules.MaxBatchBytes != 1000 || !own.Rules.RequireKeys || !own.Log.Cleanup.Compact {
		t.Errorf("its own configs: %+v", own)
	}
	c.put(metadata.BrokerConfigKey(self), metadata.EncodeConfigs(map[string]string{"min.insync.replicas": "2"}))
	if img, topic = show(); s.Of(img, topic).Conf.MinInSyncReplicas != 2 {
		t.Error("the broker's configs don't count")
	}
	must(t, s.Follow(t.Context(), nil, nil, &metadata.Delta{Deleted: []*metadata.Topic{topic}}))
	if _, kept := s.byID.Load(idA); kept {
		t.Error("a deleted topic is remembered")
	}
	c.delete("a", idA, 1)
	old := img
	img, _ = show()
	must(t, s.Follow(t.Context(), old, img, metadata.Diff(old, img)))
	if s.Of(old, topic).Conf.MinInSyncReplicas != 2 {
		t.Error("a request that came before the deletion gets another configuration")
	}
	if _, kept := s.byID.Load(idA); kept {
		t.Error("a request that came before the deletion has a deleted topic remembered for good")
	}
}

// With log.cleaner.enable=false logs are not compacted, and the rules for clients' records stay the
// same.
func TestDisabledCleanerCompactsNothing(t *testing.T) {
	s, _ := settings(t, true)
	c := s.Of(metadata.Empty(), &metadata.Topic{ID: idA, Configs: map[string]string{"cleanup.policy": "compact"}})
	if c.Log.Cleanup.Compact || !c.Conf.Compact || !c.Rules.RequireKeys {
		t.Errorf("%+v", c)
	}
}

// An invalid configuration is logged once, and the broker's defaults apply.
func TestAnInvalidConfigurationIsLoggedOnce(t *testing.T) {
	s, logs := settings(t, false)
	topic := &metadata.Topic{ID: idA, Name: "a", Internal: true, Configs: map[string]string{configdef.DurabilityProfile: "gone"}}
	for range 3 {
		if c := s.Of(metadata.Empty(), topic); c.Err == nil || c.Conf.MinInSyncReplicas != 3 || c.Log.Profile.Name == "" ||
			!c.Log.Cleanup.Internal {
			t.Errorf("%+v", c)
		}
	}
	if logs.Len() != 1 {
		t.Errorf("said %d times", logs.Len())
	}
	if c := s.Of(metadata.Empty(), nil); c.Err != nil || c.Conf.MinInSyncReplicas != 3 {
		t.Errorf("of no topic: %+v", c)
	}
}

// Copies have the rates of the leader and of the follower, which is divided by the number of
// brokers that it copies from. Replicas in sync have none.
func TestCopyRates(t *testing.T) {
	id := [16]byte{7}
	img := func(isr []int32, configs map[string]string, rates map[int32]map[string]string) *metadata.Image {
		kvs := []metadata.KV{
			{Key: metadata.NameKey("t"), Value: metadata.Name{Topic: "t", ID: id}.Encode()},
			{Key: metadata.TopicKey(id), Value: metadata.TopicRecord{Name: "t", Partitions: 3}.Encode()},
			{Key: metadata.TopicConfigKey(id), Value: metadata.EncodeConfigs(configs)},
		}
		for i := range int32(3) {
			p := metadata.Partition{Leader: i%2 + 1, Replicas: []int32{1, 2, 3}, ISR: isr}
			kvs = append(kvs, metadata.KV{Key: metadata.PartitionKey(id, i), Value: p.Encode()})
		}
		for b, set := range rates {
			kvs = append(kvs, metadata.KV{Key: metadata.BrokerConfigKey(b), Value: metadata.EncodeConfigs(set)})
		}
		for i := range kvs {
			kvs[i].ModRevision = 1
		}
		loaded, err := metadata.Load(kvs, 1)
		must(t, err)
		return loaded
	}
	const leaders, followers = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
	rates := map[int32]map[string]string{1: {"leader.replication.throttled.rate": "100"}, 3: {"follower.replication.throttled.rate": "30"}}
	for _, c := range []struct {
		name           string
		isr            []int32
		configs        map[string]string
		rates          map[int32]map[string]string
		leader, copies int64
	}{
		{"named", []int32{1, 2}, map[string]string{leaders: "0:1", followers: "0:3"}, rates, 100, 15},
		{"all", []int32{1, 2}, map[string]string{leaders: "*", followers: "*"}, rates, 100, 15},
		{"in sync", []int32{1, 2, 3}, map[string]string{leaders: "*", followers: "*"}, rates, 0, 0},
		{"others are named", []int32{1, 2}, map[string]string{leaders: "0:2,1:1", followers: "0:1,1:3"}, rates, 0, 0},
		{"no rates", []int32{1, 2}, map[string]string{leaders: "*", followers: "*"}, nil, 0, 0},
		{"nothing is named", []int32{1, 2}, nil, rates, 0, 0},
	} {
		s, _ := settings(t, false)
		must(t, s.Follow(t.Context(), nil, img(c.isr, c.configs, c.rates), &metadata.Delta{}))
		p := &Partition{id: storage.ID{Topic: id, Partition: 0}}
		if leader, copies := s.CopyRates(p, 3); leader != c.leader || copies != c.copies {
			t.Errorf("%s: %d and %d, want %d and %d", c.name, leader, copies, c.leader, c.copies)
		}
	}
}
