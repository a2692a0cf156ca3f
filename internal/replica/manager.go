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
	// Config returns the configuration of a topic's logs under an image. It must not block.
	Config func(*metadata.Image, *metadata.Topic) storage.Config
}

// Manager holds this broker's partitions and keeps them what the metadata says.
//
// Apply changes roles and configurations at once and in memory. What a disk or the
// metadata store has to do for a change goes through queues, whose order is that of the
// images: one per log directory (lane.go), one for the store (recorder.go). So a
// directory that hangs delays the logs in it and nothing else. A log that could not be
// made is tried again until it exists or its topic goes (making.go).
type Manager struct {
	opt Options

	// roles is held while partitions get their logs, roles and configurations: by Apply, and by
	// a lane that comes with logs it has made. No I/O is done under it.
	roles   sync.Mutex
	image   *metadata.Image // the newest that Apply was called with; guarded by roles
	applied bool            // Apply has been called; guarded by roles

	mu         sync.RWMutex
	partitions map[metadata.TopicPartition]*Partition
	missing    map[metadata.TopicPartition]*missing // assigned to this broker, and without a log
	// fence has partitions that may not be led below this epoch, because their
	// last life did not end cleanly (I9).
	fence     map[metadata.TopicPartition]int32
	watchers  []func(*metadata.Topic, int32)
	dirQueues map[*storage.Dir]*dirQueue
	removals  map[[16]byte]*removal
	rounds    map[int64]*round // by the version of the image that asked
	again     *time.Timer      // of the next creation to be tried again
	closed    bool

	recorder recorder
	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	work     sync.WaitGroup
}

// NewManager returns a manager without partitions. Apply brings them; Close ends what it
// does in the background.
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

// closeGrace is how long work in the background may take to end after the context of Close.
const closeGrace = 250 * time.Millisecond

// Close ends the work in the background and waits for what has begun of it, or for the end
// of the context; the error is the context's. What was not done the next start does. It is
// called after the last Apply.
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
	select { // what can be ended has been; that takes a moment, also where ctx had ended before
	case <-ended:
		return nil
	case <-time.After(closeGrace):
		return fmt.Errorf("a log directory is still making or deleting logs: %w", ctx.Err())
	}
}

// Purgatory is where operations wait for this broker's partitions.
func (m *Manager) Purgatory() *purgatory.Purgatory { return m.opt.Park }

// Watch adds a function that hears of each partition that got its log and its role outside
// of Apply, after that. It must not block, and is called from several goroutines. A watcher
// is added before the first Apply.
func (m *Manager) Watch(fn func(topic *metadata.Topic, partition int32)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers = append(m.watchers, fn)
}

// Partition returns a partition that this broker has. The error matches
// ErrUnknownPartition, or ErrOffline, also while its log is being made.
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

// CanCreate returns why no partition should be made for a client now, nil if one may:
// see storage.Manager.Room.
func (m *Manager) CanCreate() error { return m.opt.Storage.CanCreate() }

// Apply is a metadata.Subscriber: it changes the roles and configurations of partitions,
// and has logs made and deleted; Settled waits for that. The first call waits for the
// store where leader epochs must be raised; the others wait for nothing. Errors concern
// single topics; the others are brought up all the same.
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
	defer m.ended(r) // Settled waits for all of it or, where nothing was queued, for nothing
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

// reconcile gives partitions their roles and returns those whose log has to be made. first is
// true for the partitions that an earlier run may have made.
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
			if m.adopt(w.tp(), l) && !first { // it was made under an image that may be older
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

// adopt makes a log a partition, and reports whether it was none.
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

// applyRole gives a partition its role, and notes its directory if the metadata
// doesn't know it yet.
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
		return // the raised epoch is on its way
	}
	if part.Leader == m.opt.Self {
		p.BecomeLeader(part.LeaderEpoch, part.Replicas, part.ISR)
	} else {
		p.BecomeFollower(part.Leader, part.LeaderEpoch, part.Replicas, part.ISR)
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

// Leaderless returns how many partitions wait for a raised leader epoch. It may be
// called once everything that Apply changed has been applied; a number above 0
// means that the metadata did not take the change.
func (m *Manager) Leaderless() int {
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

// retire ends the partitions of deleted topics. Their logs are left to bury.
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
