package group

import (
	"maps"
	"slices"
	"time"
)

// changes are topics that came, went or grew, as far as the groups' records do not show
// it yet. A change of topics is no request that could be refused, so it writes nothing:
// a timer does, which fires when the log takes records, and no more at once than a
// batch holds.
type changes struct {
	all     bool                // any topic may have changed
	changed map[string]struct{} // names of those that have
	deleted map[string]struct{} // names of those that are gone, with what was committed for them
}

// topicsChanged takes in the topics as they are now. Groups that it may concern look
// again when one of their members is heard of.
func (s *Shard) topicsChanged(e TopicsChanged) {
	s.topics = e.Topics
	if e.Times != nil {
		s.times = e.Times
	}
	for _, g := range s.groups {
		g.kind.topicsChanged(e)
	}
	if s.concerns(e) {
		s.changes.note(e)
		s.setTimer(timerTopics, "", "", 0)
	}
}

// concerns reports whether a change of topics makes records: mostly not, of however
// many groups there are.
func (s *Shard) concerns(e TopicsChanged) bool {
	for _, g := range s.groups {
		has := func(t string) bool { _, ok := g.offsets[t]; return ok }
		if slices.ContainsFunc(e.Deleted, has) || (e.All || len(e.Changed) > 0) && g.matches() {
			return true
		}
	}
	return false
}

func (c *changes) note(e TopicsChanged) {
	c.all = c.all || e.All
	c.changed, c.deleted = union(c.changed, e.Changed), union(c.deleted, e.Deleted)
}

func union(set map[string]struct{}, list []string) map[string]struct{} {
	if set == nil {
		set = make(map[string]struct{}, len(list))
	}
	for _, e := range list {
		set[e] = struct{}{}
	}
	return set
}

// followTopics records what follows from changes of topics, and has expressions matched
// against them.
func (s *Shard) followTopics() {
	if s.blind() {
		return // the first TopicsChanged is of all
	}
	left := maxTombstones
	for _, id := range s.concerned() {
		left -= s.dropDeleted(s.groups[id], left)
		s.finishEvent(id)
		if left <= 0 {
			s.setTimer(timerTopics, "", "", tombstonesSoon)
			return
		}
	}
	s.changes.deleted = nil
	if s.rematched != nil {
		if !s.applyMatches(s.rematched) {
			s.setTimer(timerTopics, "", "", tombstonesSoon)
			return
		}
		s.rematched, s.rematching = nil, false
	}
	if !s.rematching && (s.changes.all || len(s.changes.changed) > 0) {
		s.rematch()
	}
}

// matchedAgain takes in what a call has found. It is no request that could be refused, so
// that the timer records it.
func (s *Shard) matchedAgain(r rematched) {
	s.rematched = &r
	s.setTimer(timerTopics, "", "", 0)
}

// concerned are the groups that have offsets of topics which are gone, sorted.
func (s *Shard) concerned() (ids []string) {
	if len(s.changes.deleted) == 0 {
		return nil
	}
	for id, g := range s.groups {
		if len(deletedTopicsOf(g, s.changes.deleted)) > 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// One event makes at most maxTombstones tombstones, about a megabyte; the next follow
// soon.
const (
	maxTombstones  = 10_000
	tombstonesSoon = 100 * time.Millisecond
)

// dropDeleted deletes at most limit of what a group has committed for topics that are
// gone, and returns how many. What is committed already for a topic that has the name
// now stays.
func (s *Shard) dropDeleted(g *group, limit int) (n int) {
	for _, topic := range deletedTopicsOf(g, s.changes.deleted) {
		for _, p := range slices.Sorted(maps.Keys(g.offsets[topic])) {
			if _, shown := s.offset(g, topic, p); shown {
				continue
			}
			if n == limit {
				return n
			}
			s.deleteOffset(g, topic, p)
			n++
		}
	}
	return n
}

// deletedTopicsOf are the topics of some that a group has offsets of, sorted.
func deletedTopicsOf(g *group, deleted map[string]struct{}) (topics []string) {
	for t := range deleted {
		if _, has := g.offsets[t]; has {
			topics = append(topics, t)
		}
	}
	slices.Sort(topics)
	return topics
}
