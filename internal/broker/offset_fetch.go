package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// OffsetFetch (key 9), versions 1 to 10: the committed offsets of one group, or of several from
// version 8 on. Version 10 names topics by id. With require_stable (version 7), partitions whose
// offset is part of an open transaction get UNSTABLE_OFFSET_COMMIT.
func offsetFetchAPI() api {
	return apiDef[*kmsg.OffsetFetchRequest]{
		API: protocol.API{Key: int16(kmsg.OffsetFetch), Min: 1, Max: 10, MaxCost: maxOffsetFetch},
		// The rights to topics are asked inside, in fetchOffsets.
		asks: asks[*kmsg.OffsetFetchRequest]{
			whole: func(m rights, req *kmsg.OffsetFetchRequest) *kerr.Error {
				return unless(req.Version >= 8 || m.group(acl.Describe, req.Group) == nil, kerr.GroupAuthorizationFailed)
			},
			parts: each(func(req *kmsg.OffsetFetchRequest) *[]kmsg.OffsetFetchRequestGroup { return &req.Groups },
				func(m rights, _ *kmsg.OffsetFetchRequest, x *kmsg.OffsetFetchRequestGroup) *kerr.Error {
					return m.group(acl.Describe, x.Group)
				}),
		},
		refuse: func(_ *network.Request, req *kmsg.OffsetFetchRequest, code *kerr.Error) kmsg.Response {
			if req.Version >= 2 { // before, an error had no other place
				req.Topics = nil
			}
			for i := range req.Groups {
				req.Groups[i].Topics = nil
			}
			return refuseWhole(req, code)
		},
		overloaded:  kerr.CoordinatorNotAvailable,
		answerBytes: fetchedOffsets,
		route:       toGroups(groupsFetched),
		handle:      later(atOffsets, offsetFetch),
	}.api()
}

// fetchedOffsets returns about how many bytes the answer may have: all that groups have if their
// offsets are asked for without partitions, otherwise the metadata of each partition.
func fetchedOffsets(b *Handler, req *kmsg.OffsetFetchRequest) (n int64) {
	const metadata = 4 << 10 // by default (offset.metadata.max.bytes)
	all := b.largestAnswer()
	for _, g := range wantedOffsets(req) {
		if g.Topics == nil {
			return all
		}
		for i := range g.Topics {
			n += metadata * int64(len(g.Topics[i].Partitions))
		}
	}
	return min(n, all)
}

// atOffsets is where a request waits: most name one group.
func atOffsets(b *Handler, req *kmsg.OffsetFetchRequest) (*network.Waiter, string) {
	switch {
	case req.Version < 8:
		return b.at.group, req.Group
	case len(req.Groups) == 1:
		return b.at.group, req.Groups[0].Group
	}
	return b.at.groups, ""
}

// maxOffsetFetch bounds how many groups one request may name: each takes a µs of its shard and an
// entry in the answer. A request may name 80,000 groups, or 300,000 partitions.
const maxOffsetFetch = 14 << 20

func offsetFetch(c call, req *kmsg.OffsetFetchRequest) {
	b, r := c.b, c.r
	want := eachOnce(wantedOffsets(req))
	if req.Version < 8 {
		b.fetchOffsets(b.rights(r), want, req.RequireStable, func(got []kmsg.OffsetFetchResponseGroup) {
			r.Code = got[0].ErrorCode
			c.respond(oldFetched(r, req, &got[0]))
		})
		return
	}
	fetch := b.fetchOffsets
	if req.Version >= 10 {
		fetch = b.fetchByID
	}
	fetch(b.rights(r), want, req.RequireStable, func(got []kmsg.OffsetFetchResponseGroup) {
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

// wantedOffsets returns what a request asks for, which is of one group in versions up to 7.
func wantedOffsets(req *kmsg.OffsetFetchRequest) []kmsg.OffsetFetchRequestGroup {
	if req.Version < 8 {
		return []kmsg.OffsetFetchRequestGroup{oldFetch(req)}
	}
	return req.Groups
}

// eachOnce merges the entries of a group, those of a topic in it, and repeated partitions: four
// bytes of a request may have metadata of four kilobytes. An entry for all offsets of a group stays
// apart from one that names topics.
func eachOnce(groups []kmsg.OffsetFetchRequestGroup) []kmsg.OffsetFetchRequestGroup {
	type groupKey struct {
		id  string
		all bool
	}
	type topicKey struct {
		group int
		name  string
		id    [16]byte
	}
	known, topics := map[groupKey]int{}, map[topicKey]int{}
	once := groups[:0]
	for _, g := range groups {
		at, again := known[groupKey{g.Group, g.Topics == nil}]
		if !again {
			at = len(once)
			known[groupKey{g.Group, g.Topics == nil}] = at
			once = append(once, g)
			once[at].Topics = g.Topics[:0:0]
		}
		to := &once[at].Topics
		for _, t := range g.Topics {
			key := topicKey{at, t.Topic, t.TopicID}
			if i, again := topics[key]; again {
				(*to)[i].Partitions = append((*to)[i].Partitions, t.Partitions...)
				continue
			}
			topics[key] = len(*to)
			*to = append(*to, t)
		}
	}
	for i := range once {
		for j := range once[i].Topics {
			t := &once[i].Topics[j]
			t.Partitions = distinct(t.Partitions)
		}
	}
	return once
}

// fetchOffsets asks the shards of groups. done receives an answer for each. Topics that the client
// may not describe are answered with an error if they are named, else left out.
func (b *Handler) fetchOffsets(m rights, want []kmsg.OffsetFetchRequestGroup, stable bool,
	done func([]kmsg.OffsetFetchResponseGroup)) {
	ids := make([]string, len(want))
	for i := range want {
		ids[i] = want[i].Group
	}
	if !m.everything() {
		done = visibleOffsets(m, want, done)
	}
	perShard(b, b.opt.Groups, ids, func(positions []int) any {
		e := group.FetchOffsets{Groups: make([]kmsg.OffsetFetchRequestGroup, len(positions)), RequireStable: stable}
		for k, i := range positions {
			e.Groups[k] = want[i]
		}
		return e
	}, func(id string, code *kerr.Error) kmsg.OffsetFetchResponseGroup {
		got := kmsg.NewOffsetFetchResponseGroup()
		got.Group, got.ErrorCode = id, code.Code
		return got
	}, done)
}

// visibleOffsets removes named topics that the client may not describe from what groups are asked
// for. It returns a function that adds their answers, and calls done.
func visibleOffsets(m rights, want []kmsg.OffsetFetchRequestGroup,
	done func([]kmsg.OffsetFetchResponseGroup)) func([]kmsg.OffsetFetchResponseGroup) {
	denied := make([][]kmsg.OffsetFetchResponseGroupTopic, len(want))
	for i := range want {
		if want[i].Topics == nil {
			continue
		}
		visible := make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(want[i].Topics))
		for _, t := range want[i].Topics {
			if code := m.topic(acl.Describe, t.Topic); code != nil {
				denied[i] = append(denied[i], notFetched(t.Topic, t.TopicID, t.Partitions, code))
			} else {
				visible = append(visible, t)
			}
		}
		want[i].Topics = visible
	}
	return func(got []kmsg.OffsetFetchResponseGroup) {
		for i := range got {
			if got[i].ErrorCode == 0 {
				got[i].Topics = append(got[i].Topics, denied[i]...)
			}
			if want[i].Topics == nil {
				got[i].Topics = slices.DeleteFunc(got[i].Topics, func(t kmsg.OffsetFetchResponseGroupTopic) bool {
					return !m.mayTopic(acl.Describe, t.Topic)
				})
			}
		}
		done(got)
	}
}

// fetchByID is fetchOffsets for topics with ids. If all offsets are requested, it leaves out those
// of deleted topics, which have no meaningful id.
func (b *Handler) fetchByID(m rights, want []kmsg.OffsetFetchRequestGroup, stable bool,
	done func([]kmsg.OffsetFetchResponseGroup)) {
	img := b.image()
	unknown := make([][]kmsg.OffsetFetchResponseGroupTopic, len(want))
	for i := range want {
		unknown[i] = nameTopics(img, m, &want[i])
	}
	b.fetchOffsets(m, want, stable, func(got []kmsg.OffsetFetchResponseGroup) {
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
// exist, or that the client may not describe, and returns their answers.
func nameTopics(img *metadata.Image, m rights, want *kmsg.OffsetFetchRequestGroup) (unknown []kmsg.OffsetFetchResponseGroupTopic) {
	if want.Topics == nil {
		return nil
	}
	known := make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(want.Topics))
	for _, t := range want.Topics {
		if topic, err := m.find(acl.Describe, img, true, "", t.TopicID); err == nil {
			t.Topic = topic.Name
			known = append(known, t)
		} else {
			unknown = append(unknown, notFetched("", t.TopicID, t.Partitions, kerr.UnknownTopicID))
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

// notFetched answers for a topic of which no offsets were fetched.
func notFetched(name string, id [16]byte, partitions []int32, code *kerr.Error) kmsg.OffsetFetchResponseGroupTopic {
	t := kmsg.NewOffsetFetchResponseGroupTopic()
	t.Topic, t.TopicID = name, id
	for _, i := range partitions {
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = i, -1, -1, kmsg.StringPtr(""), code.Code
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
			got.Topics = append(got.Topics, notFetched(t.Topic, [16]byte{}, t.Partitions, &kerr.Error{Code: got.ErrorCode}))
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
