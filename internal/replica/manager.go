package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/view"
)

// Cluster updates the metadata.
type Cluster interface {
	// AssignDirs records in which log directories this broker's replicas are, in one transaction.
	AssignDirs(ctx context.Context, broker int32, dirs map[metadata.TopicPartition][16]byte) (revision int64, err error)
	// RaiseEpochs raises the leader epochs of partitions, in one transaction.
	RaiseEpochs(ctx context.Context, partitions map[metadata.TopicPartition]metadata.Raise) (revision int64, err error)
	// ForgetDeleted records that a broker has no logs of deleted topics left, in one transaction.
	ForgetDeleted(ctx context.Context, broker int32, topics ...[16]byte) (revision int64, err error)
	// AlterISR requests changes of ISRs, each in a transaction of its own, and returns an error for
	// each. A change whose error is a *metadata.ConflictError was refused, and retrying cannot
	// help. After any other error it may have been accepted, and may be requested again.
	AlterISR(ctx context.Context, changes []metadata.ISRChange) []error
}

// Options configure a Manager.
type Options struct {
	Self int32
	// Incarnation is that of this broker's registration. Until an image shows it, Apply does
	// nothing: older images show leader epochs in which an earlier process led. The registration
	// has raised them if records may be missing (I9).
	Incarnation [16]byte

	Storage *storage.Manager
	// DirPaths are the last known paths of the log directories that this broker has had, by id.
	DirPaths map[[16]byte]string
	Cluster  Cluster
	Logger   *zap.Logger
	// Config returns the configuration of a topic's logs under an image. It must not block.
	Config func(*metadata.Image, *metadata.Topic) storage.Config

	// The remaining options matter in a cluster only.

	// MinISR returns the effective min.insync.replicas of a partition under an image; nil selects
	// 1. It must not block.
	MinISR func(*metadata.Image, *metadata.Topic, *metadata.Partition) int
	// Lease reports whether the controller cannot have elected other leaders without this broker's
	// knowledge. It must be cheap. nil means that there is no controller.
	Lease func() bool
	// Resigner asks for other leaders of the partitions that this broker must not lead any longer.
	Resigner Resigner
	// RoleChanged is called when a partition got another leader or leader epoch, or was deleted;
	// see Partition.Leader. It must not block.
	RoleChanged func(*Partition)
	// LagTime and StallTime are the durations after which a replica leaves the ISR because it is
	// behind, or because it delays acknowledgements (replica.lag.time.max.ms and
	// replica.stall.time.max.ms). Default 3 seconds and 1.5 seconds.
	LagTime, StallTime time.Duration
	// SessionTime is that of the brokers' sessions. Required in a cluster.
	SessionTime time.Duration
	// Tier is needed if the metadata name copies of records.
	Tier TierOptions
	// Now returns the monotonic time since any origin; nil selects the time since NewManager.
	Now func() time.Duration
}

// replacements is how many session timeouts it may take until the controller has replaced a leader
// that its followers do not reach: they report it after one, which begins with the first dial that
// fails, and that may take as long as a dial may.
const replacements = 2

func (o *Options) limits() progress.Limits {
	return progress.Limits{Lag: cmp.Or(o.LagTime, 3*time.Second), Stall: cmp.Or(o.StallTime, 1500*time.Millisecond),
		Gone: time.Second, Repeat: 200 * time.Millisecond, Session: o.SessionTime, Replace: replacements * o.SessionTime}
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
	roles    sync.Mutex
	image    *metadata.Image // the latest image applied; guarded by roles
	applied  bool            // an image was applied; guarded by roles
	replaced bool            // the newest image shows another process as this broker; guarded by roles

	mu         sync.RWMutex
	partitions map[metadata.TopicPartition]*Partition // setLocked changes it
	list       []*Partition                           // values of partitions; nil if these have changed since
	missing    map[metadata.TopicPartition]*missing   // assigned to this broker, without a log
	made       map[*storage.Dir]time.Time             // when each directory has last created logs
	// fence has the partitions that this broker must not lead before their epoch is raised (I9).
	fence     map[metadata.TopicPartition]Waiting
	watchers  []func(*metadata.Topic, int32)
	dirQueues map[*storage.Dir]*dirQueue
	movers    map[*storage.Dir]chan struct{} // wake the goroutines that move logs to directories
	removals  map[[16]byte]*removal
	// leaving has the replicas that the metadata assigned to other brokers, until their logs in
	// these directories are deleted.
	leaving  map[metadata.TopicPartition]*storage.Dir
	renewing map[metadata.TopicPartition]*renewal // replicas whose log was damaged; see renew
	renewed  view.Renewed
	// damagedIn are the leader epochs in which logs could be replaced but for what leaders know of
	// them; see superseded. Guarded by roles.
	damagedIn map[metadata.TopicPartition]int32
	rounds    []*round    // by ascending image version
	again     *time.Timer // fires when the next creation is due
	closed    bool

	env       environment // of the partitions
	abilities abilities
	recorder  recorder
	ctx       context.Context // ends with Close
	stop      context.CancelFunc
	work      sync.WaitGroup
}

// NewManager returns a manager without partitions; Apply adds them. The caller must call Close.
func NewManager(opt Options) *Manager {
	m := &Manager{
		opt: opt, image: metadata.Empty(), partitions: map[metadata.TopicPartition]*Partition{},
		missing: map[metadata.TopicPartition]*missing{}, made: map[*storage.Dir]time.Time{}, fence: map[metadata.TopicPartition]Waiting{},
		dirQueues: map[*storage.Dir]*dirQueue{}, removals: map[[16]byte]*removal{}, movers: map[*storage.Dir]chan struct{}{},
		leaving: map[metadata.TopicPartition]*storage.Dir{}, renewing: map[metadata.TopicPartition]*renewal{},
		damagedIn: map[metadata.TopicPartition]int32{},
	}
	m.env = environment{self: opt.Self, park: purgatory.New(), now: opt.Now, lease: opt.Lease, limits: opt.limits(),
		roleChanged: opt.RoleChanged, unable: m.abilities.unable, tier: opt.Tier}
	if opt.Now == nil {
		begin := time.Now()
		m.env.now = func() time.Duration { return time.Since(begin) }
	}
	m.recorder = recorder{m: m, changes: newChanges()}
	m.ctx, m.stop = context.WithCancel(context.Background())
	u := newUpkeep(m)
	m.env.upkeep, m.env.resign = u, u.resign.add
	m.work.Go(u.run)
	return m
}

// closeGrace is how long Close waits for background work after its context has ended.
const closeGrace = 250 * time.Millisecond

// Close ends the background work and waits for it until the context ends; then it returns the
// context's error. The next start does the rest. It must be called after the last Apply.
func (m *Manager) Close(ctx context.Context) error {
	every := func(FreezeID) bool { return true }
	m.thaw(every)
	m.env.freezing.release(every)
	m.mu.Lock()
	m.closed = true
	if m.again != nil {
		m.again.Stop()
	}
	for _, r := range m.rounds {
		close(r.done)
	}
	m.rounds = nil
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
func (m *Manager) Purgatory() *purgatory.Purgatory { return m.env.park }

// Watch adds a function that is called for each partition that got its log and its role outside
// Apply. It must not block, and several goroutines may call it concurrently. Watch must be called
// before the first Apply.
func (m *Manager) Watch(fn func(topic *metadata.Topic, partition int32)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers = append(m.watchers, fn)
}

// Partition returns a partition of this broker. The error matches ErrUnknownPartition, or
// ErrOffline if the log is missing or being created. A partition whose log was created a moment ago
// may have no role yet: it leads nothing, in epoch -1.
func (m *Manager) Partition(topic [16]byte, partition int32) (*Partition, error) {
	tp := metadata.TopicPartition{Topic: topic, Partition: partition}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if p := m.partitions[tp]; p != nil {
		return p, nil
	}
	if x := m.missing[tp]; x != nil {
		return nil, x.why(m.made)
	}
	return nil, ErrUnknownPartition
}

// newest returns the newest image that was applied.
func (m *Manager) newest() *metadata.Image {
	m.roles.Lock()
	defer m.roles.Unlock()
	return m.image
}

// Partitions returns all partitions of this broker. The caller must not change the slice.
func (m *Manager) Partitions() []*Partition {
	m.mu.RLock()
	list := m.list
	m.mu.RUnlock()
	if list != nil {
		return list
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.Collect(maps.Values(m.partitions))
	return m.list
}

// setLocked sets a partition; nil removes it. The caller holds mu.
func (m *Manager) setLocked(tp metadata.TopicPartition, p *Partition) {
	if m.list = nil; p != nil {
		m.partitions[tp] = p
	} else {
		delete(m.partitions, tp)
	}
}

// CanCreate returns why clients may not create partitions now, nil if they may; see
// storage.Manager.CanCreate.
func (m *Manager) CanCreate() error { return m.opt.Storage.CanCreate() }

// Apply is a metadata.Subscriber. It works in three stages, and waits for none but the first:
//
//	roles     promote, step down, fence; in memory, before Apply returns
//	logs      create, delete; a queue for each log directory (dirqueue.go)
//	metadata  placements, tombstones, raised epochs; retried until the store has them (recorder.go)
//
// So neither a disk that hangs nor a metadata store without a quorum delays a broker in learning
// that it no longer leads a partition. AwaitApplied waits for the other stages. Partitions whose
// log must not be created are no error: their findings name them. The error is ErrReplaced.
func (m *Manager) Apply(_ context.Context, prev, next *metadata.Image, d *metadata.Delta) error {
	offline, err := m.apply(prev, next, d)
	if offline != nil {
		m.opt.Logger.Error("partitions stay offline on this broker; see chronikctl cluster health", zap.Error(offline))
	}
	return err
}

// apply is Apply. offline is why partitions have no log, and must not get a new one.
func (m *Manager) apply(prev, next *metadata.Image, d *metadata.Delta) (offline, err error) {
	m.roles.Lock()
	defer m.roles.Unlock()
	if current, err := m.registered(next); !current {
		return nil, err
	}
	first, former := !m.applied, m.image
	if m.replaced || first && prev.Version() > 0 { // images of before were not applied
		d = metadata.Diff(metadata.Empty(), next)
	}
	if m.replaced { // every partition has lost its role
		d.Deleted = metadata.Diff(former, next).Deleted
		m.opt.Logger.Info("this process is registered again, and serves its partitions", zap.Int64("version", next.Version()))
	}
	m.image, m.applied, m.replaced = next, true, false
	r := m.newRound(prev.Version(), next.Version())
	defer m.ended(r) // AwaitApplied returns at once if nothing was queued
	if first {
		m.reportStrays(next)
	}
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
	generation := metadata.ID(next.Generation())
	m.env.generation.Store(&generation)
	m.followTiers(d) // before roles: a leader must know what the one before it has deleted
	makes, offline := m.reconcile(want, first, r)
	m.review(prev, d, r)
	m.configure(next, d)
	m.queueDeletions(d, next, r) // before creations, which may reuse a name in a directory
	m.assignDirs(makes, r)
	if first {
		m.runMoves() // that an earlier process has begun
	}
	return offline, nil
}

// registered reports whether the image shows this process's registration, so that its roles apply.
// Otherwise the roles are those of another process. This one leads and follows nothing until an
// image shows its own registration again: the agent registers over a process that has ended, and
// ends this one if both take turns. The error matches ErrReplaced.
func (m *Manager) registered(img *metadata.Image) (bool, error) {
	b, ok := img.Broker(m.opt.Self)
	if ok && b.Incarnation == m.opt.Incarnation {
		return true, nil
	}
	if !m.applied {
		return false, nil
	}
	if !m.replaced {
		m.replaced = true
		for _, p := range m.Partitions() {
			// A registration has ended the epochs in which this broker led. In the others, which it
			// has not changed, this process may follow again.
			r := p.role.Load()
			away := &Role{Leader: -1, Epoch: r.epoch}
			if r.leader {
				away.Epoch++
			}
			p.SetRole(away)
		}
	}
	if !ok {
		return false, fmt.Errorf("the metadata no longer have broker %d: %w", m.opt.Self, ErrReplaced)
	}
	at := ""
	if len(b.Listeners) > 0 {
		at = fmt.Sprintf(", which advertises port %d of %s", b.Listeners[0].Port, b.Listeners[0].Host)
	}
	return false, fmt.Errorf("another process has registered as broker %d%s: %w", m.opt.Self, at, ErrReplaced)
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

// reconcile gives partitions their roles, and returns those whose log must be created. offline is
// why others have none. first is true for partitions whose log an earlier run may have created.
func (m *Manager) reconcile(want []wanted, first bool, r *round) (makes []*missing, offline error) {
	var errs []error
	var left []leave
	changes := newChanges()
	for _, w := range want {
		l := m.opt.Storage.Get(storage.ID{Topic: w.topic.ID, Partition: w.partition})
		dir, placed := m.image.Placement(m.opt.Self, w.tp())
		if !w.topic.Partitions.At(w.partition).HasReplica(m.opt.Self) {
			if x, leaves := m.release(w, l); leaves {
				left = append(left, x)
			} else if placed && !m.isLeaving(w.tp()) {
				changes.dirs[w.tp()] = [16]byte{}
			}
			continue
		}
		if m.isLeaving(w.tp()) { // its log is being deleted: a new one follows
			m.noteUncreated(w)
			continue
		}
		err := error(nil)
		if !m.created(w.tp(), l) && !m.creating(w.tp(), l) {
			err = m.misplaced(w, dir, l, first)
		}
		switch {
		case err != nil:
			m.noteMissing(w, err)
			errs = append(errs, err)
		case l != nil:
			if m.adopt(w.tp(), l) && !first { // it was created under an image that may be older
				l.Configure(m.opt.Config(m.image, w.topic))
			}
			m.applyRole(w, changes)
		default:
			if x := m.noteUncreated(w); x != nil {
				makes = append(makes, x)
			}
		}
	}
	m.queueLeaving(left, r)
	m.recorder.add(changes, m.share(r))
	return makes, errors.Join(errs...)
}

// adopt creates the partition of a log, and reports whether it did not exist.
func (m *Manager) adopt(tp metadata.TopicPartition, l *storage.Log) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.missing[tp]
	delete(m.missing, tp)
	if m.partitions[tp] != nil {
		return false
	}
	p := newPartition(l, &m.env)
	if x != nil {
		p.found = max(p.found, x.led)
	}
	p.tier.Store(m.image.Tier(tp))
	m.setLocked(tp, p)
	return true
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

// followTiers has partitions know what the object store has of them.
func (m *Manager) followTiers(d *metadata.Delta) {
	for _, tp := range d.Tiers {
		m.mu.RLock()
		p := m.partitions[tp]
		m.mu.RUnlock()
		if p != nil {
			p.setTier(m.image.Tier(tp))
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
			m.setLocked(tp, nil)
			delete(m.fence, tp)
			m.mu.Unlock()
			if p != nil {
				p.Delete()
			}
		}
	}
}
