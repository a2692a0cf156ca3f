package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// DescribeStreams describes streams groups. The response is a
// []kmsg.StreamsGroupDescribeResponseGroup.
type DescribeStreams struct {
	Groups []string
}

func (s *Shard) describeStreams(e DescribeStreams) []kmsg.StreamsGroupDescribeResponseGroup {
	list := make([]kmsg.StreamsGroupDescribeResponseGroup, 0, len(e.Groups))
	for _, id := range e.Groups {
		r := kmsg.NewStreamsGroupDescribeResponseGroup()
		r.Group = id
		c, f := named(s, id, (*group).streams, "streams")
		if f == nil {
			s.describeTasks(c, &r)
		}
		r.ErrorCode, r.ErrorMessage = f.errorCode(), f.message()
		list = append(list, r)
	}
	return list
}

func (s *Shard) describeTasks(c *streams, r *kmsg.StreamsGroupDescribeResponseGroup) {
	r.State, r.Epoch, r.AssignmentEpoch = c.stateName(), c.epoch, c.goal()
	r.AssignorName = new(assign.TaskAssignor)
	t := kmsg.NewStreamsGroupDescribeResponseGroupTopology()
	t.Subtopologies = []kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology{}
	if c.topology != nil {
		t.Epoch = c.topology.Epoch
		for i := range c.topology.Subtopologies {
			t.Subtopologies = append(t.Subtopologies, s.describeSubtopology(c, i))
		}
	}
	r.Topology = &t
	for _, m := range c.list() {
		r.Members = append(r.Members, describeStreamsMember(m, c.target[m.id]))
	}
}

// describeSubtopology describes a subtopology, with the numbers of partitions if they are known.
// The lists of names are copies: who gets the answer may append to them, in another goroutine.
func (s *Shard) describeSubtopology(c *streams, i int) kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology {
	sub := &c.topology.Subtopologies[i]
	changelogs, repartitions := sub.Changelogs, sub.RepartitionSources
	if !s.topicsUnknown() {
		if known := s.configure(c).Subtopologies; known != nil {
			changelogs, repartitions = known[i].Changelogs, known[i].RepartitionSources
		}
	}
	d := kmsg.NewStreamsGroupDescribeResponseGroupTopologySubtopology()
	d.SubtopologyID = sub.ID
	d.SourceTopics, d.RepartitionSinkTopics = slices.Clone(sub.SourceTopics), slices.Clone(sub.RepartitionSinks)
	d.StateChangelogTopics, d.RepartitionSourceTopics = describedTopics(changelogs), describedTopics(repartitions)
	return d
}

func describedTopics(list []format.InternalTopic) (topics []kmsg.TopicInfo) {
	for _, x := range list {
		t := kmsg.NewTopicInfo()
		t.Topic, t.NumPartitions, t.ReplicationFactor = x.Name, x.Partitions, x.ReplicationFactor
		for _, c := range x.Configs {
			t.Configs = append(t.Configs, kmsg.TopicInfoConfig{Key: c.Key, Value: c.Value})
		}
		topics = append(topics, t)
	}
	return topics
}

func describeStreamsMember(m *streamsMember, target assign.Tasks) kmsg.StreamsGroupDescribeResponseGroupMember {
	d := kmsg.NewStreamsGroupDescribeResponseGroupMember()
	d.MemberID, d.MemberEpoch, d.InstanceID, d.RackID = m.id, m.epoch, m.meta.Instance, m.meta.Rack
	d.ClientID, d.ClientHost, d.TopologyEpoch, d.ProcessID = m.meta.ClientID, m.meta.ClientHost, m.meta.TopologyEpoch, m.meta.Process
	if e := m.meta.Endpoint; e != nil {
		d.UserEndpoint = &kmsg.StreamsGroupDescribeResponseGroupMemberUserEndpoint{Host: e.Host, Port: e.Port}
	}
	for _, t := range m.meta.Tags {
		d.ClientTags = append(d.ClientTags, kmsg.StreamsGroupDescribeResponseGroupMemberClientTag{Key: t.Key, Value: t.Value})
	}
	d.Assignment, d.TargetAssignment = describedTasks(m.assigned.tasks()), describedTasks(target)
	return d
}

func describedTasks(t assign.Tasks) kmsg.StreamsAssignment {
	a := kmsg.NewStreamsAssignment()
	a.ActiveTasks, a.StandbyTasks = taskIDs(t.Active), taskIDs(t.Standby)
	return a
}
