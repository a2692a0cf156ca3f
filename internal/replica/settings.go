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

// TopicSettings are the configurations of topics, resolved once per change for all that go by
// them: the logs, the handlers, the coordinators. Its methods may be called concurrently.
type TopicSettings struct {
	opt   SettingsOptions
	byID  sync.Map                       // [16]byte → *TopicSetting
	image atomic.Pointer[metadata.Image] // the newest that Follow has seen; nil before it
}

// SettingsOptions are what TopicSettings resolve from.
type SettingsOptions struct {
	Self    int32
	Configs *configdef.Registry
	// Static are the broker's configs as the configuration sets them, by name; they were
	// checked.
	Static map[string]string
	// KeepAll has no log compacted (log.cleaner.enable=false).
	KeepAll bool
	Logger  *zap.Logger
}

// TopicSetting is a topic's resolved configuration and what it means. It never changes.
type TopicSetting struct {
	// Err is why the topic's configuration can't be used, because it names a durability
	// profile that is gone for example: clients' records are refused then, and the rest
	// is the broker's defaults.
	Err   error
	Conf  configdef.Topic
	Rules record.Rules   // for what clients produce
	Log   storage.Config // for its logs

	topicRevision int64
	brokers       [2]int64 // revisions of this broker's and of the common configs
}

// NewTopicSettings returns settings that nothing is resolved of yet.
func NewTopicSettings(opt SettingsOptions) *TopicSettings { return &TopicSettings{opt: opt} }

// Follow is a metadata.Subscriber: what is known of deleted topics is forgotten.
func (s *TopicSettings) Follow(_ context.Context, _, next *metadata.Image, d *metadata.Delta) error {
	s.image.Store(next)
	for _, t := range d.Deleted {
		s.byID.Delete(t.ID)
	}
	return nil
}

// Of returns the setting of a topic under an image. A topic that is nil, as one that is about
// to be deleted, has the broker's defaults.
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
		s.opt.Logger.Error("configuration of a topic can't be used: records for it are refused, its logs get the broker's defaults",
			zap.String("topic", t.Name), zap.Error(c.Err))
	}
	s.byID.Store(t.ID, c)
	if newest := s.image.Load(); newest != nil && newest.TopicByID(t.ID) == nil {
		s.byID.Delete(t.ID) // a request came with an older image: nothing would forget it
	}
	return c
}

// Layers are the places where the configs of a topic may be set, under an image; t may be nil for
// those of the broker.
func (s *TopicSettings) Layers(img *metadata.Image, t *metadata.Topic) configdef.Layers {
	l := configdef.Layers{Broker: img.BrokerConfig(s.opt.Self), All: img.BrokerConfig(metadata.DefaultBroker), Static: s.opt.Static}
	if t != nil {
		l.Topic = t.Configs
	}
	return l
}

func (s *TopicSettings) resolve(img *metadata.Image, t *metadata.Topic) *TopicSetting {
	c := &TopicSetting{}
	c.Conf, c.Err = s.opt.Configs.ResolveTopic(s.Layers(img, t))
	if c.Err == nil {
		c.Rules, c.Err = recordRules(&c.Conf)
	}
	if c.Err != nil {
		c.Conf, _ = s.opt.Configs.ResolveTopic(configdef.Layers{Static: s.opt.Static}) // they were checked
	}
	logs := c.Conf
	logs.Compact = logs.Compact && !s.opt.KeepAll
	c.Log = LogConfig(&logs, t.Internal)
	return c
}

// recordRules is what a resolved configuration means to records that clients produce.
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
	return record.Rules{ // a config of 0 refuses everything; here 0 would be no limit but the format's
		MaxBatchBytes: max(int(c.MaxMessageBytes), 1), Compression: compression,
		LogAppendTime: c.LogAppendTime, RequireKeys: c.Compact,
		TimestampBefore: record.TimestampLimit(c.TimestampBefore), TimestampAfter: record.TimestampLimit(c.TimestampAfter),
	}, err
}
