package group

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// FetchOffsets fetches committed offsets of groups, as OffsetFetch from version 8 on does. Topics
// have names, and ids if those are known; nil Topics selects all. The response is a
// []kmsg.OffsetFetchResponseGroup, with the topic ids that were recorded with the offsets.
//
// If RequireStable is set, partitions with pending offsets get UNSTABLE_OFFSET_COMMIT, and are part
// of all offsets of a group: a consumer that begins there would read again what the transaction has
// read.
type FetchOffsets struct {
	Groups        []kmsg.OffsetFetchRequestGroup
	RequireStable bool
}

func (s *Shard) fetchOffsets(e FetchOffsets) []kmsg.OffsetFetchResponseGroup {
	list := make([]kmsg.OffsetFetchResponseGroup, len(e.Groups))
	for i := range e.Groups {
		list[i] = s.fetchGroup(&e.Groups[i], e.RequireStable && !s.cfg.Broken.Has(ReadUnstable))
	}
	return list
}

func (s *Shard) fetchGroup(want *kmsg.OffsetFetchRequestGroup, stable bool) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = want.Group
	g := s.groups[want.Group]
	if g != nil {
		f := noConsumerGroup(want.Group)
		if k, keeps := g.kind.(offsetKeeper); keeps {
			f = k.checkFetch(want)
		}
		if f != nil {
			resp.ErrorCode = f.errorCode()
			return resp
		}
	}
	if want.Topics == nil {
		if g != nil {
			for _, name := range s.topicsWithOffsets(g, stable) {
				if shown := s.partitionsWithOffsets(g, name, stable); len(shown) > 0 {
					s.fetchTopic(&resp, g, name, [16]byte{}, shown, stable)
				}
			}
		}
		return resp
	}
	for _, t := range want.Topics {
		s.fetchTopic(&resp, g, t.Topic, t.TopicID, t.Partitions, stable)
	}
	return resp
}

// fetchTopic appends one topic. g may be nil.
func (s *Shard) fetchTopic(resp *kmsg.OffsetFetchResponseGroup, g *group, name string, id [16]byte, partitions []int32, stable bool) {
	t := kmsg.NewOffsetFetchResponseGroupTopic()
	t.Topic, t.TopicID = name, id
	for _, i := range partitions {
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = i, -1, -1, kmsg.StringPtr("")
		if stable && s.unstable(g, name, i) {
			p.ErrorCode = kerr.UnstableOffsetCommit.Code
		} else if o, ok := s.offset(g, name, i); ok {
			p.Offset, p.LeaderEpoch, p.Metadata = o.Offset, o.LeaderEpoch, kmsg.StringPtr(o.Metadata)
			if t.TopicID == ([16]byte{}) {
				t.TopicID = o.Topic
			}
		}
		t.Partitions = append(t.Partitions, p)
	}
	resp.Topics = append(resp.Topics, t)
}

// offset returns the committed offset of a partition. Offsets of a deleted topic are not returned
// for a new topic with the same name.
func (s *Shard) offset(g *group, topic string, partition int32) (format.Offset, bool) {
	if g == nil {
		return format.Offset{}, false
	}
	o, ok := g.offsets[topic][partition]
	return o, ok && s.shown(topic, o)
}

// shown reports whether an offset is one of the current topic of that name.
func (s *Shard) shown(topic string, o format.Offset) bool {
	now, exists := s.topics.ByName(topic)
	if exists && o.Topic == now.ID {
		return true
	}
	_, deleted := s.changes.deleted[topic] // its tombstones are not written yet
	return !deleted && !(exists && o.Topic != [16]byte{})
}

// topicsWithOffsets returns the topics for which a group has committed offsets, sorted. With
// pending set, also those for which it has only pending ones.
func (s *Shard) topicsWithOffsets(g *group, pending bool) []string {
	topics := slices.Collect(maps.Keys(g.offsets))
	if pending {
		topics = slices.AppendSeq(topics, maps.Keys(g.pending))
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// partitionsWithOffsets returns the partitions of a topic that have committed offsets, sorted. With
// pending set, also those that have only pending ones.
func (s *Shard) partitionsWithOffsets(g *group, topic string, pending bool) (partitions []int32) {
	for p := range g.offsets[topic] {
		if _, ok := s.offset(g, topic, p); ok {
			partitions = append(partitions, p)
		}
	}
	for p := range g.pending[topic] {
		if pending && s.unstable(g, topic, p) {
			partitions = append(partitions, p)
		}
	}
	slices.Sort(partitions)
	return slices.Compact(partitions)
}

// checkFetch implements offsetKeeper: any client may fetch the offsets of a classic group.
func (c *classic) checkFetch(*kmsg.OffsetFetchRequestGroup) *failure { return nil }

func (c *consumer) checkFetch(req *kmsg.OffsetFetchRequestGroup) *failure {
	if req.MemberID == nil && req.MemberEpoch < 0 {
		return nil // an administrator, or a client that does not name a member
	}
	m := c.members[deref(req.MemberID)]
	switch {
	case m == nil:
		return refuse(kerr.UnknownMemberID)
	case m.epoch == req.MemberEpoch:
		return nil
	}
	return m.stale()
}

// Committed returns all committed offsets, for lag metrics. The response is a []CommittedOffset.
type Committed struct{}

// CommittedOffset is one committed offset.
type CommittedOffset struct {
	Group, Topic string
	TopicID      [16]byte // zero: not known
	Partition    int32
	Offset       int64
}

func (s *Shard) committed() []CommittedOffset {
	var list []CommittedOffset
	for _, g := range s.groups {
		for topic, partitions := range g.offsets {
			for p := range partitions {
				if o, ok := s.offset(g, topic, p); ok {
					list = append(list, CommittedOffset{Group: g.id, Topic: topic, TopicID: o.Topic, Partition: p, Offset: o.Offset})
				}
			}
		}
	}
	return list
}
