package replica

import (
	"fmt"
	"slices"

	"github.com/chronik-io/chronik/internal/replica/progress"
)

// Role is what the metadata assigns to a partition of this broker.
type Role struct {
	Leader int32 // broker id, -1 for none
	Epoch  int32 // leader epoch
	// Unclean is the newest leader epoch that began with an unclean election, 0 if none did: the
	// first epoch never does.
	Unclean int32
	// BrokerEpoch is the revision of this broker's own registration.
	BrokerEpoch int64
	View        progress.View
}

// role is a partition's role on this broker according to the metadata. It is replaced, never
// changed.
type role struct {
	leader     bool
	gone       bool // the topic was deleted
	leaderID   int32
	epoch      int32
	epochStart int64 // log end when this broker began to lead
	unclean    int32
	replicas   int  // number of replicas
	minISR     int  // the effective min.insync.replicas
	isr        int  // number of in-sync replicas
	sole       bool // this broker is the only replica
	members    []progress.Replica
}

// newRole returns the role of broker self.
func newRole(a *Role, self int32) *role {
	r := &role{leader: a.Leader == self, leaderID: a.Leader, epoch: a.Epoch, unclean: a.Unclean, replicas: len(a.View.Replicas),
		minISR: a.View.EffectiveMinISR(), members: a.View.Replicas}
	for i := range a.View.Replicas {
		if a.View.Replicas[i].InSync {
			r.isr++
		}
	}
	r.sole = r.replicas == 1 && a.View.Replicas[0].Broker == self
	return r
}

// hasOther reports whether another broker than self is in sync and can lead.
func (r *role) hasOther(self int32) bool {
	return slices.ContainsFunc(r.members, func(m progress.Replica) bool { return m.Broker != self && m.InSync && m.Active })
}

// hasWhole reports whether another broker than self can lead and has all committed records.
func (r *role) hasWhole(self int32) bool {
	return slices.ContainsFunc(r.members, func(m progress.Replica) bool { return m.Broker != self && m.Active && (m.InSync || m.Eligible) })
}

// insync reports whether a broker is in sync.
func (r *role) insync(broker int32) bool {
	return slices.ContainsFunc(r.members, func(m progress.Replica) bool { return m.Broker == broker && m.InSync })
}

// accepts returns why an append is refused, nil if it is accepted.
func (p *Partition) accepts(r *role, epoch int32, acks Acks) error {
	if err := r.check(epoch); err != nil {
		return err
	}
	if !r.enough(acks) {
		return fmt.Errorf("%w: %d of %d", ErrNotEnoughReplicas, r.isr, r.minISR)
	}
	if acks == AcksAll && p.cutOff.Load() && !p.env.leaseLive() {
		return errCutOff() // it would only wait
	}
	return p.leased(r, acks)
}

// leased returns an error if no other replica is asked for an acknowledgement and another broker
// may lead by now, without this one's knowledge: that leader may not have the records. With
// acks=all and another in-sync replica no lease is needed, because that replica follows a newer
// leader as soon as it knows one, and acknowledges nothing here from then on.
func (p *Partition) leased(r *role, acks Acks) error {
	if acks == AcksAll && r.isr > 1 {
		return nil
	}
	return p.current(r)
}

// offered reports whether this broker has asked the controller for another leader, and there is one
// that can lead: it asks with the next heartbeat after a failure of the directory or damage to the
// log. From then on the lease proves nothing for the partition. The controller does not wait until
// this broker has applied the election, which a failing disk of the metadata may delay.
func (p *Partition) offered(r *role) bool {
	self := p.env.self
	return r.leader && (p.env.unable != nil && p.env.unable(p.log.Dir()) && r.hasOther(self) || p.log.Flaw() != nil && r.hasWhole(self))
}

// Offered reports whether another broker may lead the partition without this one's knowledge,
// although this one has a lease. It does not block.
func (p *Partition) Offered() bool { return p.offered(p.role.Load()) }

func errOffered() error {
	return fmt.Errorf("%w: this broker has asked the controller for another leader", ErrNotLeader)
}

func errNoLease() error {
	return fmt.Errorf("%w: this broker has lost contact with the controller", ErrNotLeader)
}

func (r *role) enough(acks Acks) bool { return acks != AcksAll || r.isr >= r.minISR }

// check compares the epoch of a request, -1 for none, with the role, and requires that it leads.
func (r *role) check(epoch int32) error {
	if err := r.checkEpoch(epoch); err != nil {
		return err
	}
	if !r.leader {
		return r.notLeader()
	}
	return nil
}

// checkEpoch compares the epoch of a request, -1 for none, with the role.
func (r *role) checkEpoch(epoch int32) error {
	switch {
	case r.gone:
		return r.notLeader()
	case epoch >= 0 && epoch < r.epoch:
		return fmt.Errorf("%w: %d, the current one is %d", ErrFencedEpoch, epoch, r.epoch)
	case epoch > r.epoch:
		return fmt.Errorf("%w: %d, the current one is %d", ErrUnknownEpoch, epoch, r.epoch)
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
