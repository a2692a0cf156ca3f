package replica

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/storage"
)

// role is a partition's role on this broker according to the metadata. It is replaced, never
// changed.
type role struct {
	leader     bool
	gone       bool // the topic was deleted
	leaderID   int32
	epoch      int32
	epochStart int64 // log end when this broker began to lead
	replicas   []int32
	isr        []int32
}

// accepts returns why an append is refused, nil if it is accepted.
func (r *role) accepts(a *Append) error {
	if err := r.check(a.LeaderEpoch); err != nil {
		return err
	}
	if !r.enough(a) {
		return fmt.Errorf("%w: %d of %d", ErrNotEnoughReplicas, len(r.isr), r.needed(a))
	}
	return nil
}

// needed returns the effective min.insync.replicas, which is at most the number of replicas.
func (r *role) needed(a *Append) int { return min(int(a.MinISR), len(r.replicas)) }

func (r *role) enough(a *Append) bool { return a.Acks != AcksAll || len(r.isr) >= r.needed(a) }

// check compares the epoch of a request, -1 for none, with the role.
func (r *role) check(epoch int32) error {
	switch {
	case r.gone:
		return r.notLeader()
	case epoch >= 0 && epoch < r.epoch:
		return fmt.Errorf("%w: %d, the current one is %d", ErrFencedEpoch, epoch, r.epoch)
	case epoch > r.epoch:
		return fmt.Errorf("%w: %d, the current one is %d", ErrUnknownEpoch, epoch, r.epoch)
	case !r.leader:
		return r.notLeader()
	}
	return nil
}

// notLeader returns an error that names the leader.
func (r *role) notLeader() error {
	if r.gone {
		return fmt.Errorf("%w; %w", ErrDeleted, ErrNotLeader)
	}
	return fmt.Errorf("%w: broker %d has led it since epoch %d", ErrNotLeader, r.leaderID, r.epoch)
}

// Partition is one partition on this broker. All methods may be called
// concurrently.
type Partition struct {
	id   storage.ID
	log  *storage.Log
	self int32
	park *purgatory.Purgatory
	role atomic.Pointer[role]
	high atomic.Int64 // the high watermark

	mu sync.Mutex
	// ackEnds of the followers in this epoch, by broker.
	followers map[int32]int64
	// leaderHigh is the high watermark that the leader sent to this follower.
	leaderHigh int64
	waitLeader fifo // acks=1
	waitISR    fifo // acks=all
	overdue    bool // some of waitISR may be overdue
}

func newPartition(l *storage.Log, self int32, park *purgatory.Purgatory) *Partition {
	p := &Partition{id: l.ID(), log: l, self: self, park: park, followers: map[int32]int64{}}
	p.role.Store(&role{leaderID: -1, epoch: -1})
	p.high.Store(l.AckEnd())
	l.Observe(p)
	return p
}

// String returns topic-partition.
func (p *Partition) String() string { return p.log.String() }

// Log returns the partition's log.
func (p *Partition) Log() *storage.Log { return p.log }

// Ends are a partition's offsets: LogStart ≤ LastStable ≤ HighWatermark ≤ Ack ≤ LogEnd.
type Ends struct {
	LogStart      int64
	LastStable    int64 // the end of read_committed reads
	HighWatermark int64 // the end of other reads
	Ack           int64 // the local log's acknowledgement end
	LogEnd        int64
}

// Ends returns the current offsets.
func (p *Partition) Ends() Ends {
	high := p.high.Load()
	e := p.log.Ends()
	ack := max(p.log.AckEnd(), high)
	return Ends{LogStart: e.LogStart, LastStable: max(high, e.LogStart), HighWatermark: max(high, e.LogStart), Ack: ack,
		LogEnd: max(e.LogEnd, ack)}
}

// LeaderEpoch returns the epoch of the current role, -1 before the first.
func (p *Partition) LeaderEpoch() int32 { return p.role.Load().epoch }

// Leader returns the leader that this broker knows, and its epoch.
func (p *Partition) Leader() (broker, epoch int32) {
	r := p.role.Load()
	return r.leaderID, r.epoch
}

// BecomeLeader makes this broker the leader in an epoch, or changes the ISR in the current epoch.
// It ignores an older epoch.
func (p *Partition) BecomeLeader(epoch int32, replicas, isr []int32) {
	p.mu.Lock()
	old := p.role.Load()
	if epoch < old.epoch {
		p.mu.Unlock()
		return
	}
	next := &role{leader: true, leaderID: p.self, epoch: epoch, epochStart: old.epochStart, replicas: replicas, isr: isr}
	if epoch > old.epoch || !old.leader {
		next.epochStart = p.log.Ends().LogEnd
		clear(p.followers)
		p.log.BeginEpoch(epoch)
	}
	p.role.Store(next)
	p.mu.Unlock()
	p.Advanced()
}

// BecomeFollower makes this broker a follower. Waiting appends fail with ErrNotLeader: the new
// leader may or may not have them.
func (p *Partition) BecomeFollower(leader, epoch int32, replicas, isr []int32) {
	p.retire(&role{leaderID: leader, epoch: epoch, replicas: replicas, isr: isr})
}

// Delete ends the partition because its topic was deleted. Current and later operations fail with
// ErrDeleted.
func (p *Partition) Delete() {
	p.retire(&role{gone: true, leaderID: -1, epoch: p.LeaderEpoch()})
}

// retire sets a role in which this broker does not lead.
func (p *Partition) retire(next *role) {
	p.mu.Lock()
	if now := p.role.Load(); next.epoch < now.epoch || now.gone {
		p.mu.Unlock()
		return
	}
	p.role.Store(next)
	p.leaderHigh = 0
	var ready decided
	err := p.notLeader(p.role.Load())
	p.waitLeader.discardAbove(-1, err, &ready)
	p.waitISR.discardAbove(-1, err, &ready)
	p.mu.Unlock()
	ready.finish()
	p.park.Check(p.key())
}

// AppendReplicated appends batches from the leader, which have offsets and epochs, and updates the
// leader's high watermark. done is called with nil when the log has accepted the batches in order,
// and with an error if it refused them. The batches need not be written or durable by then;
// Ends().Ack shows how far they are.
func (p *Partition) AppendReplicated(epoch int32, leaderHigh int64, batches []byte, done func(error)) {
	r := p.role.Load()
	if r.leader || epoch != r.epoch {
		done(fmt.Errorf("append replicated batches to %s in epoch %d: %w: the current epoch is %d", p, epoch, ErrFencedEpoch, r.epoch))
		return
	}
	p.log.Append(&storage.Append{Batches: batches, Replicated: true, Sink: followed{p, leaderHigh, done}}, nil)
}

// followed is the sink of AppendReplicated.
type followed struct {
	p    *Partition
	high int64
	done func(error)
}

// OffsetsAssigned implements storage.Sink.
func (f followed) OffsetsAssigned(a *storage.Append) {
	if a.Err == nil {
		f.p.mu.Lock()
		f.p.leaderHigh = max(f.p.leaderHigh, f.high)
		f.p.mu.Unlock()
		f.p.Advanced()
	}
	f.done(a.Err)
}

// Acknowledged records that a follower's acknowledgement end in an epoch is ackEnd. It ignores
// brokers that are not replicas, and other epochs.
func (p *Partition) Acknowledged(follower, epoch int32, ackEnd int64) {
	p.mu.Lock()
	r := p.role.Load()
	if !r.leader || epoch != r.epoch || !slices.Contains(r.replicas, follower) {
		p.mu.Unlock()
		return
	}
	p.followers[follower] = max(p.followers[follower], ackEnd)
	p.mu.Unlock()
	p.Advanced()
}

// High implements storage.Observer: retention keeps everything at or above the high watermark.
func (p *Partition) High() int64 { return p.high.Load() }

// Stable implements storage.Observer. There are no transactions yet, so everything below the high
// watermark is stable.
func (p *Partition) Stable() int64 { return p.high.Load() }

// Advanced implements storage.Observer, and is called for every advance of an end. It raises the
// high watermark and completes the appends that it covers.
func (p *Partition) Advanced() {
	var ready decided
	p.mu.Lock()
	ack := p.log.AckEnd()
	high := p.highLocked(ack)
	moved := high > p.high.Load()
	if moved {
		p.high.Store(high)
	}
	p.waitLeader.covered(ack, &ready)
	p.waitISR.covered(p.high.Load(), &ready)
	for a, r := ready.head, p.role.Load(); a != nil; a = a.next {
		a.Err = r.recheckISR(a)
	}
	if p.overdue {
		p.overdue = p.waitISR.late(ack, &ready)
	}
	p.mu.Unlock()
	ready.finish()
	if moved {
		p.park.Check(p.key())
	}
}

// highLocked returns the high watermark that the ends allow: for a leader the smallest ackEnd of
// the in-sync replicas, for a follower the leader's high watermark, limited to its own ackEnd.
// The caller holds mu.
func (p *Partition) highLocked(ack int64) int64 {
	r := p.role.Load()
	if !r.leader {
		return min(p.leaderHigh, ack)
	}
	high := ack
	for _, id := range r.isr {
		if id != p.self {
			high = min(high, p.followers[id])
		}
	}
	return high
}

// awaitLocked queues an append that has its offsets until its condition holds. It returns false if
// the append does not have to wait, or an error if it cannot be acknowledged. The caller holds mu.
func (p *Partition) awaitLocked(a *Append) (waits bool, err error) {
	r := p.role.Load()
	if !r.leader {
		return false, p.notLeader(r) // BecomeFollower or Delete has already emptied the queues
	}
	if err := p.log.Offline(); err != nil {
		return false, err // Reverted may have run already, and nothing else would finish the append
	}
	if a.inner.Next <= p.condition(a.Acks) { // a duplicate of acknowledged records
		return false, r.recheckISR(a)
	}
	if a.overdue && a.inner.Next <= p.log.AckEnd() {
		return false, a.timedOut()
	}
	if a.state.Load() == pending {
		p.overdue = p.overdue || a.overdue
		p.queueOf(a.Acks).push(a)
		return true, nil
	}
	return false, nil // expired; resolve returns the error
}

func (p *Partition) notLeader(r *role) error {
	return fmt.Errorf("%s: %w", p, r.notLeader())
}

// recheckISR returns an error if the ISR has shrunk below the minimum while the append waited.
func (r *role) recheckISR(a *Append) error {
	if r.enough(a) {
		return nil
	}
	return fmt.Errorf("%w: %d of %d", ErrNotEnoughReplicasAfterAppend, len(r.isr), r.needed(a))
}

// Reverted implements storage.Observer: the records at or beyond end are lost.
func (p *Partition) Reverted(end int64, err error) {
	var ready decided
	p.mu.Lock()
	p.waitLeader.discardAbove(end, err, &ready)
	p.waitISR.discardAbove(end, err, &ready)
	p.mu.Unlock()
	ready.finish()
	p.park.Check(p.key())
}

// Truncated implements storage.Observer: it lowers the high watermark to end, and answers the
// readers beyond it.
func (p *Partition) Truncated(end int64) {
	p.mu.Lock()
	p.high.Store(min(p.high.Load(), end))
	p.leaderHigh = min(p.leaderHigh, end)
	p.mu.Unlock()
	p.park.Check(p.key())
}

// StartMoved implements storage.Observer: it answers readers below the new start.
func (p *Partition) StartMoved() { p.park.Check(p.key()) }

// condition returns the end for which an append with acks waits. The caller holds mu.
func (p *Partition) condition(acks Acks) int64 {
	if acks == AcksAll {
		return p.high.Load()
	}
	return p.log.AckEnd()
}

func (p *Partition) queueOf(acks Acks) *fifo {
	if acks == AcksAll {
		return &p.waitISR
	}
	return &p.waitLeader
}

func (p *Partition) key() purgatory.Key {
	return purgatory.Key{Topic: p.id.Topic, Partition: p.id.Partition}
}
