package service

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

// Ensure creates the topic in the background if it does not exist. If the last attempt failed, a
// further call tries again. Ensure does not block.
func (s *Service) Ensure() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.creating || s.image.Load().Topic(s.def.Topic) != nil {
		return
	}
	s.creating = true
	s.work.Go(func() {
		err := s.create()
		var refused *controller.Error
		if errors.As(err, &refused) && refused.Kind == controller.TopicExists {
			err = nil // another request was quicker
		}
		if err != nil && s.ctx.Err() == nil {
			s.opt.Logger.Error("internal topic can't be created, its clients have no coordinator",
				zap.String("topic", s.def.Topic), zap.Error(err))
		}
		s.mu.Lock()
		s.creating = false
		s.mu.Unlock()
	})
}

// create creates the topic: compacted, and with the profile that acknowledges on disk whatever the
// broker's default is, because a coordinator must not lose what it has acknowledged.
func (s *Service) create() error {
	ctx, cancel := context.WithTimeout(s.ctx, createTimeout)
	defer cancel()
	brokers := len(s.image.Load().Brokers())
	segment, policy, profile, compression := strconv.Itoa(int(s.def.SegmentBytes)), "compact", durability.Default, "producer"
	_, err := s.opt.Controller.CreateTopic(ctx, controller.TopicSpec{
		Name: s.def.Topic, Partitions: s.def.Partitions, ReplicationFactor: int16(min(int(s.def.ReplicationFactor), max(brokers, 1))),
		Configs: map[string]*string{"cleanup.policy": &policy, "compression.type": &compression, "segment.bytes": &segment,
			configdef.DurabilityProfile: &profile},
	})
	return err
}
