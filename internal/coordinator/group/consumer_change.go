package group

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// updateMember records a member's metadata and its consequences for the group: a new epoch if
// subscriptions or topics have changed, and for a new epoch a new target.
func (s *Shard) updateMember(g *group, id string, meta format.Member) {
	c := g.consumer()
	old := c.memberOrNew(id)
	changed := !slices.Equal(old.meta.Topics, meta.Topics) || deref(old.meta.Regex) != deref(meta.Regex)
	if c.members[id] == nil || !sameMember(&old.meta, &meta) {
		s.emit(format.Key{Type: format.TypeMember, Group: g.id, Item: id}, meta)
	}
	if changed {
		s.resolveRegexes(g)
	}
	s.bumpEpoch(g, changed)
	s.updateTarget(g)
}

// sameMember reports whether two versions of a member's metadata are equal.
func sameMember(a, b *format.Member) bool {
	return same(a.Instance, b.Instance) && same(a.Rack, b.Rack) && same(a.Regex, b.Regex) && same(a.Assignor, b.Assignor) &&
		a.ClientID == b.ClientID && a.ClientHost == b.ClientHost && a.RebalanceTimeout == b.RebalanceTimeout &&
		slices.Equal(a.Topics, b.Topics) && sameClassic(a.Classic, b.Classic)
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func sameClassic(a, b *format.Classic) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.SessionTimeout == b.SessionTimeout && slices.EqualFunc(a.Protocols, b.Protocols, func(p, q format.Protocol) bool {
		return p.Name == q.Name && bytes.Equal(p.Metadata, q.Metadata)
	})
}

// bumpEpoch raises the group epoch if anyway is true or the subscribed topics have changed. As in
// Kafka, a new group begins at epoch 1, and its first member joins in epoch 2 if it subscribes to
// any topic.
func (s *Shard) bumpEpoch(g *group, anyway bool) {
	c := g.consumer()
	begins := c.epoch == 0
	if !anyway && !begins && (!c.dirty || s.topicsUnknown()) {
		return
	}
	hash := c.hash
	if !s.topicsUnknown() {
		c.dirty = false
		hash = hashTopics(s.topics, c.subscribed())
	}
	epoch := max(c.epoch, 1)
	if anyway || !begins && hash != c.hash {
		epoch++
	}
	if epoch != c.epoch {
		s.emit(format.Key{Type: format.TypeGroup, Group: g.id}, format.Group{Epoch: epoch, Hash: hash})
	}
}

// updateTarget computes and records the target of the group's epoch, if it is missing. In a large
// group this waits for targetInterval after the last target, so that members that join together
// share one.
func (s *Shard) updateTarget(g *group) {
	c := g.consumer()
	if s.topicsUnknown() || c.epoch <= c.targetEpoch {
		return
	}
	if wait := s.untilNext(c.targetTime, c.targetInterval()); wait > 0 {
		s.setTimer(timerTarget, g.id, "", wait)
		return
	}
	in := s.assignorInput(c)
	c.targetCost = in.Cost()
	next := assign.ByName(s.assignor(c))(in)
	for _, m := range c.list() {
		if a, had := next[m.id], c.target[m.id]; !a.Equal(had) || c.target[m.id] == nil {
			s.emit(format.Key{Type: format.TypeTarget, Group: g.id, Item: m.id}, targetRecord(a))
		}
	}
	s.emit(format.Key{Type: format.TypeTargetEpoch, Group: g.id}, format.TargetEpoch{Epoch: c.epoch, Time: s.nowMillis()})
}

// untilNext returns how long the next target assignment has to wait after the last one, or 0. A
// last target in the future does not count: the clock has been set back, or that of the last
// coordinator was ahead.
func (s *Shard) untilNext(lastTarget int64, interval time.Duration) time.Duration {
	since := s.now.Sub(time.UnixMilli(lastTarget))
	if since < 0 {
		return 0
	}
	return max(interval-since, 0)
}

// targetInterval returns the minimum time between two targets of a group. A target costs about 0.3
// µs for each member and partition, plus a record for each member whose target changes. The
// interval limits the cost of all targets of a group to a few percent of a processor. Small groups
// do not wait at all. In Kafka every group waits for a second
// (group.consumer.assignment.interval.ms).
func (c *consumer) targetInterval() time.Duration {
	if c.targetCost <= cheapTarget {
		return 0
	}
	return min(time.Duration(c.targetCost)*targetPause, maxTargetInterval)
}

const (
	cheapTarget       = 500 // members and partitions
	targetPause       = 20 * time.Microsecond
	maxTargetInterval = time.Second
)

// assignor returns the assignor that most members name, or the default.
func (s *Shard) assignor(c *consumer) string {
	votes := map[string]int{}
	for _, m := range c.members {
		if m.meta.Assignor != nil {
			votes[*m.meta.Assignor]++
		}
	}
	best, n := s.cfg.Assignors[0], 0
	for _, name := range slices.Sorted(maps.Keys(votes)) {
		// A record may name an assignor that this version does not have.
		if votes[name] > n && assign.ByName(name) != nil {
			best, n = name, votes[name]
		}
	}
	return best
}

func (s *Shard) assignorInput(c *consumer) assign.Input {
	in := assign.Input{Partitions: map[assign.TopicID]int32{}}
	for _, m := range c.list() {
		names := m.meta.Topics
		if m.meta.Regex != nil {
			names = sortedSet(slices.Concat(names, c.regexes[*m.meta.Regex].Topics))
		}
		a := assign.Member{ID: m.id, Instance: m.instance(), Previous: c.target[m.id]}
		for _, n := range names {
			if t, ok := s.topics.ByName(n); ok {
				a.Topics = append(a.Topics, t.ID)
				in.Partitions[t.ID] = t.Partitions
			}
		}
		in.Members = append(in.Members, a)
	}
	return in
}

// removeConsumer records that a member is gone.
func (s *Shard) removeConsumer(g *group, m *member) {
	for _, kind := range []uint8{timerSession, timerRebalance, timerMemberJoin, timerMemberSync} {
		s.cancelTimer(kind, g.id, m.id)
	}
	key := format.Key{Type: format.TypeCurrent, Group: g.id, Item: m.id}
	s.emit(key, nil)
	key.Type = format.TypeTarget
	s.emit(key, nil)
	key.Type = format.TypeMember
	s.emit(key, nil)
}

// fence removes a member that has left or timed out. If all remaining members use the classic
// protocol, the group becomes a classic group.
func (s *Shard) fence(g *group, m *member) {
	if s.downgradable(g, m.id) {
		s.downgrade(g, m.id)
		return
	}
	s.removeConsumer(g, m)
	s.afterConsumerRemoval(g)
}

// afterConsumerRemoval raises the epoch after members were removed. A later request of a remaining
// member, if there is any, computes the target.
func (s *Shard) afterConsumerRemoval(g *group) {
	s.dropRegexes(g)
	s.bumpEpoch(g, true)
}

// removeRecords implements kind: the group is no longer a consumer group. Its offsets stay.
func (c *consumer) removeRecords(s *Shard, g *group) {
	for _, m := range c.list() {
		s.removeConsumer(g, m)
	}
	for _, re := range slices.Sorted(maps.Keys(c.regexes)) {
		s.emit(format.Key{Type: format.TypeRegex, Group: g.id, Item: re}, nil)
	}
	s.emit(format.Key{Type: format.TypeTargetEpoch, Group: g.id}, nil)
	s.emit(format.Key{Type: format.TypeGroup, Group: g.id}, nil)
}

// timesOf returns the settings in effect for a group.
func (s *Shard) timesOf(g *group) Times {
	t := s.times(g.id)
	if t.Session == 0 {
		t.Session = s.cfg.ConsumerSession
	}
	if t.Heartbeat == 0 {
		t.Heartbeat = s.cfg.ConsumerHeartbeat
	}
	if t.Streams == nil {
		t.Streams = &s.cfg.Streams
	}
	if t.Share == nil {
		t.Share = &s.cfg.Share
	}
	return t
}

// loaded implements kind: it starts the members' sessions and requests matches for expressions
// without any.
func (c *consumer) loaded(s *Shard, g *group) {
	for _, m := range c.list() {
		session := s.timesOf(g).Session
		if m.classic() {
			session = millis(m.meta.Classic.SessionTimeout)
		}
		s.setTimer(timerSession, g.id, m.id, session)
		s.timeRevocation(g, m)
	}
	for re := range c.expressions() {
		if _, known := c.regexes[re]; !known {
			s.requestMatches(g)
		}
	}
	c.dirty = true // since the records were written
}
