package group

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// The methods of kind on share groups, other than heartbeats.

const shareProtocol = "share" // the protocol type of share groups

func (c *share) listed() (name, protocol, state string) {
	return "share", shareProtocol, c.stateName()
}
func (c *share) empty() bool { return len(c.members) == 0 }
func (c *share) weight() int { return c.bytes }

// expires implements kind: as in Kafka, a share group stays until it is deleted, as its states are
// its position.
func (c *share) expires() bool { return false }

func (c *share) weightOf(id string) int {
	if m := c.members[id]; m != nil {
		return m.bytes
	}
	return 0
}

func (c *share) stateName() string {
	if c.empty() {
		return "Empty"
	}
	return "Stable"
}

func noConsumerGroup(id string) *failure {
	return fail(kerr.GroupIDNotFound, "Group %s is not a consumer group.", id)
}

// loaded implements kind: it starts the members' sessions, and continues what was begun with share
// coordinators.
func (c *share) loaded(s *Shard, g *group) {
	for _, m := range c.members {
		s.setTimer(timerSession, g.id, m.id, s.timesOf(g).Share.Session)
	}
	c.dirty = true // since the records were written
	for id, t := range c.states.initializing {
		if t.added {
			c.added[id] = t.first
		}
	}
	if c.states.unfinished() {
		s.setTimer(timerShares, g.id, "", 0)
	}
}

// fire implements kind: it removes a member whose time is over, computes a pending target, or
// continues with share coordinators.
func (c *share) fire(s *Shard, g *group, key coordinator.TimerKey) {
	switch key.Kind {
	case timerTarget:
		s.updateShareTarget(g)
	case timerShares:
		c.waits = false
		s.continueStates(g)
	default:
		if m := c.members[key.Part]; m != nil {
			s.removeShareMember(g, m)
		}
	}
}

// noteAdded notes the partitions that topics of the group have got, and topics that its members
// already subscribe to. before are the topics before the change.
func (c *share) noteAdded(before Topics, e TopicsChanged) {
	names := e.Changed
	if e.All {
		names = slices.Collect(maps.Keys(c.subscribed()))
		for _, t := range c.states.initialized {
			names = append(names, t.name)
		}
	}
	for _, name := range names {
		now, exists := e.Topics.ByName(name)
		if !exists || now.Internal {
			continue
		}
		_, reads := c.subscribed()[name]
		first := int32(0)
		if old, existed := before.ByName(name); existed && old.ID == now.ID {
			first = old.Partitions
			reads = reads || c.states.initialized[now.ID] != nil
		}
		if known, has := c.added[now.ID]; reads && first < now.Partitions && (!has || first < known) {
			c.added[now.ID], c.searched = first, false
		}
	}
	maps.DeleteFunc(c.added, func(id assign.TopicID, _ int32) bool {
		_, exists := e.Topics.ByID(id)
		return !exists
	})
}

// noteMissed notes the partitions that topics have got while no coordinator was loaded: those above
// all that have a state, of topics that members subscribe to. Of these, all partitions get states
// together.
func (c *share) noteMissed(topics Topics) {
	for name := range c.subscribed() {
		now, exists := topics.ByName(name)
		if !exists || now.Internal {
			continue
		}
		first := int32(0)
		for _, all := range []map[assign.TopicID]*topicStates{c.states.initializing, c.states.initialized} {
			if t := all[now.ID]; t != nil {
				first = max(first, t.partitions[len(t.partitions)-1]+1)
			}
		}
		if _, known := c.added[now.ID]; !known && first > 0 && first < now.Partitions {
			c.added[now.ID], c.searched = first, false
		}
	}
}

// complete forgets what was added to a topic all of whose partitions have states.
func (c *share) complete(id assign.TopicID, partitions int32) {
	if t := c.states.initialized[id]; t != nil && len(t.partitions) == int(partitions) {
		delete(c.added, id)
	}
}

func (c *share) topicsChanged(e TopicsChanged) {
	if e.All || slices.ContainsFunc(e.Changed, contains(c.subscribed())) {
		c.dirty, c.searched = true, false
	}
}

// removeRecords implements kind. The states of the group are deleted already.
func (c *share) removeRecords(s *Shard, g *group) {
	s.cancelTimer(timerTarget, g.id, "")
	s.cancelTimer(timerShares, g.id, "")
	s.endWaits(c)
	for _, m := range c.list() {
		s.dropShareMember(g, m)
	}
	for _, t := range []format.Type{format.TypeShareEpoch, format.TypeShareStates, format.TypeShare} {
		s.emit(format.Key{Type: t, Group: g.id}, nil)
	}
}

// DescribeShares describes share groups. The response is a []kmsg.ShareGroupDescribeResponseGroup.
type DescribeShares struct {
	Groups []string
}

func (s *Shard) describeShares(e DescribeShares) []kmsg.ShareGroupDescribeResponseGroup {
	list := make([]kmsg.ShareGroupDescribeResponseGroup, 0, len(e.Groups))
	for _, id := range e.Groups {
		r := kmsg.NewShareGroupDescribeResponseGroup()
		r.GroupID = id
		c, f := named(s, id, (*group).share, "share")
		if f == nil {
			s.describeShare(c, &r)
		}
		r.ErrorCode, r.ErrorMessage = f.errorCode(), f.message()
		list = append(list, r)
	}
	return list
}

func (s *Shard) describeShare(c *share, r *kmsg.ShareGroupDescribeResponseGroup) {
	r.GroupState, r.GroupEpoch, r.AssignmentEpoch, r.Assignor = c.stateName(), c.epoch, c.targetEpoch, assign.SimpleAssignor
	for _, m := range c.list() {
		d := kmsg.NewShareGroupDescribeResponseGroupMember()
		d.MemberID, d.RackID, d.MemberEpoch = m.id, m.meta.Rack, m.epoch
		d.ClientID, d.ClientHost, d.SubscribedTopicNames = m.meta.ClientID, m.meta.ClientHost, slices.Clone(m.meta.Topics)
		for _, t := range s.described(m.assigned).TopicPartitions {
			p := kmsg.NewShareGroupDescribeResponseGroupMemberAssignmentTopicPartition()
			p.TopicID, p.Topic, p.Partitions = t.TopicID, t.Topic, t.Partitions
			d.Assignment.TopicPartitions = append(d.Assignment.TopicPartitions, p)
		}
		r.Members = append(r.Members, d)
	}
}
