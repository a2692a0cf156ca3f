package group

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
)

// List lists groups. The response is a []kmsg.ListGroupsResponseGroup.
type List struct {
	States, Types Filter
}

// Filter are words in lower case; nil: all.
type Filter map[string]bool

// FilterOf returns the filter of a request. All shards share it: a request may have very many
// words.
func FilterOf(words []string) Filter {
	if len(words) == 0 {
		return nil
	}
	f := make(Filter)
	for _, w := range words {
		f[strings.ToLower(w)] = true
	}
	return f
}

func (f Filter) has(word string) bool { return f == nil || f[strings.ToLower(word)] }

func (s *Shard) list(e List) []kmsg.ListGroupsResponseGroup {
	list := []kmsg.ListGroupsResponseGroup{}
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[id]
		r := kmsg.NewListGroupsResponseGroup()
		r.Group = id
		r.GroupType, r.ProtocolType, r.GroupState = g.kind.listed()
		if e.States.has(r.GroupState) && e.Types.has(r.GroupType) {
			list = append(list, r)
		}
	}
	return list
}

// Describe describes classic groups. The response is a []kmsg.DescribeGroupsResponseGroup.
type Describe struct {
	Groups  []string
	Version int16 // of the request: before version 6, an unknown group is described as Dead
}

func (s *Shard) describe(e Describe) []kmsg.DescribeGroupsResponseGroup {
	list := make([]kmsg.DescribeGroupsResponseGroup, 0, len(e.Groups))
	for _, id := range e.Groups {
		r := kmsg.NewDescribeGroupsResponseGroup()
		r.Group = id
		g := s.groups[id]
		if g != nil && g.classic() != nil {
			g.classic().describe(&r)
			list = append(list, r)
			continue
		}
		r.State = "Dead"
		if e.Version >= 6 {
			f := unknownGroup(id)
			if g != nil {
				f = fail(kerr.GroupIDNotFound, "Group %s is not a classic group.", id)
			}
			r.ErrorCode, r.ErrorMessage = f.errorCode(), f.message()
		}
		list = append(list, r)
	}
	return list
}

// describe includes the members' data only while the group is stable.
func (c *classic) describe(r *kmsg.DescribeGroupsResponseGroup) {
	r.State, r.ProtocolType = c.state.String(), c.protocolType
	if c.state == stable {
		r.Protocol = c.protocol
	}
	for _, m := range c.list() {
		d := kmsg.NewDescribeGroupsResponseGroupMember()
		d.MemberID, d.InstanceID, d.ClientID, d.ClientHost = m.id, ptr(m.instance), m.clientID, m.clientHost
		d.MemberAssignment = m.assignment // it is replaced, and never changed, as metadata are
		if c.state == stable {
			d.ProtocolMetadata = m.metadata(c.protocol)
		}
		r.Members = append(r.Members, d)
	}
}

// named returns the group of an id as one of a kind, or why there is none.
func named[K any](s *Shard, id string, of func(*group) *K, kind string) (*K, *failure) {
	g := s.groups[id]
	switch {
	case id == "":
		return nil, refuse(kerr.InvalidGroupID)
	case g == nil:
		return nil, unknownGroup(id)
	case of(g) == nil:
		return nil, fail(kerr.GroupIDNotFound, "Group %s is not a %s group.", id, kind)
	}
	return of(g), nil
}

// DescribeConsumers describes consumer groups. The response is a
// []kmsg.ConsumerGroupDescribeResponseGroup.
type DescribeConsumers struct {
	Groups []string
}

func (s *Shard) describeConsumers(e DescribeConsumers) []kmsg.ConsumerGroupDescribeResponseGroup {
	list := make([]kmsg.ConsumerGroupDescribeResponseGroup, 0, len(e.Groups))
	for _, id := range e.Groups {
		r := kmsg.NewConsumerGroupDescribeResponseGroup()
		r.Group = id
		c, f := named(s, id, (*group).consumer, "consumer")
		if f == nil {
			s.describeConsumer(c, &r)
		}
		r.ErrorCode, r.ErrorMessage = f.errorCode(), f.message()
		list = append(list, r)
	}
	return list
}

func (s *Shard) describeConsumer(c *consumer, r *kmsg.ConsumerGroupDescribeResponseGroup) {
	r.State, r.Epoch, r.AssignmentEpoch, r.AssignorName = c.stateName(), c.epoch, c.targetEpoch, s.assignor(c)
	for _, m := range c.list() {
		d := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		d.MemberID, d.InstanceID, d.RackID, d.MemberEpoch = m.id, m.meta.Instance, m.meta.Rack, m.epoch
		d.ClientID, d.ClientHost = m.meta.ClientID, m.meta.ClientHost
		expression, _ := unbind(deref(m.meta.Regex))
		d.SubscribedTopics, d.SubscribedTopicRegex = slices.Clone(m.meta.Topics), &expression
		d.Assignment, d.TargetAssignment = s.described(m.assigned.assignment()), s.described(c.target[m.id])
		if d.MemberType = 1; m.classic() {
			d.MemberType = 0
		}
		r.Members = append(r.Members, d)
	}
}

func (s *Shard) described(a assign.Assignment) kmsg.Assignment {
	out := kmsg.NewAssignment()
	for _, id := range a.Topics() {
		if topic, ok := s.topics.ByID(id); ok {
			t := kmsg.NewAssignmentTopicPartition()
			t.TopicID, t.Topic, t.Partitions = id, topic.Name, slices.Clone(a[id])
			out.TopicPartitions = append(out.TopicPartitions, t)
		}
	}
	return out
}
