package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// reconcile brings a member a step closer to its target. reported are the partitions
// that it says it has; nil: it doesn't say. The result says whether what is assigned
// to it has changed.
func (s *Shard) reconcile(g *group, m *member, reported []kmsg.ConsumerGroupHeartbeatRequestTopic) (changed bool) {
	c := g.consumer()
	if m.reconciled(c.targetEpoch) {
		return false
	}
	epoch := m.epoch
	if m.state == memberUnrevoked {
		if reports(reported, m.revoking) {
			return false
		}
		// What was to be given up is: an epoch of its own says so, also where a newer
		// target asks for more.
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

// timeRevocation gives a member that has to give up partitions its rebalance timeout
// for it. Classic members have a timer for the join that follows instead.
func (s *Shard) timeRevocation(g *group, m *member) {
	switch {
	case m.classic():
	case m.state == memberUnrevoked:
		s.setTimer(timerRebalance, g.id, m.id, millis(m.meta.RebalanceTimeout))
	default:
		s.cancelTimer(timerRebalance, g.id, m.id)
	}
}

// step is the next state of a member.
//
//	to give up      = assigned − target: it stays in its epoch until it has
//	to be assigned  = target − assigned, as far as nobody has it: it goes to the target's epoch
//	not released    = target − assigned that others have: it waits, in the target's epoch
//
// Partitions keep the epoch in which they became the member's (KIP-1251).
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
	if len(revoking) > 0 && reports(reported, revoking) {
		next.state, next.revoking = memberUnrevoked, revoking
		return next
	}
	next.epoch, next.state = c.targetEpoch, memberStable
	for id, list := range target {
		for _, p := range list {
			if _, has := m.assigned[id][p]; has {
				continue
			}
			// What the member itself has just given up is free for it.
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

// reports says whether a member still has any of some partitions. One that doesn't
// say may.
func reports(reported []kmsg.ConsumerGroupHeartbeatRequestTopic, of owned) bool {
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
