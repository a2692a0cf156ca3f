package group

import (
	"slices"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// bumpShare raises the group epoch if anyway is true, if the subscribed topics have changed, or if
// the target lacks partitions whose states exist by now. As in Kafka, a new group begins at epoch
// 1, and its first member joins in epoch 2.
func (s *Shard) bumpShare(g *group, anyway bool) {
	c := g.share()
	if !anyway && (!c.dirty || s.topicsUnknown()) {
		return
	}
	hash := c.hash
	if !s.topicsUnknown() {
		c.dirty = false
		hash = hashTopics(s.topics, c.subscribed())
	}
	if anyway || hash != c.hash || s.targetDiffers(c) {
		s.emit(format.Key{Type: format.TypeShare, Group: g.id}, format.Share{Epoch: max(c.epoch, 1) + 1, Hash: hash})
	}
}

// targetDiffers reports whether the target of the group's epoch has other partitions than those
// that may be assigned.
func (s *Shard) targetDiffers(c *share) bool {
	if c.empty() || s.topicsUnknown() || c.epoch > c.targetEpoch {
		return false
	}
	assigned := map[assign.TopicID][]int32{}
	for _, a := range c.target {
		for id, list := range a {
			assigned[id] = append(assigned[id], list...)
		}
	}
	all := s.assignable(c)
	for id, list := range all {
		slices.Sort(assigned[id])
		if !slices.Equal(slices.Compact(assigned[id]), list) {
			return true
		}
	}
	return len(assigned) != len(all)
}

// assignable returns the partitions of subscribed topics that have a state. The lists must not be
// modified.
func (s *Shard) assignable(c *share) map[assign.TopicID][]int32 {
	all := map[assign.TopicID][]int32{}
	for name := range c.subscribed() {
		topic, exists := s.topics.ByName(name)
		if !exists {
			continue
		}
		if s.cfg.Broken.Has(AssignUninitialized) {
			for p := range topic.Partitions {
				all[topic.ID] = append(all[topic.ID], p)
			}
		} else if t := c.states.initialized[topic.ID]; t != nil {
			all[topic.ID] = t.partitions
		}
	}
	return all
}

// updateShareTarget computes and records the target of the group's epoch, if it is missing. It
// waits for share.assignment.interval.ms after the last one.
func (s *Shard) updateShareTarget(g *group) {
	c := g.share()
	if s.topicsUnknown() || c.empty() || c.epoch <= c.targetEpoch {
		return
	}
	if wait := s.untilNext(c.targetTime, s.timesOf(g).Share.Interval); wait > 0 {
		s.setTimer(timerTarget, g.id, "", wait)
		return
	}
	in := assign.SharedInput{Partitions: s.assignable(c)}
	for _, m := range c.list() {
		a := assign.Member{ID: m.id, Previous: c.target[m.id]}
		for _, name := range m.meta.Topics {
			if topic, exists := s.topics.ByName(name); exists {
				a.Topics = append(a.Topics, topic.ID)
			}
		}
		in.Members = append(in.Members, a)
	}
	next := assign.Simple(in)
	for _, m := range c.list() {
		if had, known := c.target[m.id]; !known || !next[m.id].Equal(had) {
			s.emit(format.Key{Type: format.TypeShareTarget, Group: g.id, Item: m.id}, targetRecord(next[m.id]))
		}
	}
	s.emit(format.Key{Type: format.TypeShareEpoch, Group: g.id}, format.TargetEpoch{Epoch: c.epoch, Time: s.nowMillis()})
}

// takeShareTarget gives a member its target. It waits for no other member: they may share
// partitions. While the target of the group's epoch is delayed, the member has no partitions of
// topics to which it does not subscribe any more.
func (s *Shard) takeShareTarget(g *group, m *shareMember) {
	c := g.share()
	next := m.assigned
	if m.epoch != c.goal() {
		next = c.target[m.id]
	}
	if c.epoch > c.targetEpoch {
		next = s.subscribedOf(m, next)
	}
	if m.epoch == c.goal() && next.Equal(m.assigned) {
		return
	}
	v := format.ShareCurrent{Epoch: c.goal(), Previous: m.epoch, Assigned: targetRecord(next)}
	if m.epoch == v.Epoch {
		v.Previous = m.previous
	}
	s.emit(format.Key{Type: format.TypeShareCurrent, Group: g.id, Item: m.id}, v)
}

// subscribedOf returns the part of an assignment whose topics a member subscribes to.
func (s *Shard) subscribedOf(m *shareMember, a assign.Assignment) assign.Assignment {
	out := assign.Assignment{}
	for _, name := range m.meta.Topics {
		if topic, exists := s.topics.ByName(name); exists && len(a[topic.ID]) > 0 {
			out[topic.ID] = a[topic.ID]
		}
	}
	return out
}

// removeShareMember removes a member that has left or timed out. A later request of a remaining
// member, if there is any, computes the target. A group without members has none to wait for: as in
// Kafka, its target is that of its epoch, so that a member that joins does not wait either.
func (s *Shard) removeShareMember(g *group, m *shareMember) {
	c := g.share()
	s.dropShareMember(g, m)
	s.bumpShare(g, true)
	if c.empty() {
		s.cancelTimer(timerTarget, g.id, "")
		s.emit(format.Key{Type: format.TypeShareEpoch, Group: g.id}, format.TargetEpoch{Epoch: c.epoch})
	}
}

// dropShareMember records that a member is gone.
func (s *Shard) dropShareMember(g *group, m *shareMember) {
	s.cancelTimer(timerSession, g.id, m.id)
	for _, t := range []format.Type{format.TypeShareCurrent, format.TypeShareTarget, format.TypeShareMember} {
		s.emit(format.Key{Type: t, Group: g.id, Item: m.id}, nil)
	}
}
