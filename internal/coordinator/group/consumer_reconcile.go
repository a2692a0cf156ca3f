package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// reconcile moves a member one step closer to its target. reported are the partitions that the
// member owns according to its request, nil if the request does not list them. changed reports
// whether the member's assigned partitions have changed.
func (s *Shard) reconcile(g *group, m *member, reported []kmsg.ConsumerGroupHeartbeatRequestTopic) (changed bool) {
	c := g.consumer()
	if m.reconciled(c.targetEpoch) {
		return false
	}
	epoch := m.epoch
	if m.state == memberUnrevoked {
		if stillReports(reported, m.revoking) {
			return false
		}
		// The revocation is complete. It gets an epoch of its own, even if a newer target requires
		// further revocations.
		epoch++
	}
	next := c.step(m, epoch, reported)
	if next.epoch == m.epoch && next.state == m.state && next.assigned.equal(m.assigned) && next.revoking.equal(m.revoking) {
		return false
	}
	changed = !next.assigned.assignment().Equal(m.assigned.assignment())
	if next.epoch != m.epoch {
		next.previous = m.epoch
	}
	s.emit(format.Key{Type: format.TypeCurrent, Group: g.id, Item: m.id}, format.Current{Epoch: next.epoch, Previous: next.previous,
		State: int8(next.state), Assigned: next.assigned.recorded(), Revoking: next.revoking.recorded()})
	s.timeRevocation(g, m)
	return changed
}

// timeRevocation starts the rebalance timeout of a member that must revoke partitions. For classic
// members, the timer of the following join does this.
func (s *Shard) timeRevocation(g *group, m *member) {
	switch {
	case m.classic():
	case m.state == memberUnrevoked:
		s.setTimer(timerRebalance, g.id, m.id, millis(m.meta.RebalanceTimeout))
	default:
		s.cancelTimer(timerRebalance, g.id, m.id)
	}
}

// step returns the next state of a member.
//
//	to revoke       = assigned − target: the member stays in its epoch until it has
//	to be assigned  = target − assigned, if no member owns it: the member gets the target's epoch
//	not released    = target − assigned, owned by others: the member waits, in the target's epoch
//
// Partitions keep the epoch in which the member got them (KIP-1251).
func (c *consumer) step(m *member, epoch int32, reported []kmsg.ConsumerGroupHeartbeatRequestTopic) member {
	next := *m
	next.epoch, next.assigned, next.revoking = epoch, owned{}, nil
	target, revoking := c.target[m.id], owned{}
	for id, list := range m.assigned {
		for p, since := range list {
			if _, stays := slices.BinarySearch(target[id], p); stays {
				next.assigned.put(id, p, since)
			} else {
				revoking.put(id, p, since)
			}
		}
	}
	if len(revoking) > 0 && stillReports(reported, revoking) {
		next.state, next.revoking = memberUnrevoked, revoking
		return next
	}
	next.epoch, next.state = c.targetEpoch, memberStable
	for id, list := range target {
		for _, p := range list {
			if _, has := m.assigned[id][p]; has {
				continue
			}
			// Partitions that the member itself has just revoked are free.
			if owner, taken := c.owners[id][p]; taken && owner != m.id {
				next.state = memberUnreleased
				continue
			}
			next.assigned.put(id, p, c.targetEpoch)
		}
	}
	return next
}

func (o owned) put(id assign.TopicID, p, epoch int32) {
	if o[id] == nil {
		o[id] = map[int32]int32{}
	}
	o[id][p] = epoch
}

// stillReports reports whether a member still owns any partition in of. Without a list it may.
func stillReports(reported []kmsg.ConsumerGroupHeartbeatRequestTopic, of owned) bool {
	if reported == nil {
		return true
	}
	for _, t := range reported {
		for _, p := range t.Partitions {
			if _, ok := of[t.TopicID][p]; ok {
				return true
			}
		}
	}
	return false
}
