package replica

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
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
