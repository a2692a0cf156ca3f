package broker

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/topicconf"
)

// topicConf is what a topic's configuration means to Produce, resolved once
// per change.
type topicConf struct {
	topicRevision int64
	brokers       [2]int64 // revisions of this broker's and of the common configs
	conf          topicconf.Topic
	rules         record.Rules
	err           error
}

// topicCache keeps the resolved configurations of topics that were produced to.
type topicCache struct {
	byID sync.Map // [16]byte → *topicConf
}

// follow is a metadata.Subscriber: deleted topics leave the cache.
func (c *topicCache) follow(_ context.Context, _, _ *metadata.Image, d *metadata.Delta) error {
	for _, t := range d.Deleted {
		c.byID.Delete(t.ID)
	}
	return nil
}

// topicConf returns the resolved configuration of a topic under an image.
func (b *Broker) topicConf(img *metadata.Image, t *metadata.Topic) *topicConf {
	brokers := [2]int64{img.BrokerConfigRevision(b.opt.Self), img.BrokerConfigRevision(metadata.DefaultBroker)}
	if v, ok := b.topics.byID.Load(t.ID); ok {
		if c := v.(*topicConf); c.topicRevision == t.ConfigRevision && c.brokers == brokers {
			return c
		}
	}
	c := &topicConf{topicRevision: t.ConfigRevision, brokers: brokers}
	c.conf, c.err = b.opt.Configs.ResolveTopic(b.layers(img, t))
	if c.err == nil {
		c.rules, c.err = rulesOf(&c.conf)
	}
	if c.err != nil {
		b.opt.Logger.Error("configuration of a topic can't be used, records for it are refused", zap.String("topic", t.Name), zap.Error(c.err))
	}
	b.topics.byID.Store(t.ID, c)
	return c
}

// MinInSync returns a topic's min.insync.replicas under an image; 1 where its
// configuration can't be used.
func (b *Broker) MinInSync(img *metadata.Image, t *metadata.Topic) int32 {
	if c := b.topicConf(img, t); c.err == nil {
		return c.conf.MinInSyncReplicas
	}
	return 1
}

// layers are the places where the configs of a topic may be set; t may be nil
// for those of the broker.
func (b *Broker) layers(img *metadata.Image, t *metadata.Topic) topicconf.Layers {
	l := topicconf.Layers{Broker: img.BrokerConfig(b.opt.Self), All: img.BrokerConfig(metadata.DefaultBroker), Static: b.opt.Static}
	if t != nil {
		l.Topic = t.Configs
	}
	return l
}

func rulesOf(c *topicconf.Topic) (record.Rules, error) {
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
