package service

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/protocol"
	views "github.com/chronik-io/chronik/internal/view"
)

// Describe describes a group. It returns false if no group has that id. It waits for the group's
// shard until ctx ends and then returns ctx's error. It returns the errors of Submit, such as
// coordinator.ErrLoading, or coordinator.ErrNotCoordinator if another broker leads the shard.
func (c *Groups) Describe(ctx context.Context, id string) (*views.Group, bool, error) {
	shard, ok := c.Partition(id)
	if !ok {
		return nil, false, nil
	}
	d, found := &views.Group{ID: id}, false
	for _, event := range []any{group.Describe{Groups: []string{id}, Version: 6}, group.DescribeConsumers{Groups: []string{id}},
		group.DescribeStreams{Groups: []string{id}}, group.Committed{}} {
		answer, err := c.ask(ctx, shard, event)
		if err != nil {
			return nil, false, err
		}
		switch list := answer.(type) {
		case []kmsg.DescribeGroupsResponseGroup:
			found = classicGroup(d, list) || found
		case []kmsg.ConsumerGroupDescribeResponseGroup:
			found = consumerGroup(d, list) || found
		case []kmsg.StreamsGroupDescribeResponseGroup:
			found = streamsGroup(d, list) || found
		case []group.CommittedOffset:
			c.addOffsets(d, list)
		}
	}
	return d, found, nil
}

// ask waits for a shard's response to an event.
func (c *Groups) ask(ctx context.Context, shard int32, event any) (any, error) {
	type outcome struct {
		answer any
		err    error
	}
	done := make(chan outcome, 1) // the response may come after ctx has ended
	c.SubmitTo(shard, event, func(answer any, err error) { done <- outcome{answer, err} })
	select {
	case x := <-done:
		return x.answer, x.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func classicGroup(d *views.Group, list []kmsg.DescribeGroupsResponseGroup) bool {
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

func consumerGroup(d *views.Group, list []kmsg.ConsumerGroupDescribeResponseGroup) bool {
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
func streamsGroup(d *views.Group, list []kmsg.StreamsGroupDescribeResponseGroup) bool {
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

func newGroupMember(id string, instance *string, clientID, host string) views.GroupMember {
	m := views.GroupMember{ID: id, ClientID: clientID, Host: strings.TrimPrefix(host, "/")}
	if instance != nil {
		m.Instance = *instance
	}
	return m
}

// addOffsets adds the offsets of a group, out of all offsets of its shard.
func (c *Groups) addOffsets(g *views.Group, all []group.CommittedOffset) {
	high := c.newHighs()
	for i := range all {
		if all[i].Group == g.ID {
			g.Add(high.of(&all[i]))
		}
	}
	slices.SortFunc(g.Offsets, func(a, b views.GroupOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// highWatermark returns the high watermark of a partition that this broker leads, -1 for any other.
func (c *Groups) highWatermark(tp metadata.TopicPartition) int64 {
	p, err := c.opt.Replicas.Partition(tp.Topic, tp.Partition)
	if err != nil {
		return -1
	}
	if leader, _ := p.Leader(); leader != c.opt.Self {
		return -1
	}
	return p.Ends().HighWatermark
}
