package replica

import (
	"context"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
)

// TopicSettings caches the resolved configurations of topics for logs, request handlers and
// coordinators. A configuration is resolved once per change. All methods may be called
// concurrently.
type TopicSettings struct {
	opt   SettingsOptions
	byID  sync.Map                       // [16]byte → *TopicSetting
	image atomic.Pointer[metadata.Image] // the latest that Follow has seen; nil before

	sources copySources
}

// SettingsOptions configure TopicSettings.
type SettingsOptions struct {
	Self    int32
	Configs *configdef.Registry
	// Static are the broker configs that the configuration sets, by name. They were validated.
	Static map[string]string
	// KeepAll disables compaction (log.cleaner.enable=false).
	KeepAll bool
	Logger  *zap.Logger
}

// TopicSetting is a topic's resolved configuration and what follows from it. It never changes.
type TopicSetting struct {
	// Err is why the topic's configuration is invalid, for example because it names a durability
	// profile that no longer exists. Then clients' records are refused, and the other settings are
	// the broker's defaults.
	Err   error
	Conf  configdef.Topic
	Rules record.Rules   // for clients' records
	Log   storage.Config // for its logs

	topicRevision int64
	brokers       [2]int64 // revisions of this broker's configs and of the cluster-wide ones
}

// NewTopicSettings returns empty settings.
func NewTopicSettings(opt SettingsOptions) *TopicSettings { return &TopicSettings{opt: opt} }

// Follow is a metadata.Subscriber. It removes the settings of deleted topics.
func (s *TopicSettings) Follow(_ context.Context, _, next *metadata.Image, d *metadata.Delta) error {
	s.image.Store(next)
	for _, t := range d.Deleted {
		s.byID.Delete(t.ID)
	}
	return nil
}

// Of returns the setting of a topic under an image. A nil topic, for example that of a log that is
// about to be deleted, has the broker's defaults.
func (s *TopicSettings) Of(img *metadata.Image, t *metadata.Topic) *TopicSetting {
	if t == nil {
		return s.resolve(img, &metadata.Topic{})
	}
	brokers := [2]int64{img.BrokerConfigRevision(s.opt.Self), img.BrokerConfigRevision(metadata.DefaultBroker)}
	if v, ok := s.byID.Load(t.ID); ok {
		if c := v.(*TopicSetting); c.topicRevision == t.ConfigRevision && c.brokers == brokers {
			return c
		}
	}
	c := s.resolve(img, t)
	c.topicRevision, c.brokers = t.ConfigRevision, brokers
	if c.Err != nil {
		s.opt.Logger.Error("invalid topic configuration: refusing clients' records, using the broker's defaults for its logs; correct it with chronikctl config set",
			zap.String("topic", t.Name), zap.Error(c.Err))
	}
	s.byID.Store(t.ID, c)
	if newest := s.image.Load(); newest != nil && newest.TopicByID(t.ID) == nil {
		s.byID.Delete(t.ID) // a request used an older image: nothing else would remove the entry
	}
	return c
}

// Layers returns the sources of a topic's configs under an image; a nil topic has those of the
// broker.
func (s *TopicSettings) Layers(img *metadata.Image, t *metadata.Topic) configdef.Layers {
	l := configdef.Layers{Broker: img.BrokerConfig(s.opt.Self), All: img.BrokerConfig(metadata.DefaultBroker), Static: s.opt.Static}
	if t != nil {
		l.Topic = t.Configs
		if p := t.Partitions.At(0); p != nil { // the same for all, except during reassignments
			l.Replicas = len(p.Replicas) - len(p.Adding)
		}
	}
	return l
}

// MinISR returns the effective min.insync.replicas of a partition under an image.
func (s *TopicSettings) MinISR(img *metadata.Image, t *metadata.Topic, p *metadata.Partition) int {
	return s.Of(img, t).Conf.MinISR(len(p.Replicas) - len(p.Adding))
}

func (s *TopicSettings) resolve(img *metadata.Image, t *metadata.Topic) *TopicSetting {
	c := &TopicSetting{}
	c.Conf, c.Err = s.opt.Configs.ResolveTopic(s.Layers(img, t))
	if c.Err == nil {
		c.Rules, c.Err = recordRules(&c.Conf)
	}
	if c.Err != nil {
		c.Conf, _ = s.opt.Configs.ResolveTopic(configdef.Layers{Static: s.opt.Static}) // they were validated
	}
	logs := c.Conf
	logs.Compact = logs.Compact && !s.opt.KeepAll
	c.Log = LogConfig(&logs, t.Internal)
	return c
}

// recordRules returns the rules for clients' records under a resolved configuration.
func recordRules(c *configdef.Topic) (record.Rules, error) {
	levels := record.DefaultLevels()
	switch c.Compression {
	case "gzip":
		levels.Gzip = c.CompressionLevel
	case "lz4":
		levels.Lz4 = c.CompressionLevel
	case "zstd":
		levels.Zstd = c.CompressionLevel
	}
	compression, err := record.ParseCompression(c.Compression, levels)
	return record.Rules{ // a config of 0 refuses everything, but a rule of 0 means no limit except the format's
		MaxBatchBytes: max(int(c.MaxMessageBytes), 1), Compression: compression,
		LogAppendTime: c.LogAppendTime, RequireKeys: c.Compact,
		TimestampBefore: record.TimestampLimit(c.TimestampBefore), TimestampAfter: record.TimestampLimit(c.TimestampAfter),
	}, err
}
