package replica

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage"
)

// environment is what the partitions of a Manager share.
type environment struct {
	self int32
	park *purgatory.Purgatory
	now  func() time.Duration // monotonic, since any origin
	// lease reports whether no other broker can have been elected without this one's knowledge; nil
	// without a cluster.
	lease  func() bool
	limits progress.Limits
	upkeep *upkeep                         // nil without a cluster
	resign func(p *Partition, epoch int32) // see Resigner; nil without a cluster
	// unable reports whether heartbeats say that a log directory can't take records. It must be
	// cheap.
	unable func(*storage.Dir) bool
	// roleChanged is Options.RoleChanged.
	roleChanged func(*Partition)
	freezing    freezing
	tier        TierOptions
	generation  atomic.Pointer[metadata.ID] // of the newest image; nil before the first
}

// leaseLive reports whether no other broker can have been elected without this one's knowledge.
func (e *environment) leaseLive() bool { return e.lease == nil || e.lease() }

// Partition is one partition on this broker. All methods may be called concurrently.
type Partition struct {
	id   storage.ID
	log  *storage.Log
	env  *environment
	role atomic.Pointer[role]
	// high is the high watermark, and highEpoch the newest leader epoch in which it was valid. A
	// writer sets highEpoch first and a reader reads it last, so that a pair never shows a high
	// watermark with an epoch in which it was not valid.
	high      atomic.Int64
	highEpoch atomic.Int32
	// tier is what the object store has; see Tier.
	tier atomic.Pointer[metadata.Tier]

	mu sync.Mutex
	// lead is the state of the leader in the current epoch, nil unless this broker leads.
	lead       *progress.Leader
	follow     progress.Follower // while this broker does not lead
	waitLeader fifo              // acks=1
	waitISR    fifo              // acks=all
	// waitDurable are those of acks=all with Append.Durable, and flushes.
	waitDurable fifo
	overdue     bool          // some of waitISR and waitDurable may be overdue
	starts      chan struct{} // closed when a log start or the role changes; nil without a waiter
	served      bool          // a follower has subscribed in this epoch
	apart       bool          // the last sweep found no lease, and a follower that was not reached
	tail        atomic.Pointer[Tail]
	// syncTo is what SyncTo returns.
	syncTo atomic.Int64
	// lostLeader is when the stream from the leader ended, 0 while there is one.
	lostLeader atomic.Int64

	cutOff           atomic.Bool // see CutOff
	isWatched, isDue atomic.Bool // it is in the upkeep's lists
	// notBefore is when a change may be requested after one was refused. Otherwise a leader that
	// decides on something outdated would repeat its request without a pause.
	notBefore atomic.Int64
	resigned  atomic.Int64 // when giveWay resigned last, 0 if it never did
	// found is the latest epoch of the log when this process began to use it, if the stop before
	// that was not clean, or if the log has moved: no leader continues it. Otherwise it is -1.
	found int32
	// comparison belongs to this process's time with the log.
	comparison comparison
}

func newPartition(l *storage.Log, env *environment) *Partition {
	p := &Partition{id: l.ID(), log: l, env: env, found: -1}
	if !l.Dir().Clean() {
		p.found = latest(l)
	}
	p.role.Store(&role{leaderID: -1, epoch: -1})
	high, epoch := l.RecoveredHigh()
	p.follow.High, p.follow.Epoch = high, epoch
	p.follow.Follow()
	p.setHigh(high, epoch)
	l.Observe(p)
	return p
}

// setHigh shows a high watermark, and the epoch in which it is valid. A freeze keeps a higher one
// from view: thawed shows it. The caller holds mu.
func (p *Partition) setHigh(high int64, epoch int32) {
	if p.frozen() {
		high = min(high, p.high.Load())
	}
	p.highEpoch.Store(epoch)
	p.high.Store(high)
	p.env.upkeep.highChanged()
}

// String returns topic-partition.
func (p *Partition) String() string { return p.log.String() }

// TopicPartition returns the partition's name in the metadata.
func (p *Partition) TopicPartition() metadata.TopicPartition { return p.tp() }

func (p *Partition) tp() metadata.TopicPartition {
	return metadata.TopicPartition{Topic: p.id.Topic, Partition: p.id.Partition}
}

// Log returns the partition's log.
func (p *Partition) Log() *storage.Log { return p.log }

// Ends are a partition's offsets:
// LogStart ≤ LocalStart ≤ LastStable ≤ HighWatermark ≤ Ack ≤ LogEnd.
type Ends struct {
	LogStart      int64
	LocalStart    int64 // only the object store has the records below it
	LastStable    int64 // the end of read_committed reads
	HighWatermark int64 // the end of other reads
	Ack           int64 // the local log's acknowledgement end
	LogEnd        int64
}

// Ends returns the current offsets. Those of a log that is offline may be too low; see Readable.
func (p *Partition) Ends() Ends { return p.endsOf(p.log.Ends()) }

// Readable returns the offsets of a partition whose log serves records, or why it does not serve
// them; see storage.Log.Readable. It does not check the role.
func (p *Partition) Readable() (Ends, error) {
	e, err := p.log.Readable()
	return p.endsOf(e), err
}

// endsOf returns the offsets that belong to the ends of the log. The high watermark is read after
// them: a log that comes online raises it before.
func (p *Partition) endsOf(e storage.Ends) Ends {
	high := p.high.Load()
	ack := max(p.log.AckOf(e), high)
	start := p.startOf(e)
	local := max(start, e.LogStart) // what is below it was committed
	return Ends{LogStart: start, LocalStart: local, LastStable: max(p.stable(high), local),
		HighWatermark: max(high, local), Ack: ack, LogEnd: max(e.LogEnd, ack)}
}

// LeaderEpoch returns the epoch of the current role, -1 before the first.
func (p *Partition) LeaderEpoch() int32 { return p.role.Load().epoch }

// Leader returns the leader that this broker knows, and its epoch.
func (p *Partition) Leader() (broker, epoch int32) {
	r := p.role.Load()
	return r.leaderID, r.epoch
}

// SetRole gives the partition the role that a metadata image assigns to it, or changes the view of
// the current one. It ignores an older epoch. It neither blocks nor waits for a disk. If another
// broker leads, the appends that wait fail with ErrNotLeader: the new leader may or may not have
// them. The caller must not change a afterwards.
func (p *Partition) SetRole(a *Role) {
	defer p.env.upkeep.highChanged() // it may have become one of several replicas
	r := newRole(a, p.env.self)
	if !r.leader {
		p.retire(r)
		return
	}
	p.mu.Lock()
	old := p.role.Load()
	if r.epoch < old.epoch || old.gone {
		p.mu.Unlock()
		return
	}
	var effect progress.Effect
	begins := r.epoch > old.epoch || !old.leader
	if begins {
		_, offline := p.log.Readable() // before LastEpoch: one that is offline may seem empty
		last, end := p.log.LastEpoch()
		// No log has records of an epoch before the first. What the leader of an empty log commits
		// has its epoch.
		noted := r.epoch == 0 || offline == nil && last < 0 && end == 0 || p.log.NotesLed(r.epoch)
		p.log.SetLeaderEpoch(r.epoch, true)
		p.log.Whole()
		r.epochStart = p.log.Ends().LogEnd
		p.lead = progress.Lead(progress.Config{Self: p.env.self, BrokerEpoch: a.BrokerEpoch, Dir: p.log.Dir().ID(), Epoch: r.epoch,
			EpochStart: r.epochStart, Noted: noted, High: p.high.Load(), End: p.log.AckEnd(), LogStart: p.log.DurableStart(),
			Limits: p.env.limits}, &a.View, p.env.now())
		p.setHigh(p.high.Load(), r.epoch)
		p.served, p.apart = false, false
		p.syncTo.Store(0)
		p.cutOff.Store(false)
	} else {
		r.epochStart = old.epochStart
		effect = p.lead.SetView(&a.View, p.env.now())
	}
	p.role.Store(r)
	p.wakeStarts()
	ack := p.log.AckEnd()
	effect |= p.ownEnd(ack)
	if !p.lead.Noted() {
		p.log.NoteLed(r.epoch) // Advanced follows
	}
	if p.lead.High() > p.high.Load() {
		effect |= progress.HighMoved
	}
	p.complete(effect, ack)
	p.watch()
	if begins {
		p.roleChanged()
	} else {
		p.moved() // a follower may have registered again
	}
}

// Delete ends the partition because its topic was deleted. Current and later operations fail with
// ErrDeleted.
func (p *Partition) Delete() {
	p.retire(&role{gone: true, leaderID: -1, epoch: p.LeaderEpoch()})
}

// retire sets a role in which this broker does not lead.
func (p *Partition) retire(next *role) {
	p.mu.Lock()
	now := p.role.Load()
	if next.epoch < now.epoch || now.gone {
		p.mu.Unlock()
		return
	}
	if next.epoch > now.epoch {
		p.log.SetLeaderEpoch(next.epoch, false)
		p.follow.Follow()
		p.lostLeader.Store(int64(p.env.now()) | 1)
	}
	if now.leader { // consumers that wait here go to the new leader, until this broker follows it
		p.lostLeader.Store(int64(p.env.now()-p.env.limits.Lag) | 1)
		p.follow = progress.Follower{High: p.high.Load(), Epoch: now.epoch}
		p.follow.Follow()
		p.lead = nil
	}
	p.role.Store(next)
	p.wakeStarts()
	var ready decided
	err := p.notLeader(next)
	p.discardAbove(-1, err, &ready)
	p.mu.Unlock()
	ready.finish()
	p.env.park.Check(p.key())
	p.roleChanged()
}

// High implements storage.Observer: retention keeps everything at or above the high watermark, and
// checkpoints store it.
func (p *Partition) High() (offset int64, epoch int32) {
	offset = p.high.Load()
	return offset, p.highEpoch.Load()
}

// Stable implements storage.Observer. Nothing is stable while an unclean election may have
// discarded what this replica has as committed: compaction would remove a record because of one
// that is lost.
func (p *Partition) Stable() int64 {
	high := p.high.Load()
	if p.voided(p.role.Load()) {
		return 0
	}
	return p.stable(high)
}

// stable returns the last stable offset that belongs to a high watermark: no transaction below it
// is open, and the markers of all are below the high watermark. It moves only with the high
// watermark, so readers that wait for the one are woken by the other.
func (p *Partition) stable(high int64) int64 { return min(high, p.log.FirstUnstable(high)) }

// Appended implements storage.Observer.
func (p *Partition) Appended(batch *groupcommit.Batch) {
	if t := p.tail.Load(); t != nil {
		(*t).Appended(batch)
	}
	if p.env.upkeep != nil && !p.isWatched.Load() {
		p.watch()
	}
}

// watch has the followers' lag measured at intervals, until all are caught up.
func (p *Partition) watch() {
	if r := p.role.Load(); p.env.upkeep != nil && r.leader && r.replicas > 1 && p.isWatched.CompareAndSwap(false, true) {
		p.env.upkeep.watch(p)
	}
}

// Advanced implements storage.Observer, and is called for every advance of an end. It raises the
// high watermark and completes the appends that it covers.
func (p *Partition) Advanced() {
	p.mu.Lock()
	ack := p.log.AckEnd()
	p.complete(p.ownEnd(ack), ack)
	if t := p.tail.Load(); t != nil {
		(*t).Advanced()
	}
}

// ownEnd passes the end of the own log that the profile counts to the replication state, and
// whether the log notes the epoch, and returns the effect. The caller holds mu.
func (p *Partition) ownEnd(ack int64) (effect progress.Effect) {
	if p.lead != nil {
		if !p.lead.Noted() && p.log.NotesLed(p.lead.Epoch()) {
			effect = p.lead.Note()
		}
		return effect | p.lead.Own(ack)
	}
	if p.follow.Own(ack) {
		effect = progress.HighMoved
	}
	return effect
}

// complete applies the effect of an event: it publishes the high watermark and completes the
// appends that it or ack, the end of the own log, covers. During a freeze it does neither, and
// thawed does. The caller holds mu, which complete releases.
func (p *Partition) complete(effect progress.Effect, ack int64) {
	if p.frozen() {
		p.mu.Unlock()
		p.notify(effect &^ progress.HighMoved)
		return
	}
	var ready decided
	if effect&progress.HighMoved != 0 {
		if p.lead != nil {
			p.setHigh(p.lead.High(), p.highEpoch.Load())
		} else {
			p.setHigh(p.follow.High, p.follow.Epoch)
		}
	}
	if p.lead == nil && p.highEpoch.Load() != p.follow.Epoch { // the leader confirms the same High
		p.highEpoch.Store(p.follow.Epoch)
	}
	p.waitLeader.covered(ack, &ready)
	p.waitISR.covered(p.high.Load(), &ready)
	if p.waitDurable.head != nil {
		p.waitDurable.covered(p.durableHigh(), &ready)
	}
	for a, r := ready.head, p.role.Load(); a != nil; a = a.next {
		a.Err = p.recheck(r, a)
	}
	if p.overdue {
		p.overdue = p.waitISR.late(ack, &ready)
		p.overdue = p.waitDurable.late(ack, &ready) || p.overdue
	}
	p.mu.Unlock()
	ready.finish()
	if effect != 0 {
		p.notify(effect)
	}
}

// notify wakes readers and reports proposals. The caller must not hold mu.
func (p *Partition) notify(effect progress.Effect) {
	if effect&progress.HighMoved != 0 {
		p.env.park.Check(p.key())
		if t := p.tail.Load(); t != nil {
			(*t).HighMoved()
		}
	}
	if effect&progress.ProposalDue != 0 && p.env.upkeep != nil && p.isDue.CompareAndSwap(false, true) {
		p.env.upkeep.proposalDue(p)
	}
}

// awaitLocked queues an append that has its offsets until its condition holds. It returns false if
// the append does not have to wait, or an error if it cannot be acknowledged. The caller holds mu.
func (p *Partition) awaitLocked(a *Append) (waits bool, err error) {
	r := p.role.Load()
	if !r.leader {
		return false, p.notLeader(r) // retire or Delete has already emptied the queues
	}
	if err := p.log.Offline(); err != nil {
		return false, err // Reverted may have run already, and nothing else would finish the append
	}
	if !p.frozen() && a.inner.Next <= p.condition(a) { // a duplicate of acknowledged records
		return false, p.recheck(r, a)
	}
	if a.overdue && a.inner.Next <= p.log.AckEnd() {
		return false, a.timedOut()
	}
	if a.state.Load() == pending {
		p.overdue = p.overdue || a.overdue
		p.queueOf(a).push(a)
		return true, nil
	}
	return false, nil // expired; resolve returns the error
}

func (p *Partition) notLeader(r *role) error {
	return fmt.Errorf("%s: %w", p, r.notLeader())
}

// recheck returns an error if an append whose condition holds must not be acknowledged: the ISR has
// shrunk below the minimum while it waited, or the lease has ended.
func (p *Partition) recheck(r *role, a *Append) error {
	if !r.enough(a.Acks) {
		return fmt.Errorf("%w: %d of %d", ErrNotEnoughReplicasAfterAppend, r.isr, r.minISR)
	}
	return p.leased(r, a.Acks)
}

// Reverted implements storage.Observer: the records at or beyond end are lost. Followers may have
// received them, so the leader never continues in the same epoch: it resigns. The only replica
// continues at once, unless a follower that was a replica before has subscribed in this epoch.
func (p *Partition) Reverted(end int64, err error) {
	var ready decided
	p.mu.Lock()
	p.discardAbove(end, err, &ready)
	r := p.role.Load()
	alone := r.sole && !p.served // no follower can have the records
	p.mu.Unlock()
	if r.leader && alone {
		p.log.ResumeEpoch(r.epoch)
	}
	ready.finish()
	p.env.park.Check(p.key())
	p.moved()
	if r.leader && !alone && p.env.resign != nil {
		p.env.resign(p, r.epoch)
	}
}

// Truncated implements storage.Observer: it lowers the high watermark to end, and answers the
// readers beyond it. What the leader reported before no longer counts, because the log differs from
// the one that it was reported for.
func (p *Partition) Truncated(end int64) {
	p.mu.Lock()
	p.follow.High = min(p.follow.High, end)
	p.follow.Follow()
	p.high.Store(min(p.high.Load(), end))
	p.env.upkeep.highChanged()
	p.mu.Unlock()
	p.env.park.Check(p.key())
	p.moved()
}

// StartMoved implements storage.Observer: it answers readers below the new start, and sends it to
// the followers. A follower's start moves as its leader's does, so the records below it were
// committed.
func (p *Partition) StartMoved() {
	var effect progress.Effect
	p.mu.Lock()
	if r := p.role.Load(); p.lead != nil {
		effect = p.lead.OwnLogStart(p.log.DurableStart())
	} else if r.epoch >= 0 {
		p.follow.LogStart(p.log.Ends().LogStart, r.epoch)
		p.setHigh(p.follow.High, p.follow.Epoch)
	}
	p.mu.Unlock()
	p.env.park.Check(p.key())
	p.moved()
	p.notify(effect)
}

func (p *Partition) key() purgatory.Key {
	return purgatory.Key{Topic: p.id.Topic, Partition: p.id.Partition}
}
