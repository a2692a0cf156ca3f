package service

import (
	"context"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
)

// Options are what a Service works with.
type Options struct {
	Self       int32
	Replicas   *replica.Manager
	Controller *controller.Controller
	Settings   *replica.TopicSettings
	Logger     *zap.Logger
}

// Definition is an internal topic and the machines that its records are the state of.
type Definition struct {
	// Topic is its name. It is created with Partitions, which stay as they are, since keys
	// are bound to them by their number, and with ReplicationFactor replicas or as many as
	// there are brokers.
	Topic             string
	Partitions        int32
	ReplicationFactor int16
	SegmentBytes      int32
	// New makes an empty machine for a partition.
	New func(partition int32) coordinator.Machine
	// Hello makes the event that a machine is handed after it is loaded; Changed the one
	// for a change of metadata, nil where it concerns no machine. Either may be nil.
	Hello   func(img *metadata.Image) any
	Changed func(next *metadata.Image, d *metadata.Delta) any
}

// Service runs the coordinators of one Definition. Its methods may be called concurrently,
// and only Close blocks.
type Service struct {
	opt Options
	def Definition
	rt  *coordinator.Runtime
	// image is what the shards know, or are about to hear.
	image  atomic.Pointer[metadata.Image]
	minISR atomic.Int32

	assuming sync.Mutex // a shard's role is that of its partition at this moment

	ctx  context.Context // ends the creation of the topic at Close
	stop context.CancelFunc
	work sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	creating bool
}

// New returns a host that coordinates nothing; Apply brings partitions.
func New(opt Options, def Definition) *Service {
	s := &Service{opt: opt, def: def}
	s.image.Store(metadata.Empty())
	s.minISR.Store(1)
	s.ctx, s.stop = context.WithCancel(context.Background())
	rt := coordinator.Options{New: def.New, Logger: opt.Logger}
	if def.Hello != nil {
		rt.Hello = func(int32) any { return def.Hello(s.image.Load()) }
	}
	s.rt = coordinator.NewRuntime(rt)
	opt.Replicas.Watch(s.arrived)
	return s
}

// Apply is a metadata.Subscriber, to be told after the partitions. It never fails: a
// partition that can't be had has no shard, and its keys have no coordinator.
func (s *Service) Apply(_ context.Context, _, next *metadata.Image, d *metadata.Delta) error {
	// First of all: a shard that finishes loading meanwhile asks for it.
	s.image.Store(next)
	s.follow(next, d)
	if t := next.Topic(s.def.Topic); t != nil && len(d.BrokerConfigs) > 0 {
		s.configure(next, t)
	}
	if s.def.Changed != nil {
		if e := s.def.Changed(next, d); e != nil {
			s.rt.Broadcast(e)
		}
	}
	return nil
}

// follow gives shards the roles that a change of the topic's partitions gives them.
func (s *Service) follow(next *metadata.Image, d *metadata.Delta) {
	s.assuming.Lock()
	defer s.assuming.Unlock()
	for _, t := range d.Deleted {
		if t.Name == s.def.Topic {
			for i := range t.Partitions.All() {
				s.rt.Remove(i)
			}
		}
	}
	for _, t := range d.Created {
		if t.Name == s.def.Topic {
			s.configure(next, t)
			for i := range t.Partitions.All() {
				s.applyRole(t, i)
			}
		}
	}
	for _, change := range d.Changed {
		if t := change.Next; t.Name == s.def.Topic {
			s.configure(next, t)
			for _, i := range change.Partitions {
				s.applyRole(t, i)
			}
		}
	}
}

// arrived gives a shard its role when the log of its partition has been created. If the
// topic is not the one that Apply knows, Apply will do it.
func (s *Service) arrived(t *metadata.Topic, index int32) {
	s.assuming.Lock()
	defer s.assuming.Unlock()
	if now := s.image.Load().Topic(s.def.Topic); now != nil && now.ID == t.ID {
		s.applyRole(now, index)
	}
}

// applyRole gives a shard the role that its partition has. The partition's own word
// counts, not the metadata's: after an unclean stop it does not lead in the epoch
// that it had. The caller holds assuming.
func (s *Service) applyRole(t *metadata.Topic, index int32) {
	part, err := s.opt.Replicas.Partition(t.ID, index)
	if err != nil {
		s.rt.Resign(index, t.Partitions.At(index).LeaderEpoch)
		return
	}
	leader, epoch := part.Leader()
	if leader != s.opt.Self {
		s.rt.Resign(index, epoch)
		return
	}
	s.rt.Lead(index, epoch, newPartitionLog(part, s.opt.Replicas.Purgatory(), s.minISR.Load))
}

// configure notes what appends need of the topic's configs.
func (s *Service) configure(img *metadata.Image, t *metadata.Topic) {
	s.minISR.Store(s.opt.Settings.Of(img, t).Conf.MinInSyncReplicas)
}

// Image is the metadata that the shards know, or are about to hear.
func (s *Service) Image() *metadata.Image { return s.image.Load() }

// Partition is the partition of the topic that a key belongs to; false where there is
// no such topic yet.
func (s *Service) Partition(key string) (int32, bool) {
	t := s.image.Load().Topic(s.def.Topic)
	if t == nil {
		return 0, false
	}
	return coordinator.PartitionFor(key, t.Partitions.Len()), true
}

// Submit hands an event about a key to its shard; see coordinator.Runtime.Submit.
func (s *Service) Submit(key string, event any, done func(response any, err error)) {
	p, ok := s.Partition(key)
	if !ok {
		done(nil, coordinator.ErrNotCoordinator)
		return
	}
	s.rt.Submit(p, event, done)
}

// SubmitTo hands an event to the shard of a partition.
func (s *Service) SubmitTo(partition int32, event any, done func(response any, err error)) {
	s.rt.Submit(partition, event, done)
}

// Broadcast hands an event to every shard that is loaded.
func (s *Service) Broadcast(event any) { s.rt.Broadcast(event) }

// Partitions are those that this broker coordinates or has coordinated, in no order.
func (s *Service) Partitions() []int32 { return s.rt.Partitions() }

// Stats are the shards' figures.
func (s *Service) Stats() []coordinator.Stats { return s.rt.Stats() }

// Stop answers everything that waits, and comes, with coordinator.ErrNotCoordinator. It waits
// for nothing.
func (s *Service) Stop() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.rt.Stop()
}

// Close is Stop, and waits for the loads and the creation that have begun: they may stand on
// a disk.
func (s *Service) Close() {
	s.Stop()
	s.rt.Close()
	s.work.Wait()
}
