package groups

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/topicconf"
	"github.com/chronik-io/chronik/pkg/durability"
)

// createTimeout bounds one attempt to make the topic.
const createTimeout = 30 * time.Second

// Ensure has the topic made, in the background, where it isn't there. Whoever asks
// again finds out whether it is.
func (c *Coordinator) Ensure() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.creating || c.image.Load().Topic(Topic) != nil {
		return
	}
	c.creating = true
	c.work.Go(func() {
		err := c.create()
		var refused *controller.Error
		if errors.As(err, &refused) && refused.Kind == controller.TopicExists {
			err = nil // somebody else was quicker
		}
		if err != nil && c.ctx.Err() == nil {
			c.opt.Logger.Error("the topic of groups could not be made, groups have no coordinator", zap.String("topic", Topic), zap.Error(err))
		}
		c.mu.Lock()
		c.creating = false
		c.mu.Unlock()
	})
}

// create makes the topic: compacted, and acknowledged on disk whatever the broker's
// default profile is, for a commit that is forgotten makes a consumer read again.
func (c *Coordinator) create() error {
	ctx, cancel := context.WithTimeout(c.ctx, createTimeout)
	defer cancel()
	o := &c.conf.Offsets
	brokers := len(c.image.Load().Brokers())
	segment, policy, profile, compression := strconv.Itoa(int(o.SegmentBytes)), "compact", durability.Default, "producer"
	_, err := c.opt.Controller.CreateTopic(ctx, controller.TopicSpec{
		Name: Topic, Partitions: o.Partitions, ReplicationFactor: int16(min(int(o.ReplicationFactor), max(brokers, 1))),
		Configs: map[string]*string{"cleanup.policy": &policy, "compression.type": &compression, "segment.bytes": &segment,
			topicconf.DurabilityProfile: &profile},
	})
	return err
}
