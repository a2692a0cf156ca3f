package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
)

// OffsetFetch (key 9), versions 1 to 10: the committed offsets of one group, or of several from
// version 8 on. Version 10 names topics by id. With require_stable (version 7), partitions whose
// offset is part of an open transaction get UNSTABLE_OFFSET_COMMIT.
func offsetFetchAPI() api {
	return apiDef[*kmsg.OffsetFetchRequest]{
		API: protocol.API{Key: int16(kmsg.OffsetFetch), Min: 1, Max: 10, MaxCost: maxOffsetFetch},
		needs: func(req *kmsg.OffsetFetchRequest, n *needs) {
			groups := req.Groups
			if req.Version < 8 {
				groups = []kmsg.OffsetFetchRequestGroup{oldFetch(req)}
			}
			for i := range groups {
				n.group(opDescribe, groups[i].Group)
				if groups[i].Topics == nil {
					n.allTopics()
				}
				for _, t := range groups[i].Topics {
					n.topicRef(opDescribe, req.Version >= 10, t.Topic, t.TopicID)
				}
			}
		},
		overloaded: kerr.CoordinatorNotAvailable,
		handle:     offsetFetch,
	}.api()
}

// maxOffsetFetch bounds how many groups one request may name: each takes a µs of its shard and an
// entry in the answer. A request may name 80,000 groups, or 300,000 partitions.
const maxOffsetFetch = 14 << 20

func offsetFetch(c call, req *kmsg.OffsetFetchRequest) {
	b, r := c.b, c.r
	if req.Version < 8 {
		b.fetchOffsets([]kmsg.OffsetFetchRequestGroup{oldFetch(req)}, req.RequireStable, func(got []kmsg.OffsetFetchResponseGroup) {
			r.Code = got[0].ErrorCode
			c.respond(oldFetched(r, req, &got[0]))
		})
		return
	}
	fetch := b.fetchOffsets
	if req.Version >= 10 {
		fetch = b.fetchByID
	}
	fetch(onceAll(req.Groups), req.RequireStable, func(got []kmsg.OffsetFetchResponseGroup) {
		resp := respondTo(r, kmsg.NewPtrOffsetFetchResponse())
		resp.Groups = got
		for i := range got {
			if got[i].ErrorCode != 0 {
				r.Code = got[i].ErrorCode
			}
		}
		c.respond(resp)
	})
}

// onceAll drops repeated entries that ask for all offsets of a group: an entry of a few bytes may
// have a large answer.
func onceAll(groups []kmsg.OffsetFetchRequestGroup) []kmsg.OffsetFetchRequestGroup {
	all := map[string]bool{}
	return slices.DeleteFunc(groups, func(g kmsg.OffsetFetchRequestGroup) bool {
		again := g.Topics == nil && all[g.Group]
		all[g.Group] = all[g.Group] || g.Topics == nil
		return again
	})
}

// fetchOffsets asks the shards of groups. done receives an answer for each.
func (b *Broker) fetchOffsets(want []kmsg.OffsetFetchRequestGroup, stable bool, done func([]kmsg.OffsetFetchResponseGroup)) {
	ids := make([]string, len(want))
	for i := range want {
		ids[i] = want[i].Group
	}
	perShard(b, b.opt.Groups, ids, func(places []int) any {
		e := group.FetchOffsets{Groups: make([]kmsg.OffsetFetchRequestGroup, len(places)), RequireStable: stable}
		for k, i := range places {
			e.Groups[k] = want[i]
		}
		return e
	}, func(id string, code *kerr.Error) kmsg.OffsetFetchResponseGroup {
		got := kmsg.NewOffsetFetchResponseGroup()
		got.Group, got.ErrorCode = id, code.Code
		return got
	}, done)
}

// fetchByID is fetchOffsets for topics with ids. If all offsets are requested, it leaves out those
// of deleted topics, which have no meaningful id.
func (b *Broker) fetchByID(want []kmsg.OffsetFetchRequestGroup, stable bool, done func([]kmsg.OffsetFetchResponseGroup)) {
	img := b.image()
	unknown := make([][]kmsg.OffsetFetchResponseGroupTopic, len(want))
	for i := range want {
		unknown[i] = nameTopics(img, &want[i])
	}
	b.fetchOffsets(want, stable, func(got []kmsg.OffsetFetchResponseGroup) {
		for i := range got {
			if want[i].Topics == nil {
				got[i].Topics = withIDs(img, got[i].Topics)
			} else if got[i].ErrorCode == 0 {
				got[i].Topics = append(got[i].Topics, unknown[i]...)
			}
		}
		done(got)
	})
}

// nameTopics sets the names of the topics that a group is asked for. It removes those that do not
// exist and returns their answers.
func nameTopics(img *metadata.Image, want *kmsg.OffsetFetchRequestGroup) (unknown []kmsg.OffsetFetchResponseGroupTopic) {
	if want.Topics == nil {
		return nil
	}
	known := make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(want.Topics))
	for _, t := range want.Topics {
		if topic := img.TopicByID(t.TopicID); topic != nil {
			t.Topic = topic.Name
			known = append(known, t)
		} else {
			unknown = append(unknown, notFetched(t.TopicID, t.Partitions))
		}
	}
	want.Topics = known
	return unknown
}

func withIDs(img *metadata.Image, topics []kmsg.OffsetFetchResponseGroupTopic) []kmsg.OffsetFetchResponseGroupTopic {
	var list []kmsg.OffsetFetchResponseGroupTopic
	for _, t := range topics {
		if now := img.Topic(t.Topic); now != nil {
			t.TopicID = now.ID
			list = append(list, t)
		}
	}
	return list
}

func notFetched(id [16]byte, partitions []int32) kmsg.OffsetFetchResponseGroupTopic {
	t := kmsg.NewOffsetFetchResponseGroupTopic()
	t.TopicID = id
	for _, i := range partitions {
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = i, -1, -1, kmsg.StringPtr(""), kerr.UnknownTopicID.Code
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

// oldFetch converts a request of versions up to 7, which have one group.
func oldFetch(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	want := kmsg.NewOffsetFetchRequestGroup()
	want.Group = req.Group
	if req.Topics != nil {
		want.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(req.Topics))
	}
	for _, t := range req.Topics {
		one := kmsg.NewOffsetFetchRequestGroupTopic()
		one.Topic, one.Partitions = t.Topic, t.Partitions
		want.Topics = append(want.Topics, one)
	}
	return want
}

// oldFetched converts the answer to those versions. Version 1 has an error for every partition and
// none for the whole.
func oldFetched(r *network.Request, req *kmsg.OffsetFetchRequest, got *kmsg.OffsetFetchResponseGroup) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrOffsetFetchResponse())
	resp.ErrorCode = got.ErrorCode
	if got.ErrorCode != 0 && r.Version < 2 {
		for _, t := range req.Topics {
			got.Topics = append(got.Topics, notFetched([16]byte{}, t.Partitions))
			last := &got.Topics[len(got.Topics)-1]
			last.Topic = t.Topic
			for i := range last.Partitions {
				last.Partitions[i].ErrorCode = got.ErrorCode
			}
		}
	}
	for _, t := range got.Topics {
		one := kmsg.NewOffsetFetchResponseTopic()
		one.Topic = t.Topic
		for _, p := range t.Partitions {
			q := kmsg.NewOffsetFetchResponseTopicPartition()
			q.Partition, q.Offset, q.LeaderEpoch, q.Metadata, q.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			one.Partitions = append(one.Partitions, q)
		}
		resp.Topics = append(resp.Topics, one)
	}
	return resp
}
