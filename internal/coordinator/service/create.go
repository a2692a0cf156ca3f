package service

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/pkg/durability"
)

// createTimeout bounds one attempt to create the topic.
const createTimeout = 30 * time.Second

// WhenCreated calls done when this broker knows the topic, and creates it as Ensure does if it does
// not exist. done gets an error if the topic cannot be created now, if this broker does not know it
// after two times createTimeout, or after Stop. It is called exactly once, from any goroutine and
// possibly before WhenCreated returns. Neither blocks.
func (s *Service) WhenCreated(done func(error)) {
	if s.known() {
		done(nil)
		return
	}
	s.mu.Lock()
	s.waiting = append(s.waiting, done)
	s.mu.Unlock()
	err := s.Ensure()
	s.mu.Lock()
	if s.closed {
		err = coordinator.ErrNotCoordinator
	}
	s.mu.Unlock()
	if err != nil || s.known() { // it may have come before done was in the list
		s.release(err)
	}
}

// known reports whether this broker knows the topic.
func (s *Service) known() bool { return s.image.Load().Topic(s.def.Topic) != nil }

// release answers all who wait for the topic.
func (s *Service) release(err error) {
	s.mu.Lock()
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for _, done := range waiting {
		done(err)
	}
}

// Ensure creates the topic in the background if it does not exist. If the last attempt failed, a
// further call tries again. The error states that too few brokers are active, see Options.Brokers.
// Ensure does not block.
func (s *Service) Ensure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	img := s.image.Load()
	if s.closed || s.creating || s.known() {
		return nil
	}
	if err := s.enough(img); err != nil {
		return err
	}
	s.creating = true
	s.work.Go(func() {
		err := s.create()
		var refused *controller.Error
		if errors.As(err, &refused) && refused.Kind == controller.TopicExists {
			err = nil // another request was quicker
		}
		if err != nil && s.ctx.Err() == nil {
			s.opt.Logger.Warn("internal topic can't be created: its clients have no coordinator, and their next request tries again",
				zap.String("topic", s.def.Topic), zap.Error(err))
		}
		s.mu.Lock()
		s.creating = false
		s.mu.Unlock()
		if err != nil {
			s.release(err)
			return
		}
		// Apply comes first, unless this broker is cut off. After Close nothing waits: Stop has
		// answered.
		time.AfterFunc(createTimeout, func() {
			s.release(errors.New("this broker does not know the topic yet"))
		})
	})
	return nil
}

// enough returns an error if fewer brokers are active and take replicas than the topic needs.
func (s *Service) enough(img *metadata.Image) error {
	active, need := 0, controller.DefaultReplicas(img, min(int(s.def.ReplicationFactor), s.opt.Brokers), s.opt.Brokers)
	for _, b := range img.Brokers() {
		if state, _ := img.Liveness(b.ID); state == metadata.Active && controller.TakesReplicas(img, b.ID) {
			active++
		}
	}
	if active < need {
		return fmt.Errorf("topic %s is created when %d brokers that take replicas are active, and %d of them are", s.def.Topic, need, active)
	}
	return nil
}

// create creates the topic: compacted unless Definition.Configs say otherwise, and with the profile
// that acknowledges on disk whatever the broker's default is, because a coordinator must not lose
// what it has acknowledged.
func (s *Service) create() error {
	ctx, cancel := context.WithTimeout(s.ctx, createTimeout)
	defer cancel()
	img := s.image.Load()
	replicas := controller.DefaultReplicas(img, min(int(s.def.ReplicationFactor), max(len(img.Brokers()), 1)), s.opt.Brokers)
	segment, policy, profile, compression := strconv.Itoa(int(s.def.SegmentBytes)), "compact", durability.Default, "producer"
	configs := map[string]*string{"cleanup.policy": &policy, "compression.type": &compression, "segment.bytes": &segment,
		configdef.DurabilityProfile: &profile}
	if s.def.MinISR > 0 {
		minISR := strconv.Itoa(int(s.def.MinISR))
		configs["min.insync.replicas"] = &minISR
	}
	for name, value := range s.def.Configs {
		configs[name] = &value
	}
	_, err := s.opt.Controller.CreateTopic(ctx, controller.TopicSpec{
		Name: s.def.Topic, Partitions: s.def.Partitions, ReplicationFactor: int16(replicas),
		Configs: configs,
	})
	return err
}
