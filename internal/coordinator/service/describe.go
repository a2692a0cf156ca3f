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
)

// GroupDescription is the current state of one group, with its members and offsets.
type GroupDescription struct {
	Kind, State, Assignor string // Kind: "classic", "consumer" or "streams"
	Members               []GroupMember
	Offsets               []GroupOffset // sorted by topic and partition
}

// GroupMember is a member of a group.
type GroupMember struct {
	ID, Instance, ClientID, Host string
	Assigned                     map[string][]int32 // by topic; nil if the assignment is not a consumer's
}

// GroupOffset is a committed offset. End is the partition's high watermark, or -1 if this broker
// does not lead the partition.
type GroupOffset struct {
	Topic          string
	Partition      int32
	Committed, End int64
}

// Describe describes a group. It returns false if no group has that id. It waits for the group's
// shard until ctx ends and then returns ctx's error. It returns the errors of Submit, such as
// coordinator.ErrLoading, or coordinator.ErrNotCoordinator if another broker leads the shard.
func (c *Groups) Describe(ctx context.Context, id string) (*GroupDescription, bool, error) {
	shard, ok := c.Partition(id)
	if !ok {
		return nil, false, nil
	}
	d, found := &GroupDescription{}, false
	for _, event := range []any{group.Describe{Groups: []string{id}, Version: 6}, group.DescribeConsumers{Groups: []string{id}},
		group.DescribeStreams{Groups: []string{id}}, group.Committed{}} {
		answer, err := c.ask(ctx, shard, event)
		if err != nil {
			return nil, false, err
		}
		switch list := answer.(type) {
		case []kmsg.DescribeGroupsResponseGroup:
			found = d.classic(list) || found
		case []kmsg.ConsumerGroupDescribeResponseGroup:
			found = d.consumer(list) || found
		case []kmsg.StreamsGroupDescribeResponseGroup:
			found = d.streams(list) || found
		case []group.CommittedOffset:
			d.Offsets = c.offsetsOf(id, list)
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

func (d *GroupDescription) classic(list []kmsg.DescribeGroupsResponseGroup) bool {
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

func (d *GroupDescription) consumer(list []kmsg.ConsumerGroupDescribeResponseGroup) bool {
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

// streams describes a streams group. A member is assigned the partitions that its active tasks
// read.
func (d *GroupDescription) streams(list []kmsg.StreamsGroupDescribeResponseGroup) bool {
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

func newGroupMember(id string, instance *string, clientID, host string) GroupMember {
	m := GroupMember{ID: id, ClientID: clientID, Host: strings.TrimPrefix(host, "/")}
	if instance != nil {
		m.Instance = *instance
	}
	return m
}

// offsetsOf returns one group's offsets, out of all offsets of its shard.
func (c *Groups) offsetsOf(id string, all []group.CommittedOffset) []GroupOffset {
	var list []GroupOffset
	img := c.Image()
	for _, o := range all {
		if o.Group != id {
			continue
		}
		x := GroupOffset{Topic: o.Topic, Partition: o.Partition, Committed: o.Offset, End: -1}
		if t := img.Topic(o.Topic); t != nil {
			x.End = c.highWatermark(metadata.TopicPartition{Topic: t.ID, Partition: o.Partition})
		}
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b GroupOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return list
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
