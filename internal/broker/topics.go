package broker

import (
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
)

// topicConf is a topic's resolved configuration; if it is invalid, records for the topic are
// refused with its Err.
type topicConf = replica.TopicSetting

// topicConf returns the resolved configuration of a topic under an image.
func (b *Handler) topicConf(img *metadata.Image, t *metadata.Topic) *topicConf {
	return b.opt.Settings.Of(img, t)
}

// layers returns the levels at which the configs of a topic may be set; t may be nil for those of
// the broker.
func (b *Handler) layers(img *metadata.Image, t *metadata.Topic) configdef.Layers {
	return b.opt.Settings.Layers(img, t)
}
