package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/storage"
)

// Cluster is what the manager tells the metadata.
type Cluster interface {
	// AssignDirs records in which log directory this broker's replicas were made,
	// in one transaction.
	AssignDirs(ctx context.Context, broker int32, dirs map[metadata.TopicPartition][16]byte) (revision int64, err error)
	// RaiseEpochs raises the leader epochs of partitions, in one transaction.
	RaiseEpochs(ctx context.Context, partitions []metadata.TopicPartition) (revision int64, err error)
	// ForgetDeleted removes the tombstones of topics: no log of theirs is left.
	ForgetDeleted(ctx context.Context, topics ...[16]byte) (revision int64, err error)
}

// Options are what a Manager needs.
type Options struct {
	Self    int32
	Storage *storage.Manager
	Cluster Cluster
	Park    *purgatory.Purgatory
	Logger  *zap.Logger
	// Config returns the configuration of a topic's logs under an image.
	Config func(*metadata.Image, *metadata.Topic) storage.Config
}

// Manager holds this broker's partitions and keeps them what the metadata says.
type Manager struct {
	opt Options

	mu         sync.RWMutex
	partitions map[metadata.TopicPartition]*Partition
	offline    map[metadata.TopicPartition]error // assigned to us, and not to be had

	// fence has partitions that may not be led below this epoch, because their
	// last life did not end cleanly (I9).
	fence map[metadata.TopicPartition]int32

	// Only Apply touches these.
	begun   bool              // Apply has been called
	deleted map[[16]byte]bool // topics whose logs could not be deleted; the next start tries again
}

// NewManager returns a manager without partitions. Apply brings them.
func NewManager(opt Options) *Manager {
	return &Manager{
		opt: opt, partitions: map[metadata.TopicPartition]*Partition{},
		offline: map[metadata.TopicPartition]error{}, fence: map[metadata.TopicPartition]int32{},
		deleted: map[[16]byte]bool{},
	}
}

// Purgatory is where operations wait for this broker's partitions.
func (m *Manager) Purgatory() *purgatory.Purgatory { return m.opt.Park }

// Partition returns a partition that this broker has. The error matches
// ErrUnknownPartition or ErrOffline.
func (m *Manager) Partition(topic [16]byte, partition int32) (*Partition, error) {
	tp := metadata.TopicPartition{Topic: topic, Partition: partition}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if p := m.partitions[tp]; p != nil {
		return p, nil
	}
	if err := m.offline[tp]; err != nil {
		return nil, err
	}
	return nil, ErrUnknownPartition
}

// Partitions returns all partitions of this broker.
func (m *Manager) Partitions() []*Partition {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := make([]*Partition, 0, len(m.partitions))
	for _, p := range m.partitions {
		list = append(list, p)
	}
	return list
}

// Room returns why no partition should be made for a client now, nil if one may:
// see storage.Manager.Room.
func (m *Manager) Room() error { return m.opt.Storage.Room() }

// Apply is a metadata.Subscriber: it makes, promotes and removes partitions.
// Errors concern single topics; the others are brought up all the same.
func (m *Manager) Apply(ctx context.Context, _, next *metadata.Image, d *metadata.Delta) error {
	var errs []error
	first := !m.begun
	if first {
		m.begun = true
		if err := m.fenceUnclean(ctx, d.Created); err != nil {
			errs = append(errs, err)
		}
	}
	m.remove(d.Deleted)
	var want []wanted
	for _, t := range d.Created {
		for i := range t.Partitions.All() {
			want = append(want, wanted{t, i})
		}
	}
	for _, c := range d.Changed {
		for _, i := range c.Partitions {
			want = append(want, wanted{c.Next, i})
		}
	}
	errs = append(errs, m.bring(ctx, next, want, first))
	m.configure(next, d)
	errs = append(errs, m.bury(ctx, d.Tombstones))
	return errors.Join(errs...)
}

// wanted is a partition that may have to be made or change its role.
type wanted struct {
	topic     *metadata.Topic
	partition int32
}

func (w wanted) tp() metadata.TopicPartition {
	return metadata.TopicPartition{Topic: w.topic.ID, Partition: w.partition}
}

// String is the partition as Kafka names it.
func (w wanted) String() string { return fmt.Sprintf("%s-%d", w.topic.Name, w.partition) }

// bring makes the logs that are missing, all at once, and gives every partition
// its role. first is true for the partitions that an earlier run may have made.
func (m *Manager) bring(ctx context.Context, img *metadata.Image, want []wanted, first bool) error {
	var errs []error
	var specs []storage.Spec
	for _, w := range want {
		dir, ours := w.topic.Partitions.At(w.partition).Dir(m.opt.Self)
		if !ours {
			continue
		}
		id := storage.ID{Topic: w.topic.ID, Partition: w.partition}
		l := m.opt.Storage.Get(id)
		err := m.misplaced(w, dir, l, first)
		switch {
		case err != nil:
			m.mu.Lock()
			m.offline[w.tp()] = err
			m.mu.Unlock()
			errs = append(errs, err)
		case l != nil:
			m.adopt(w.tp(), l)
		default:
			specs = append(specs, storage.Spec{ID: id, Topic: w.topic.Name, Config: m.opt.Config(img, w.topic)})
		}
	}
	if len(specs) > 0 {
		errs = append(errs, m.create(specs))
	}
	dirs := map[metadata.TopicPartition][16]byte{}
	for _, w := range want {
		m.assume(w, dirs)
	}
	if len(dirs) > 0 {
		if _, err := m.opt.Cluster.AssignDirs(ctx, m.opt.Self, dirs); err != nil {
			errs = append(errs, fmt.Errorf("record the log directories of %d partitions: %w", len(dirs), err))
		}
	}
	return errors.Join(errs...)
}

// create makes logs; those that can't be made are offline until the next start.
// They are made all at once, and where that fails by halves: what one of them
// can't have keeps none of the others from being made.
func (m *Manager) create(specs []storage.Spec) error {
	logs, err := m.opt.Storage.Create(specs)
	if err == nil {
		for _, l := range logs {
			m.adopt(metadata.TopicPartition{Topic: l.ID().Topic, Partition: l.ID().Partition}, l)
		}
		return nil
	}
	if half := len(specs) / 2; half > 0 {
		return errors.Join(m.createMissing(specs[:half]), m.createMissing(specs[half:]))
	}
	s := &specs[0]
	err = fmt.Errorf("the log of %s-%d could not be made: %w", s.Topic, s.ID.Partition, err)
	m.mu.Lock()
	m.offline[metadata.TopicPartition{Topic: s.ID.Topic, Partition: s.ID.Partition}] = fmt.Errorf("%w: %w", ErrOffline, err)
	m.mu.Unlock()
	return err
}

// createMissing is create after an attempt that may have made some of the logs, in
// one directory and not in the other.
func (m *Manager) createMissing(specs []storage.Spec) error {
	var missing []storage.Spec
	for i := range specs {
		if l := m.opt.Storage.Get(specs[i].ID); l != nil {
			m.adopt(metadata.TopicPartition{Topic: specs[i].ID.Topic, Partition: specs[i].ID.Partition}, l)
		} else {
			missing = append(missing, specs[i])
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return m.create(missing)
}

// adopt makes a log a partition.
func (m *Manager) adopt(tp metadata.TopicPartition, l *storage.Log) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.partitions[tp] == nil {
		m.partitions[tp] = newPartition(l, m.opt.Self, m.opt.Park)
	}
	delete(m.offline, tp)
}

// assume gives a partition its role, and notes its directory if the metadata
// doesn't know it yet.
func (m *Manager) assume(w wanted, dirs map[metadata.TopicPartition][16]byte) {
	tp := w.tp()
	m.mu.RLock()
	p := m.partitions[tp]
	m.mu.RUnlock()
	if p == nil {
		return
	}
	part := w.topic.Partitions.At(w.partition)
	if dir, ours := part.Dir(m.opt.Self); ours && dir == [16]byte{} {
		dirs[tp] = p.log.Dir().ID()
	}
	m.mu.Lock()
	fenced := part.LeaderEpoch < m.fence[tp]
	if !fenced {
		delete(m.fence, tp)
	}
	m.mu.Unlock()
	if fenced {
		return // the raised epoch is on its way
	}
	if part.Leader == m.opt.Self {
		p.Lead(part.LeaderEpoch, part.Replicas, part.ISR)
	} else {
		p.FollowOf(part.Leader, part.LeaderEpoch, part.Replicas, part.ISR)
	}
}

// fenceUnclean raises the leader epochs of the partitions whose directory was
// not left cleanly: what was shown of them may be gone, and an epoch is never
// resumed (I9). They are led once the metadata shows the new epoch.
func (m *Manager) fenceUnclean(ctx context.Context, topics []*metadata.Topic) error {
	var raise []metadata.TopicPartition
	for _, t := range topics {
		for i, part := range t.Partitions.All() {
			l := m.opt.Storage.Get(storage.ID{Topic: t.ID, Partition: i})
			if l != nil && !l.Dir().Clean() && part.Leader == m.opt.Self {
				tp := metadata.TopicPartition{Topic: t.ID, Partition: i}
				raise = append(raise, tp)
				m.mu.Lock()
				m.fence[tp] = part.LeaderEpoch + 1
				m.mu.Unlock()
			}
		}
	}
	if len(raise) == 0 {
		return nil
	}
	if _, err := m.opt.Cluster.RaiseEpochs(ctx, raise); err != nil {
		return fmt.Errorf("raise the leader epochs of %d partitions after an unclean stop: %w", len(raise), err)
	}
	return nil
}

// Unled returns how many partitions wait for a raised leader epoch. It may be
// called once everything that Apply changed has been applied; a number above 0
// means that the metadata did not take the change.
func (m *Manager) Unled() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.fence)
}

// configure passes changed configurations on.
func (m *Manager) configure(img *metadata.Image, d *metadata.Delta) {
	set := func(t *metadata.Topic) {
		cfg := m.opt.Config(img, t)
		for i := range t.Partitions.All() {
			m.mu.RLock()
			p := m.partitions[metadata.TopicPartition{Topic: t.ID, Partition: i}]
			m.mu.RUnlock()
			if p != nil {
				p.log.Configure(cfg)
			}
		}
	}
	if len(d.BrokerConfigs) > 0 {
		for t := range img.Topics() {
			set(t)
		}
		return
	}
	for _, t := range d.Created {
		set(t)
	}
	for _, c := range d.Changed {
		if c.Config {
			set(c.Next)
		}
	}
}

// remove ends the partitions of topics and deletes their logs, all at once.
func (m *Manager) remove(topics []*metadata.Topic) {
	var ids []storage.ID
	for _, t := range topics {
		for i := range t.Partitions.All() {
			tp := metadata.TopicPartition{Topic: t.ID, Partition: i}
			m.mu.Lock()
			p := m.partitions[tp]
			delete(m.partitions, tp)
			delete(m.offline, tp)
			delete(m.fence, tp)
			m.mu.Unlock()
			if p != nil {
				p.Delete()
			}
			ids = append(ids, storage.ID{Topic: tp.Topic, Partition: tp.Partition})
		}
	}
	err := m.opt.Storage.Delete(ids...)
	if err == nil {
		return
	}
	for _, t := range topics {
		m.deleted[t.ID] = true
	}
	m.opt.Logger.Error("logs of deleted topics could not be removed, the next start tries again",
		zap.Int("topics", len(topics)), zap.String("first", topics[0].Name), zap.Error(err))
}

// bury removes what is left of deleted topics, and their tombstones with it. A tombstone
// stays if a log of its topic may still be on a disk: the next start then tries again.
func (m *Manager) bury(ctx context.Context, tombstones []*metadata.Deleting) error {
	if len(tombstones) == 0 {
		return nil
	}
	dead := make(map[[16]byte]bool, len(tombstones))
	for _, t := range tombstones {
		dead[t.ID] = true
	}
	var left []storage.ID
	for _, l := range m.opt.Storage.Logs() {
		if dead[l.ID().Topic] {
			left = append(left, l.ID())
		}
	}
	if err := m.opt.Storage.Delete(left...); err != nil {
		return fmt.Errorf("delete %d topics, %s first: %w", len(dead), tombstones[0].Name, err)
	}
	maps.DeleteFunc(dead, func(id [16]byte, _ bool) bool { return m.deleted[id] })
	if len(dead) == 0 || len(m.opt.Storage.Failed()) > 0 {
		return nil
	}
	if _, err := m.opt.Cluster.ForgetDeleted(ctx, slices.Collect(maps.Keys(dead))...); err != nil {
		return fmt.Errorf("delete %d topics, %s first: %w", len(dead), tombstones[0].Name, err)
	}
	return nil
}
