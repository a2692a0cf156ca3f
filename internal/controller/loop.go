package controller

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/metadata"
)

// Leadership tells the controller when it decides: while its node leads the metadata quorum.
type Leadership interface {
	// Leads returns what this node leads, and a channel that is closed when that changes.
	Leads() (Term, <-chan struct{})
	// Confirmed returns the last time at which a quorum confirmed that no later leader exists, on
	// the clock of LoopOptions.Now. ok is false if none has confirmed this leadership yet.
	Confirmed() (at time.Duration, ok bool)
	// Sole reports that this node is the only voter of the quorum: no other controller can exist.
	Sole() bool
}

// Term is a leadership of the metadata quorum.
type Term struct {
	// Number is the term, 0 while this node does not lead, or has not applied an entry of its own
	// term yet: it might lack what former leaders decided.
	Number uint64
	// Revision is the revision of the store when that entry was applied.
	Revision int64
	// Former is the member that led before, 0 if it is unknown or this one. No controller of an
	// earlier term was Confirmed after FormerUntil, on the clock of LoopOptions.Now.
	Former      uint64
	FormerUntil time.Duration
}

// Store is the part of the metadata store that a Loop needs.
type Store interface {
	// Get reads the state of this node.
	Get(ctx context.Context, key string) (kv metadata.KV, revision int64, err error)
	// LeaderTxn changes something only if this node leads in the given term, and has applied an
	// entry of it. Otherwise the error matches ErrNotController.
	LeaderTxn(ctx context.Context, term uint64, t metadata.Txn) (revision int64, err error)
}

// inTerm is a Store whose transactions belong to one term.
type inTerm struct {
	Store
	term uint64
}

// Txn makes a change as the controller of the term.
func (s inTerm) Txn(ctx context.Context, t metadata.Txn) (revision int64, err error) {
	return s.LeaderTxn(ctx, s.term, t)
}

// LoopOptions configure a Loop.
type LoopOptions struct {
	Store      Store
	Images     *metadata.Applier
	Leadership Leadership
	// Own is the incarnation of this node's broker process.
	Own [16]byte
	// MinISR returns the effective min.insync.replicas of a partition.
	MinISR func(*metadata.Image, *metadata.Topic, *metadata.Partition) int
	// Unclean returns whether a topic permits unclean elections.
	Unclean func(*metadata.Image, *metadata.Topic) bool
	// LogStates asks a broker for the last epochs and ends of its logs; logs that it does not have
	// are missing in the result. A process that does not have the given incarnation must not
	// answer. At most MaxPartitions are asked for. It must end with the context. Without it, there
	// are no unclean elections.
	LogStates func(ctx context.Context, of *metadata.Broker, logs []metadata.TopicPartition) (
		map[metadata.TopicPartition]election.LogState, error)
	// Now reads a monotonic clock.
	Now func() time.Duration
	// Timeout and Interval are those of the brokers' sessions; 0 for the defaults. DrainTime bounds
	// how long a broker drains, 0 for 30 s.
	Timeout, Interval, DrainTime time.Duration
	// Balance elects preferred leaders at intervals (auto.leader.rebalance.enable).
	Balance bool
	// InternalReplicas is the number of replicas of each internal topic, by name, as soon as there
	// are so many active brokers.
	InternalReplicas map[string]int
	// Seeds is how many brokers form the cluster; see DefaultReplicas.
	Seeds int
	Log   *zap.Logger
}

// Loop is the part of the controller that runs on one node of a cluster, the leader of the metadata
// quorum: registration and sessions of brokers, and elections.
//
// One goroutine, that of Run, decides. It compares each record with the state of its brokers, not
// with events: a record is examined when it or one of its brokers changed, and all of them every
// few seconds. So a new controller continues where the former one failed, and a decision that was
// refused because a record had changed is simply taken again. Nothing is decided from the former
// term's memory except that every session starts again.
//
// Its methods are called from connections' goroutines. Every transaction names the term in which it
// was decided, so that a deposed controller changes nothing, whatever it compares.
type Loop struct {
	opt LoopOptions

	mu       sync.Mutex
	followed *metadata.Image // the last one that Follow was called with
	dirty    map[metadata.TopicPartition]bool
	all      bool           // every partition is dirty
	wake     chan struct{}  // one buffered signal for Run
	sessions *sessions      // nil while this node does not lead
	begun    chan struct{}  // closed and replaced when a term begins
	store    inTerm         // of the present term, or the last one
	admitted map[int32]bool // brokers whose registration runs
	// shunned are the brokers that the sessions showed at the last step to be so; nil at the begin
	// of a term. It is replaced, never modified.
	shunned []int32

	// Used by Run's goroutine only.
	swept    time.Duration                             // when all partitions were examined last
	lost     map[metadata.TopicPartition]time.Duration // since when no member of the ISR is steady
	stuck    map[metadata.TopicPartition]time.Duration // since when there is no leader
	silent   map[metadata.TopicPartition]time.Duration // since when an unclean election lacks a report
	unaware  map[metadata.TopicPartition]bool          // a replica must not leave before it has applied the record
	asked    time.Duration                             // when brokers were asked for LogStates last, or earlier if one runs since
	running  map[int32]time.Duration                   // since when a broker runs, as the images show
	draining map[int32]time.Duration                   // since when a broker drains
	// balanceAt is the time of the next election of preferred leaders, and raiseAt that of the next
	// examination of internal topics.
	balanceAt, raiseAt time.Duration
}

// sweepInterval is how often all partitions are examined although nothing has changed.
const sweepInterval = 5 * time.Second

// NewLoop returns a loop. Follow must be subscribed to the applier before it starts, and Run runs
// the loop.
func NewLoop(opt LoopOptions) *Loop {
	if opt.Timeout == 0 {
		opt.Timeout = DefaultSessionTimeout
	}
	if opt.Interval == 0 {
		opt.Interval = DefaultHeartbeatInterval
	}
	if opt.DrainTime == 0 {
		opt.DrainTime = 30 * time.Second
	}
	return &Loop{
		opt: opt, followed: metadata.Empty(), wake: make(chan struct{}, 1), begun: make(chan struct{}),
		dirty: map[metadata.TopicPartition]bool{}, admitted: map[int32]bool{},
	}
}

// Follow is a metadata.Subscriber. It never blocks.
func (l *Loop) Follow(_ context.Context, prev, next *metadata.Image, d *metadata.Delta) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followed = next
	if l.sessions == nil {
		return nil // everything is examined when this node leads
	}
	l.all = l.all || d.Brokers || len(d.Liveness) > 0
	mark := func(t *metadata.Topic) {
		for i := range t.Partitions.All() {
			l.dirty[metadata.TopicPartition{Topic: t.ID, Partition: i}] = true
		}
	}
	for _, t := range d.Created {
		mark(t)
	}
	for _, c := range d.Changed {
		for _, i := range c.Partitions {
			l.dirty[metadata.TopicPartition{Topic: c.Next.ID, Partition: i}] = true
		}
		if c.Config { // it may change min.insync.replicas
			mark(c.Next)
		}
	}
	for _, at := range d.Placements {
		for i := range next.Moved(prev, at) {
			l.dirty[metadata.TopicPartition{Topic: at.Topic, Partition: i}] = true
		}
	}
	if l.all || len(l.dirty) > 0 {
		l.signalLocked()
	}
	return nil
}

// signalLocked wakes Run. The caller holds mu.
func (l *Loop) signalLocked() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// imageLocked returns the newest image. The applier shows it after Follow was called with it. The
// caller holds mu.
func (l *Loop) imageLocked() *metadata.Image {
	if img := l.opt.Images.Image(); img.Version() > l.followed.Version() {
		return img
	}
	return l.followed
}

// Run decides while this node leads, until the context ends.
func (l *Loop) Run(ctx context.Context) {
	label.Goroutine("controller loop", "")
	for ctx.Err() == nil {
		term, changed := l.opt.Leadership.Leads()
		if term.Number != 0 {
			l.lead(ctx, term, changed)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// lead decides for one term, which ends with changed.
func (l *Loop) lead(ctx context.Context, term Term, changed <-chan struct{}) {
	var watch sync.WaitGroup
	defer watch.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch.Go(func() { // a waiting transaction ends with the term
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	})
	if l.opt.Images.WaitShown(ctx, term.Revision) != nil {
		return // the term is over
	}
	l.begin(term)
	defer l.end()
	l.opt.Log.Info("controller started", zap.Uint64("term", term.Number))
	tick := time.NewTicker(max(l.opt.Interval/5, time.Millisecond))
	defer tick.Stop()
	for {
		if err := l.step(ctx, l.opt.Now()); err != nil && ctx.Err() == nil {
			l.opt.Log.Warn("controller decision failed, trying again", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-tick.C:
		}
	}
}

// begin starts a term: every session starts now, except that of the former controller's broker.
func (l *Loop) begin(term Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	img, now := l.imageLocked(), l.opt.Now()
	l.sessions, l.all, l.shunned = newSessions(l.opt.Timeout, now), true, nil
	l.store = inTerm{l.opt.Store, term.Number}
	clear(l.dirty)
	l.swept, l.asked = now, now-reportInterval
	l.balanceAt, l.raiseAt = now+settleTime, now
	l.lost, l.stuck = map[metadata.TopicPartition]time.Duration{}, map[metadata.TopicPartition]time.Duration{}
	l.silent, l.unaware = map[metadata.TopicPartition]time.Duration{}, map[metadata.TopicPartition]bool{}
	l.draining, l.running = map[int32]time.Duration{}, map[int32]time.Duration{}
	for _, b := range img.Brokers() {
		state, _ := img.State(b.ID)
		if state.Liveness == metadata.Fenced {
			continue
		}
		if term.Former != 0 && term.Former == b.Member {
			l.sessions.beginFormer(b.ID, state.Incarnation, term.FormerUntil, now, l.opt.Interval)
		} else {
			l.sessions.begin(b.ID, state.Incarnation, running(state.Liveness), now)
		}
	}
	close(l.begun)
	l.begun = make(chan struct{})
}

func (l *Loop) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions = nil
}

// step decides once about everything that may have changed. An error means that something was not
// written; the next step decides about it again.
func (l *Loop) step(ctx context.Context, now time.Duration) error {
	img, states := l.judge(now)
	revision, err := l.writeStates(ctx, img, states)
	if revision > 0 {
		if failed := l.opt.Images.WaitShown(ctx, revision); failed != nil {
			return errors.Join(err, failed)
		}
	}
	return errors.Join(err, l.decideDirty(ctx, now), l.electByLogs(ctx, now), l.balance(ctx, now))
}

// decideDirty examines the partitions that are dirty, and writes what follows from the state of
// their brokers.
func (l *Loop) decideDirty(ctx context.Context, now time.Duration) error {
	l.mu.Lock()
	dirty, all := l.dirty, l.all || now-l.swept >= sweepInterval
	l.dirty, l.all = map[metadata.TopicPartition]bool{}, false
	known := l.knownLocked()
	l.mu.Unlock()
	if all {
		l.swept = now
		clear(dirty)
		for t := range known.img.Topics() {
			for i := range t.Partitions.All() {
				dirty[metadata.TopicPartition{Topic: t.ID, Partition: i}] = true
			}
		}
	}
	for tp := range l.lost {
		dirty[tp] = true
	}
	for tp := range l.unaware {
		dirty[tp] = true
	}
	var changes []change
	for tp := range dirty {
		if c, ok := l.decide(known.of(tp), now); ok {
			changes = append(changes, c)
		}
	}
	revision, err := submit(ctx, l.store, changes)
	if err != nil {
		l.mu.Lock()
		for _, c := range changes { // those that were written are examined in vain
			l.dirty[c.tp] = true
		}
		l.mu.Unlock()
		return err
	}
	for _, c := range changes {
		l.opt.Log.Debug("partition changed", zap.String("topic", metadata.FormatID(c.tp.Topic)), zap.Int32("partition", c.tp.Partition),
			zap.Int32("leader", c.next.Leader), zap.Int32("epoch", c.next.LeaderEpoch), zap.Int32s("isr", c.next.ISR),
			zap.Int32s("elr", c.next.ELR))
	}
	return l.opt.Images.WaitShown(ctx, revision)
}

// applied reports whether a broker has applied a revision, as far as its heartbeats show.
func (l *Loop) applied(broker int32, revision int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions == nil {
		return false
	}
	x := l.sessions.brokers[broker]
	return x != nil && x.last.Applied >= revision
}

// decider returns what decides about a partition at a time.
func (l *Loop) decider(v view, t *metadata.Topic, p *metadata.Partition, now time.Duration) election.Decider {
	since, known := l.lost[v.tp]
	return election.Decider{View: v, MinISR: l.opt.MinISR(v.img, t, p), ISRLost: known && now-since >= l.opt.Timeout,
		Generation: v.img.Generation(),
		Knows: func(broker int32, revision int64) bool {
			knows := l.applied(broker, revision)
			if !knows {
				l.unaware[v.tp] = true
			}
			return knows
		}}
}

// decide examines one partition.
func (l *Loop) decide(v view, now time.Duration) (change, bool) {
	img, tp := v.img, v.tp
	t := img.TopicByID(tp.Topic)
	if t == nil || t.Partitions.At(tp.Partition) == nil {
		delete(l.lost, tp)
		delete(l.stuck, tp)
		delete(l.silent, tp)
		delete(l.unaware, tp)
		return change{}, false
	}
	delete(l.unaware, tp)
	p := t.Partitions.At(tp.Partition)
	_, known := l.lost[tp]
	d := l.decider(v, t, p, now)
	next, changed, waits := decide(d, v, *p)
	l.noteStuck(tp, &next, now)
	switch {
	case len(next.ISR) == 0, slices.ContainsFunc(next.ISR, func(b int32) bool { return l.steady(b, now) }):
		delete(l.lost, tp) // one that crashes again and again does not get here
	case waits && !known:
		l.lost[tp] = now
	}
	if !changed {
		return change{}, false
	}
	return newChange(img, tp, p, next), true
}
