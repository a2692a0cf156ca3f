package service

import (
	"cmp"
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

// Describe describes a group. It returns false if no group has that id. It waits for the group's
// shard until ctx ends and then returns ctx's error. It returns the errors of Submit, such as
// coordinator.ErrLoading, or coordinator.ErrNotCoordinator if another broker leads the shard.
func (c *Groups) Describe(ctx context.Context, id string) (*view.Group, bool, error) {
	shard, ok := c.Partition(id)
	if !ok {
		return nil, false, nil
	}
	d, found := &view.Group{ID: id}, false
	for _, event := range []any{group.Describe{Groups: []string{id}, Version: 6}, group.DescribeConsumers{Groups: []string{id}},
		group.DescribeStreams{Groups: []string{id}}, group.DescribeShares{Groups: []string{id}}, group.Committed{}} {
		answer, err := collect[any](ctx, c.Service, []int32{shard}, event)
		if err != nil {
			return nil, false, err
		}
		switch list := answer[0].(type) {
		case []kmsg.DescribeGroupsResponseGroup:
			found = classicGroup(d, list) || found
		case []kmsg.ConsumerGroupDescribeResponseGroup:
			found = consumerGroup(d, list) || found
		case []kmsg.StreamsGroupDescribeResponseGroup:
			found = streamsGroup(d, list) || found
		case []kmsg.ShareGroupDescribeResponseGroup:
			found = shareGroup(d, list) || found
		case []group.CommittedOffset:
			c.addOffsets(d, list)
		}
	}
	if d.Kind == "share" {
		c.AddPositions(ctx, []*view.Group{d})
	}
	return d, found, nil
}

func classicGroup(d *view.Group, list []kmsg.DescribeGroupsResponseGroup) bool {
	if len(list) != 1 || list[0].ErrorCode != 0 {
		return false
	}
	g := &list[0]
	d.Kind, d.State, d.Assignor = "classic", g.State, g.Protocol
	for i := range g.Members {
		m := &g.Members[i]
		member := newGroupMember(m.MemberID, m.InstanceID, m.ClientID, m.ClientHost)
		if g.ProtocolType == "consumer" && len(m.MemberAssignment) > 0 {
			if a, err := protocol.DecodeAssignment(m.MemberAssignment); err == nil { // a client may send anything
				member.Assigned = map[string][]int32{}
				for _, t := range a.Topics {
					member.Assigned[t.Topic] = append(member.Assigned[t.Topic], t.Partitions...)
				}
			}
		}
		d.Members = append(d.Members, member)
	}
	return true
}

func consumerGroup(d *view.Group, list []kmsg.ConsumerGroupDescribeResponseGroup) bool {
	if len(list) != 1 || list[0].ErrorCode != 0 {
		return false
	}
	g := &list[0]
	d.Kind, d.State, d.Assignor = "consumer", g.State, g.AssignorName
	for i := range g.Members {
		m := &g.Members[i]
		member := newGroupMember(m.MemberID, m.InstanceID, m.ClientID, m.ClientHost)
		member.Assigned = map[string][]int32{}
		for _, t := range m.Assignment.TopicPartitions {
			member.Assigned[t.Topic] = t.Partitions
		}
		d.Members = append(d.Members, member)
	}
	return true
}

// streamsGroup describes a streams group. A member is assigned the partitions that its active tasks
// read.
func streamsGroup(d *view.Group, list []kmsg.StreamsGroupDescribeResponseGroup) bool {
	if len(list) != 1 || list[0].ErrorCode != 0 {
		return false
	}
	g := &list[0]
	d.Kind, d.State = "streams", g.State
	sources := map[string][]string{}
	for i := range g.Topology.Subtopologies {
		s := &g.Topology.Subtopologies[i]
		sources[s.SubtopologyID] = s.SourceTopics
		for _, r := range s.RepartitionSourceTopics {
			sources[s.SubtopologyID] = append(sources[s.SubtopologyID], r.Topic)
		}
	}
	for i := range g.Members {
		m := &g.Members[i]
		member := newGroupMember(m.MemberID, m.InstanceID, m.ClientID, m.ClientHost)
		member.Assigned = map[string][]int32{}
		for _, t := range m.Assignment.ActiveTasks {
			for _, topic := range sources[t.SubtopologyID] {
				member.Assigned[topic] = append(member.Assigned[topic], t.Partitions...)
			}
		}
		d.Members = append(d.Members, member)
	}
	return true
}

func shareGroup(d *view.Group, list []kmsg.ShareGroupDescribeResponseGroup) bool {
	if len(list) != 1 || list[0].ErrorCode != 0 {
		return false
	}
	g := &list[0]
	d.Kind, d.State, d.Assignor = "share", g.GroupState, g.Assignor
	for i := range g.Members {
		m := &g.Members[i]
		member := newGroupMember(m.MemberID, nil, m.ClientID, m.ClientHost)
		member.Assigned = map[string][]int32{}
		for _, t := range m.Assignment.TopicPartitions {
			member.Assigned[t.Topic] = t.Partitions
		}
		d.Members = append(d.Members, member)
	}
	return true
}

func newGroupMember(id string, instance *string, clientID, host string) view.GroupMember {
	m := view.GroupMember{ID: id, ClientID: clientID, Host: strings.TrimPrefix(host, "/")}
	if instance != nil {
		m.Instance = *instance
	}
	return m
}

// addOffsets adds the offsets of a group, out of all offsets of its shard.
func (c *Groups) addOffsets(g *view.Group, all []group.CommittedOffset) {
	bounds := c.newBounds()
	for i := range all {
		if all[i].Group == g.ID {
			g.Add(bounds.of(&all[i]))
		}
	}
	sorts.Sort(g.Offsets, func(a, b view.GroupOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// boundsOf returns where the log of a partition begins that this broker leads, and its high
// watermark. Both are -1 for any other partition and while the log is offline.
func (c *Groups) boundsOf(tp metadata.TopicPartition) bound {
	unknown := bound{-1, -1}
	p, err := c.opt.Replicas.Partition(tp.Topic, tp.Partition)
	if err != nil {
		return unknown
	}
	if leader, _ := p.Leader(); leader != c.opt.Self {
		return unknown
	}
	e, err := p.Readable()
	if err != nil {
		return unknown
	}
	return bound{e.LogStart, e.HighWatermark}
}
