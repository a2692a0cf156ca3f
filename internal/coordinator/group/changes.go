package group

import (
	"maps"
	"slices"
	"time"
)

// changes are created, deleted and grown topics that the groups' records do not reflect yet. A
// change of topics is not a request that could be refused, so handling it writes no records. A
// timer writes them when the log accepts records, at most one batch at a time.
type changes struct {
	all     bool                // any topic may have changed
	changed map[string]struct{} // names of changed topics
	deleted map[string]struct{} // names of deleted topics; their offsets are also deleted
}

// topicsChanged stores the current topics. Affected groups update their targets when a member next
// sends a request.
func (s *Shard) topicsChanged(e TopicsChanged) {
	for _, g := range s.groups {
		switch c := g.share(); {
		case c == nil:
		case s.topicsUnknown():
			c.noteMissed(e.Topics)
		default:
			c.noteAdded(s.topics, e)
		}
	}
	s.topics = e.Topics
	if e.Times != nil {
		s.times = e.Times
	}
	for _, g := range s.groups {
		if c, is := g.kind.(targeted); is {
			c.topicsChanged(e)
		}
		if c := g.share(); c != nil && !c.waits && (c.states.unfinished() || len(c.added) > 0) {
			s.setTimer(timerShares, g.id, "", 0)
		}
	}
	if s.needsRecords(e) {
		s.changes.note(e)
		s.setTimer(timerTopics, "", "", 0)
	}
}

// needsRecords reports whether a change of topics requires records. Usually it does not, however
// many groups there are.
func (s *Shard) needsRecords(e TopicsChanged) bool {
	for _, g := range s.groups {
		if slices.ContainsFunc(e.Deleted, g.hasOffsets) || (e.All || len(e.Changed) > 0) && g.usesRegex() {
			return true
		}
		if c := g.share(); c != nil && (e.All || len(e.Deleted) > 0) && len(s.forgottenTopics(c)) > 0 {
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

// applyTopicChanges records the consequences of topic changes and starts matching regular
// expressions against the changed topics.
func (s *Shard) applyTopicChanges() {
	if s.topicsUnknown() {
		return // the first TopicsChanged has All set
	}
	left := maxTombstones
	for _, id := range s.groupsWithDeletedTopics() {
		left -= s.dropDeleted(s.groups[id], left)
		s.finishEvent(id)
		if left <= 0 {
			s.setTimer(timerTopics, "", "", tombstoneDelay)
			return
		}
	}
	s.changes.deleted = nil
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		if c := s.groups[id].share(); c != nil {
			if forgotten := s.forgottenTopics(c); len(forgotten) > 0 {
				left -= s.forgetTopics(s.groups[id], forgotten) / tombstoneSize
				s.finishEvent(id)
			}
		}
		if left <= 0 {
			s.setTimer(timerTopics, "", "", tombstoneDelay)
			return
		}
	}
	if s.rematched != nil {
		if !s.applyMatches(s.rematched) {
			s.setTimer(timerTopics, "", "", tombstoneDelay)
			return
		}
		s.rematched, s.rematching = nil, false
	}
	if !s.rematching && (s.changes.all || len(s.changes.changed) > 0) {
		s.startMatchAll()
	}
}

// receiveMatches stores the result of a call. It is not a request that could be refused, so a timer
// records it.
func (s *Shard) receiveMatches(r topicMatches) {
	s.rematched = &r
	s.setTimer(timerTopics, "", "", 0)
}

// groupsWithDeletedTopics returns the groups with offsets for deleted topics, sorted.
func (s *Shard) groupsWithDeletedTopics() (ids []string) {
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

// One event writes at most maxTombstones tombstones, about a megabyte. The next ones follow after
// tombstoneDelay.
const (
	maxTombstones  = 10_000
	tombstoneSize  = 100 // bytes, about
	tombstoneDelay = 100 * time.Millisecond
)

// dropDeleted deletes at most limit offsets that a group has for deleted topics, pending ones
// included, and returns their number. It keeps those of partitions for which an offset is already
// committed or pending for a new topic of the same name. The older ones are not shown then.
func (s *Shard) dropDeleted(g *group, limit int) (n int) {
	for _, topic := range deletedTopicsOf(g, s.changes.deleted) {
		for _, p := range g.partitionsOf(topic) {
			if _, shown := s.offset(g, topic, p); shown || s.unstable(g, topic, p) {
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

// partitionsOf returns the partitions of a topic that have committed or pending offsets, sorted.
func (g *group) partitionsOf(topic string) []int32 {
	list := slices.AppendSeq(slices.Collect(maps.Keys(g.offsets[topic])), maps.Keys(g.pending[topic]))
	slices.Sort(list)
	return slices.Compact(list)
}

// hasOffsets reports whether a group has committed or pending offsets for a topic.
func (g *group) hasOffsets(topic string) bool { return len(g.offsets[topic])+len(g.pending[topic]) > 0 }

// deletedTopicsOf returns those deleted topics for which a group has offsets, sorted.
func deletedTopicsOf(g *group, deleted map[string]struct{}) (topics []string) {
	for t := range deleted {
		if g.hasOffsets(t) {
			topics = append(topics, t)
		}
	}
	slices.Sort(topics)
	return topics
}
