package host

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/pkg/durability"
)

// createTimeout bounds one attempt to create the topic.
const createTimeout = 30 * time.Second

// Ensure has the topic created, in the background, where it isn't there. Asked again it
// does so again if the last attempt has failed.
func (h *Host) Ensure() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.creating || h.image.Load().Topic(h.def.Topic) != nil {
		return
	}
	h.creating = true
	h.work.Go(func() {
		err := h.create()
		var refused *controller.Error
		if errors.As(err, &refused) && refused.Kind == controller.TopicExists {
			err = nil // another request was quicker
		}
		if err != nil && h.ctx.Err() == nil {
			h.opt.Logger.Error("an internal topic could not be created: nothing that it is for has a coordinator",
				zap.String("topic", h.def.Topic), zap.Error(err))
		}
		h.mu.Lock()
		h.creating = false
		h.mu.Unlock()
	})
}

// create creates the topic: compacted, and acknowledged on disk whatever the broker's
// default profile is, since a coordinator must not forget what it has acknowledged.
func (h *Host) create() error {
	ctx, cancel := context.WithTimeout(h.ctx, createTimeout)
	defer cancel()
	brokers := len(h.image.Load().Brokers())
	segment, policy, profile, compression := strconv.Itoa(int(h.def.SegmentBytes)), "compact", durability.Default, "producer"
	_, err := h.opt.Controller.CreateTopic(ctx, controller.TopicSpec{
		Name: h.def.Topic, Partitions: h.def.Partitions, ReplicationFactor: int16(min(int(h.def.ReplicationFactor), max(brokers, 1))),
		Configs: map[string]*string{"cleanup.policy": &policy, "compression.type": &compression, "segment.bytes": &segment,
			configdef.DurabilityProfile: &profile},
	})
	return err
}
