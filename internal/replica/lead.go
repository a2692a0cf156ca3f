package replica

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica/progress"
)

// Tail is the end of the replication streams of a partition. Its methods must not block, and they
// must not call methods of the Partition.
type Tail interface {
	// Appended reports that records were appended; see storage.Observer.
	Appended(batch *groupcommit.Batch)
	// Advanced reports that the written or the durable end of the log advanced.
	Advanced()
	// HighMoved reports that the high watermark moved.
	HighMoved()
	// Moved reports that the log start or the role changed, that the log end moved back, or that
	// the followers are to sync what they have; see SyncTo.
	Moved()
}

// SetTail sets the tail, nil for none.
func (p *Partition) SetTail(t Tail) {
	if t == nil {
		p.tail.Store(nil)
		return
	}
	p.tail.Store(&t)
}

// moved notifies the tail, if there is one.
func (p *Partition) moved() {
	if t := p.tail.Load(); t != nil {
		(*t).Moved()
	}
}

// roleChanged reports a new leader or leader epoch. The caller must not hold mu.
func (p *Partition) roleChanged() {
	p.moved()
	if p.env.roleChanged != nil {
		p.env.roleChanged(p)
	}
}

// Subscribe begins a follower's subscription in a leader epoch; see progress.Leader.Subscribe. The
// error matches ErrFencedEpoch, ErrUnknownEpoch or ErrNotLeader if this broker does not lead in
// that epoch, and ErrNotReplica if the image does not show the follower's registration and
// directory.
func (p *Partition) Subscribe(epoch int32, s progress.Subscription) (h progress.Handle, whole int64, err error) {
	p.mu.Lock()
	if err := p.role.Load().check(epoch); err != nil {
		p.mu.Unlock()
		return progress.Handle{}, 0, fmt.Errorf("subscribe to %s: %w", p, err)
	}
	h, effect, ok := p.lead.Subscribe(s, p.env.now())
	whole = p.wholeLocked()
	p.served = p.served || ok
	p.wakeStarts()
	p.complete(effect, p.log.AckEnd())
	if !ok {
		return h, 0, fmt.Errorf("subscribe broker %d to %s: %w", s.Broker, p, ErrNotReplica)
	}
	return h, whole, nil
}

// Asks notes that a follower asks for a subscription in a leader epoch, and reports whether its
// replica is a member, whose log may not be emptied; see progress.Leader.Asks. If this broker does
// not lead in that epoch, it knows nothing, and every replica may be a member.
func (p *Partition) Asks(epoch int32, s progress.Subscription) (member bool) {
	p.mu.Lock()
	if p.role.Load().check(epoch) != nil {
		p.mu.Unlock()
		return true
	}
	member, effect := p.lead.Asks(s, p.env.now())
	p.complete(effect, p.log.AckEnd())
	return member
}

// expendable reports whether a broker has a replica that the record has neither in the ISR nor in
// the ELR. Nothing depends on its records, so its log may be emptied. A member claims to have
// every committed record; it must leave first.
func (r *role) expendable(broker int32) bool {
	for i := range r.members {
		if m := &r.members[i]; m.Broker == broker {
			return !m.InSync && !m.Eligible
		}
	}
	return false
}

// ResignDamaged asks for another leader than this one, whose log cannot be read in this epoch, if
// another replica is in sync.
func (p *Partition) ResignDamaged(epoch int32) {
	if r := p.role.Load(); r.leader && r.epoch == epoch && r.isr > 1 && p.env.resign != nil {
		p.env.resign(p, epoch)
	}
}

// Deserted reports whether this broker leads, others count as in sync, and none of them follows it
// now: they may be down. Soon they follow, or leave the ISR.
func (p *Partition) Deserted() bool {
	if r := p.role.Load(); !r.leader || r.isr < 2 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lead != nil && !p.lead.Followed()
}

// ReplicaLeader is Leader for a broker that has a replica. The leader is -1 if the image assigns
// the partition to other brokers: then there is nothing to copy.
func (p *Partition) ReplicaLeader() (broker, epoch int32) {
	r := p.role.Load()
	for _, m := range r.members {
		if m.Broker == p.env.self {
			return r.leaderID, r.epoch
		}
	}
	return -1, r.epoch
}

// Registered returns the broker epoch that the image shows for a follower, 0 if it is no replica.
func (p *Partition) Registered(follower int32) int64 {
	for _, m := range p.role.Load().members {
		if m.Broker == follower {
			return m.BrokerEpoch
		}
	}
	return 0
}

// Acknowledged records the ends of a follower's log. It ignores subscriptions that have ended, and
// those of other epochs. It does not allocate unless appends or readers wait.
func (p *Partition) Acknowledged(h progress.Handle, written, durable int64) {
	p.mu.Lock()
	if p.lead == nil {
		p.mu.Unlock()
		return
	}
	p.complete(p.lead.Ends(h, written, durable), p.log.AckEnd())
}

// StartAcknowledged records the log start that a follower made durable.
func (p *Partition) StartAcknowledged(h progress.Handle, start int64) {
	p.mu.Lock()
	if p.lead == nil {
		p.mu.Unlock()
		return
	}
	effect := p.lead.LogStart(h, start)
	p.wakeStarts()
	p.complete(effect, p.log.AckEnd())
}

// Unsubscribe ends a subscription.
func (p *Partition) Unsubscribe(h progress.Handle, why progress.StreamEnd) {
	p.mu.Lock()
	if p.lead == nil {
		p.mu.Unlock()
		return
	}
	p.complete(p.lead.End(h, why, p.env.now()), p.log.AckEnd())
}

// Lacks notes that following this leader in an epoch would remove committed records of a follower.
// If that is a member of the ISR or the ELR, the log of this leader lacks them: it counts as
// damaged, so that another member leads, from which it is copied again. common is the last epoch of
// which both have records, negative for none. If the metadata were restored since, they may name
// members of before an unclean election, and the leader stays.
func (p *Partition) Lacks(epoch, common, follower int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lead != nil && p.lead.Epoch() == epoch && !metadata.Raised(max(common, 0), epoch) && p.lead.Lacks(follower) {
		p.log.Lacks(fmt.Sprintf("broker %d, which is in sync or eligible, has committed records that this leader lacks", follower))
	}
}

// Propose returns the change of the ISR and the ELR that the leader should send to the metadata
// store, if there is one, with the leader epoch; see progress.Leader.Propose. A pending change is
// returned again after Limits.Repeat until an image shows its outcome.
func (p *Partition) Propose() (change progress.Proposal, epoch int32, ok bool) {
	lease := p.env.leaseLive()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lead == nil {
		return change, -1, false
	}
	change, ok = p.lead.Propose(p.env.now(), lease)
	return change, p.lead.Epoch(), ok
}

// proposed reports whether a change has no known outcome yet.
func (p *Partition) proposed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lead != nil && p.lead.Pending()
}

// refused reports whether the metadata store refused a change, and the leader needs a role of that
// revision or a later one to decide again.
func (p *Partition) refused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lead != nil && p.lead.Undecided()
}

// Refused records that the metadata store refused a change of an epoch at a revision.
func (p *Partition) Refused(epoch int32, id uint64, revision int64) {
	p.mu.Lock()
	if p.lead == nil || p.lead.Epoch() != epoch {
		p.mu.Unlock()
		return
	}
	effect := p.lead.Refused(id, revision)
	p.wakeStarts() // the change no longer adds to the replicas that must have it
	p.complete(effect, p.log.AckEnd())
}

// Sweep measures the followers' lag, and fails the appends with acks=all of a leader that is cut
// off: at two sweeps in a row. A leader whose log is offline gives way. The caller must call it
// every 500 ms as long as it returns true, and after an append or a change of the role that follows
// a false one.
func (p *Partition) Sweep() (more bool) {
	lease := p.env.leaseLive()
	var ready decided
	p.mu.Lock()
	if p.lead == nil {
		p.mu.Unlock()
		return false
	}
	more = p.lead.Sweep(p.env.now(), p.log.Ends().LogEnd)
	// Links that end together and begin again also end lease and streams for a moment.
	apart := !lease && p.lead.Unsubscribed()
	cut := apart && p.apart
	p.apart = apart
	if p.cutOff.Store(cut); cut {
		p.discardUncommitted(errCutOff(), &ready)
	}
	p.mu.Unlock()
	ready.finish()
	offline := p.log.Offline() != nil
	if offline { // a start could not read it: otherwise Reverted has resigned
		p.giveWay()
	}
	return more || apart || offline
}

// CutOff reports whether this broker leads the partition, and has lost contact with the controller
// and with another in-sync replica. Appends with acks=all would wait until their time is over,
// while another broker probably leads: clients should ask for that one.
func (p *Partition) CutOff() bool { return p.cutOff.Load() && p.role.Load().leader }

func errCutOff() error {
	return fmt.Errorf("%w: this broker has lost contact with the controller and with other replicas", ErrNotLeader)
}
