package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/storage"
)

// Cluster updates the metadata.
type Cluster interface {
	// AssignDirs records in which log directories this broker's replicas are, in one transaction.
	AssignDirs(ctx context.Context, broker int32, dirs map[metadata.TopicPartition][16]byte) (revision int64, err error)
	// RaiseEpochs raises the leader epochs of partitions, in one transaction.
	RaiseEpochs(ctx context.Context, partitions []metadata.TopicPartition) (revision int64, err error)
	// ForgetDeleted removes the tombstones of topics that have no logs left.
	ForgetDeleted(ctx context.Context, topics ...[16]byte) (revision int64, err error)
}

// Options configure a Manager.
type Options struct {
	Self    int32
	Storage *storage.Manager
	Cluster Cluster
	Park    *purgatory.Purgatory
	Logger  *zap.Logger
	// Config returns the configuration of a topic's logs under an image. It must not block.
	Config func(*metadata.Image, *metadata.Topic) storage.Config
}

// Manager holds this broker's partitions and keeps them consistent with the metadata.
//
// Apply changes roles and configurations at once and in memory. Disk and metadata operations go
// through queues in the order of the images: one per log directory (dirqueue.go), one for the
// metadata store (recorder.go). So a directory that hangs delays only its own logs. A log that
// could not be created is retried until it exists or its topic is deleted (create.go).
type Manager struct {
	opt Options

	// roles is held while partitions get their logs, roles and configurations: by Apply, and by a
	// directory's goroutine that adopts created logs. No I/O is done under it.
	roles   sync.Mutex
	image   *metadata.Image // the latest image passed to Apply; guarded by roles
	applied bool            // Apply was called; guarded by roles

	mu         sync.RWMutex
	partitions map[metadata.TopicPartition]*Partition
	missing    map[metadata.TopicPartition]*missing // assigned to this broker, without a log
	// fence has the partitions that must not be led in an epoch below this one, because their
	// directory was not closed cleanly (I9).
	fence     map[metadata.TopicPartition]int32
	watchers  []func(*metadata.Topic, int32)
	dirQueues map[*storage.Dir]*dirQueue
	removals  map[[16]byte]*removal
	rounds    map[int64]*round // by image version
	again     *time.Timer      // fires when the next creation is due
	closed    bool

	recorder recorder
	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	work     sync.WaitGroup
}

// NewManager returns a manager without partitions; Apply adds them. The caller must call Close.
func NewManager(opt Options) *Manager {
	m := &Manager{
		opt: opt, image: metadata.Empty(), partitions: map[metadata.TopicPartition]*Partition{},
		missing: map[metadata.TopicPartition]*missing{}, fence: map[metadata.TopicPartition]int32{},
		dirQueues: map[*storage.Dir]*dirQueue{}, removals: map[[16]byte]*removal{}, rounds: map[int64]*round{},
	}
	m.recorder = recorder{m: m, dirs: map[metadata.TopicPartition][16]byte{}, forget: map[[16]byte]bool{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	return m
}

// closeGrace is how long Close waits for background work after its context has ended.
const closeGrace = 250 * time.Millisecond

// Close ends the background work and waits for it until the context ends; then it returns the
// context's error. The next start does what was left undone. It must be called after the last
// Apply.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	if m.again != nil {
		m.again.Stop()
	}
	for _, r := range m.rounds {
		close(r.done)
	}
	clear(m.rounds)
	m.mu.Unlock()
	m.stop()
	ended := make(chan struct{})
	go func() { defer close(ended); m.work.Wait() }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	select { // canceled work ends within a moment, even if ctx has already ended
	case <-ended:
		return nil
	case <-time.After(closeGrace):
		return fmt.Errorf("a log directory is still creating or deleting logs: %w", ctx.Err())
	}
}

// Purgatory returns the purgatory for this broker's partitions.
func (m *Manager) Purgatory() *purgatory.Purgatory { return m.opt.Park }

// Watch adds a function that is called for each partition that got its log and its role outside
// Apply. It must not block, and several goroutines may call it concurrently. Watch must be called
// before the first Apply.
func (m *Manager) Watch(fn func(topic *metadata.Topic, partition int32)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers = append(m.watchers, fn)
}

// Partition returns a partition of this broker. The error matches ErrUnknownPartition, or
// ErrOffline if the log is missing or being created.
func (m *Manager) Partition(topic [16]byte, partition int32) (*Partition, error) {
	tp := metadata.TopicPartition{Topic: topic, Partition: partition}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if p := m.partitions[tp]; p != nil {
		return p, nil
	}
	if x := m.missing[tp]; x != nil {
		return nil, x.why()
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

// CanCreate returns why clients may not create partitions now, nil if they may; see
// storage.Manager.CanCreate.
func (m *Manager) CanCreate() error { return m.opt.Storage.CanCreate() }

// Apply is a metadata.Subscriber. It changes the roles and configurations of partitions and queues
// the creation and deletion of logs; AwaitApplied waits for these. The first call waits for the
// metadata store if leader epochs must be raised; other calls do not wait. Errors concern single
// topics and do not affect the others.
func (m *Manager) Apply(ctx context.Context, _, next *metadata.Image, d *metadata.Delta) error {
	m.roles.Lock()
	defer m.roles.Unlock()
	m.image = next
	var errs []error
	first := !m.applied
	if first {
		m.applied = true
		if err := m.fenceUnclean(ctx, d.Created); err != nil {
			errs = append(errs, err)
		}
	}
	r := m.newRound(next.Version())
	defer m.ended(r) // AwaitApplied returns at once if nothing was queued
	m.retire(d.Deleted)
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
	makes, err := m.reconcile(want, first, r)
	errs = append(errs, err)
	m.configure(next, d)
	m.queueDeletions(d, next, r)
	m.place(makes, r)
	return errors.Join(errs...)
}

// wanted is a partition that may need a log or a change of its role.
type wanted struct {
	topic     *metadata.Topic
	partition int32
}

func (w wanted) tp() metadata.TopicPartition {
	return metadata.TopicPartition{Topic: w.topic.ID, Partition: w.partition}
}

// String returns topic-partition.
func (w wanted) String() string { return fmt.Sprintf("%s-%d", w.topic.Name, w.partition) }

// reconcile gives partitions their roles, and returns those whose log must be created. first is
// true for partitions whose log an earlier run may have created.
func (m *Manager) reconcile(want []wanted, first bool, r *round) (makes []*missing, err error) {
	var errs []error
	dirs := map[metadata.TopicPartition][16]byte{}
	for _, w := range want {
		dir, ours := w.topic.Partitions.At(w.partition).Dir(m.opt.Self)
		if !ours {
			m.forgetMissing(w.tp())
			continue
		}
		l := m.opt.Storage.Get(storage.ID{Topic: w.topic.ID, Partition: w.partition})
		err := m.misplaced(w, dir, l, first)
		switch {
		case err != nil:
			m.noteMissing(w, err)
			errs = append(errs, err)
		case l != nil:
			if m.adopt(w.tp(), l) && !first { // it was created under an image that may be older
				l.Configure(m.opt.Config(m.image, w.topic))
			}
			m.applyRole(w, dirs)
		default:
			if x := m.noteUncreated(w); x != nil {
				makes = append(makes, x)
			}
		}
	}
	m.recorder.add(dirs, nil, m.share(r))
	return makes, errors.Join(errs...)
}

// adopt creates the partition of a log, and reports whether it did not exist.
func (m *Manager) adopt(tp metadata.TopicPartition, l *storage.Log) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.missing, tp)
	if m.partitions[tp] != nil {
		return false
	}
	m.partitions[tp] = newPartition(l, m.opt.Self, m.opt.Park)
	return true
}

// applyRole gives a partition its role, and adds its directory to dirs if the metadata does not
// have it.
func (m *Manager) applyRole(w wanted, dirs map[metadata.TopicPartition][16]byte) {
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
		return // a raised epoch is on its way
	}
	if part.Leader == m.opt.Self {
		p.BecomeLeader(part.LeaderEpoch, part.Replicas, part.ISR)
	} else {
		p.BecomeFollower(part.Leader, part.LeaderEpoch, part.Replicas, part.ISR)
	}
}

// fenceUnclean raises the leader epochs of the partitions whose directory was not closed cleanly.
// Records that were visible may be lost, and an epoch must not be resumed then (I9). Such a
// partition gets a leader when the metadata has the new epoch.
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

// Leaderless returns the number of partitions that wait for a raised leader epoch. Call it when
// everything that Apply changed has been applied; then a number above 0 means that the metadata did
// not accept the change.
func (m *Manager) Leaderless() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.fence)
}

// configure applies changed configurations.
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

// retire ends the partitions of deleted topics. queueDeletions handles their logs.
func (m *Manager) retire(topics []*metadata.Topic) {
	for _, t := range topics {
		for i := range t.Partitions.All() {
			tp := metadata.TopicPartition{Topic: t.ID, Partition: i}
			m.mu.Lock()
			p := m.partitions[tp]
			delete(m.partitions, tp)
			delete(m.fence, tp)
			m.mu.Unlock()
			if p != nil {
				p.Delete()
			}
		}
	}
}
