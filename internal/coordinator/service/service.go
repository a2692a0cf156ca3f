package service

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/share"
)

// Options configure a Service.
type Options struct {
	Self       int32
	Replicas   *replica.Manager
	Controller *controller.Controller
	// Lease reports whether no other broker can have become the coordinator without this one's
	// knowledge. It must be cheap. nil means that there is no other broker.
	Lease func() bool
	// Brokers is how many brokers form the cluster, 0 for a broker without one. The topic is not
	// created before as many of them are active as it gets replicas: the first one to start would
	// otherwise have the only replica for good.
	Brokers int
	// Share divides the processors. Default: that of coordinator.Options.
	Share  *share.Share
	Logger *zap.Logger
}

// Definition is an internal topic and the machines whose state its records hold.
type Definition struct {
	// Topic is the topic's name. It is created with Partitions partitions, a number that must not
	// change because it determines the partition of each key. It gets ReplicationFactor replicas,
	// or as many as there are brokers. MinISR is its min.insync.replicas, 0 for the default.
	Topic string
	// Serves is what the coordinators have, see coordinator.Options.
	Serves            string
	Partitions        int32
	ReplicationFactor int16
	MinISR            int32
	SegmentBytes      int32
	// Configs are more configs of the topic, by name. By default it is compacted.
	Configs map[string]string
	// New makes an empty machine for a partition.
	New func(partition int32) coordinator.Machine
	// Send carries out the requests of the machines, see coordinator.Options. May be nil if they
	// make none.
	Send func(partition, epoch int32, request any, batch *groupcommit.Batch, done func(result any))
	// InitialEvent makes the event that a machine gets after it is loaded. ChangeEvent makes the
	// event for a metadata change, or nil if the change affects no machine. A machine that is
	// loaded meanwhile may get it after an initial event of the same image. Either may be nil.
	InitialEvent func(img *metadata.Image) any
	ChangeEvent  func(next *metadata.Image, d *metadata.Delta) any
}

// Service runs the coordinators of one Definition. Its methods may be called concurrently,
// and only Close blocks.
type Service struct {
	opt Options
	def Definition
	rt  *coordinator.Runtime
	// batches are where loads inflate; nil without Options.Share.
	batches *share.Places
	// image is what the shards know, or are about to be notified of.
	image atomic.Pointer[metadata.Image]

	roleMu sync.Mutex // keeps a shard's role equal to its partition's

	ctx  context.Context // ends the topic's creation at Close
	stop context.CancelFunc
	work sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	creating bool
	waiting  []func(error) // see WhenCreated
}

// New returns a service without partitions; Apply adds them.
func New(opt Options, def Definition) *Service {
	s := &Service{opt: opt, def: def}
	s.image.Store(metadata.Empty())
	s.ctx, s.stop = context.WithCancel(context.Background())
	rt := coordinator.Options{New: def.New, Send: def.Send, Serves: def.Serves}
	if opt.Logger != nil {
		rt.Logger = opt.Logger.With(zap.String("topic", def.Topic))
	}
	if opt.Share != nil {
		rt.Places, s.batches = opt.Share.Of(share.Calls), opt.Share.Of(share.Batches)
	}
	if def.InitialEvent != nil {
		rt.InitialEvent = func(int32) any { return def.InitialEvent(s.image.Load()) }
	}
	s.rt = coordinator.NewRuntime(rt)
	opt.Replicas.Watch(s.partitionCreated)
	return s
}

// Apply is a metadata.Subscriber that must run after the replica manager's. It never fails: a
// partition that is not available has no shard, and its keys have no coordinator.
func (s *Service) Apply(_ context.Context, _, next *metadata.Image, d *metadata.Delta) error {
	// First, because a shard that finishes loading meanwhile reads it.
	s.image.Store(next)
	s.applyTopicChanges(d)
	if s.known() {
		s.release(nil)
	}
	if s.def.ChangeEvent != nil {
		if e := s.def.ChangeEvent(next, d); e != nil {
			s.rt.Announce(e)
		}
	}
	return nil
}

// applyTopicChanges applies changes of the topic's partitions to the shards.
func (s *Service) applyTopicChanges(d *metadata.Delta) {
	s.roleMu.Lock()
	defer s.roleMu.Unlock()
	for _, t := range d.Deleted {
		if t.Name == s.def.Topic {
			for i := range t.Partitions.All() {
				s.rt.Remove(i)
			}
		}
	}
	for _, t := range d.Created {
		if t.Name == s.def.Topic {
			for i := range t.Partitions.All() {
				s.applyRole(t, i)
			}
		}
	}
	for _, change := range d.Changed {
		if t := change.Next; t.Name == s.def.Topic {
			for _, i := range change.Partitions {
				s.applyRole(t, i)
			}
		}
	}
}

// partitionCreated applies the role of a partition whose log was just created. If the topic is not
// the one that Apply last saw, Apply will do it.
func (s *Service) partitionCreated(t *metadata.Topic, index int32) {
	s.roleMu.Lock()
	defer s.roleMu.Unlock()
	if now := s.image.Load().Topic(s.def.Topic); now != nil && now.ID == t.ID {
		s.applyRole(now, index)
	}
}

// applyRole gives a shard the role of its partition. The partition is asked rather than the
// metadata, because after an unclean stop it does not lead in its former epoch. The caller holds
// roleMu.
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
	s.rt.Lead(index, epoch, newPartitionLog(part, s.opt.Replicas.Purgatory(), s.batches))
}

// Topic returns the name of the topic.
func (s *Service) Topic() string { return s.def.Topic }

// Image returns the metadata that the shards know, or are about to be notified of.
func (s *Service) Image() *metadata.Image { return s.image.Load() }

// Partition returns the partition of the topic that a key belongs to, false if the topic does not
// exist yet.
func (s *Service) Partition(key string) (int32, bool) {
	t := s.image.Load().Topic(s.def.Topic)
	if t == nil {
		return 0, false
	}
	return coordinator.PartitionFor(key, t.Partitions.Len()), true
}

// Submit hands an event about a key to the key's shard; see coordinator.Runtime.Submit. Without a
// lease, the answer is coordinator.ErrNotCoordinator: another broker may have accepted newer
// commits.
func (s *Service) Submit(key string, event any, done func(response any, err error)) {
	p, ok := s.Partition(key)
	if !ok {
		done(nil, coordinator.ErrNotCoordinator)
		return
	}
	s.SubmitTo(p, event, done)
}

// current reports whether no other broker can have become a partition's coordinator without this
// one's knowledge.
func (s *Service) current(partition int32) bool {
	if s.opt.Lease != nil && !s.opt.Lease() {
		return false
	}
	t := s.image.Load().Topic(s.def.Topic)
	if t == nil {
		return true // the shard refuses
	}
	part, err := s.opt.Replicas.Partition(t.ID, partition)
	return err != nil || !part.Offered()
}

// begins reports whether this broker is the leader of a partition whose shard learns it in a
// moment: its log is being created, or just was.
func (s *Service) begins(partition int32) bool {
	t := s.image.Load().Topic(s.def.Topic)
	if s.ctx.Err() != nil || t == nil || partition >= t.Partitions.Len() || t.Partitions.At(partition).Leader != s.opt.Self {
		return false
	}
	part, err := s.opt.Replicas.Partition(t.ID, partition)
	if err != nil {
		return errors.Is(err, replica.ErrCreating)
	}
	leader, _ := part.Leader()
	return leader == s.opt.Self
}

// SubmitTo hands an event to the shard of a partition; see Submit. While the log of a partition is
// created that this broker leads, the answer is coordinator.ErrLoading: clients find this broker as
// its coordinator, and librdkafka would not ask again for offsets after NOT_COORDINATOR.
//
// The number may come from another broker that does not know the topic, and has then none.
func (s *Service) SubmitTo(partition int32, event any, done func(response any, err error)) {
	if partition < 0 || !s.current(partition) {
		done(nil, coordinator.ErrNotCoordinator)
		return
	}
	s.rt.Submit(partition, event, func(response any, err error) {
		switch {
		case errors.Is(err, coordinator.ErrNoShard) && s.begins(partition):
			err = coordinator.ErrLoading
		case err == nil && !s.current(partition): // it ended before the shard read its state, or while a commit waited
			response, err = nil, coordinator.ErrNotCoordinator
		}
		done(response, err)
	})
}

// Broadcast hands an event to every loaded shard.
func (s *Service) Broadcast(event any) { s.rt.Broadcast(event) }

// Partitions returns the partitions that this broker coordinates according to the metadata. A shard
// that has no machine yet, or cannot get one, answers coordinator.ErrNotCoordinator.
func (s *Service) Partitions() (list []int32) {
	t := s.image.Load().Topic(s.def.Topic)
	if t == nil {
		return nil
	}
	for i, p := range t.Partitions.All() {
		if p.Leader == s.opt.Self {
			list = append(list, i)
		}
	}
	return list
}

// Stats returns the current figures of all shards.
func (s *Service) Stats() []coordinator.Stats { return s.rt.Stats() }

// background runs f on a goroutine that Close waits for. It returns false after Stop.
func (s *Service) background(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Go(f)
	}
	return !s.closed
}

// Stop answers all waiting and future requests with coordinator.ErrNotCoordinator. It does not
// block.
func (s *Service) Stop() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.rt.Stop()
	s.release(coordinator.ErrNotCoordinator)
}

// Close stops the service and waits for loads and for the creation of the topic, which may be
// blocked on a disk.
func (s *Service) Close() {
	s.Stop()
	s.rt.Close()
	s.work.Wait()
}
