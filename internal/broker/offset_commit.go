package broker

import (
	"cmp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// OffsetCommit (key 8), versions 2 to 10. The handler refuses offsets of partitions that do not
// exist; the group decides about the others.
func offsetCommitAPI() api {
	return apiDef[*kmsg.OffsetCommitRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.OffsetCommit), Min: 2, Max: 10},
		asks: asks[*kmsg.OffsetCommitRequest]{
			whole: func(m rights, req *kmsg.OffsetCommitRequest) *kerr.Error { return m.group(acl.Read, req.Group) },
			parts: each(func(req *kmsg.OffsetCommitRequest) *[]kmsg.OffsetCommitRequestTopic { return &req.Topics },
				func(m rights, req *kmsg.OffsetCommitRequest, x *kmsg.OffsetCommitRequestTopic) *kerr.Error {
					return m.topicRef(acl.Read, req.Version >= 10, x.Topic, x.TopicID)
				}),
		},
		overloaded: kerr.CoordinatorNotAvailable,
		route:      toGroup(func(req *kmsg.OffsetCommitRequest) string { return req.Group }),
		handle:     later(atGroup(func(req *kmsg.OffsetCommitRequest) string { return req.Group }), offsetCommit),
	}.api()
}

func offsetCommit(c call, req *kmsg.OffsetCommitRequest) {
	b, r := c.b, c.r
	resp := respondTo(r, kmsg.NewPtrOffsetCommitResponse())
	rest := *req
	var left []*int16 // the codes for the partitions that the group is asked for, in order
	rest.Topics, left = b.committable(req, resp)
	if len(left) == 0 {
		c.committed(resp)
		return
	}
	watch := c.watchResets(&rest)
	b.askGroupWatched(r, req.Group, &rest, watch, func(answer kmsg.Response) {
		watch.record(b.opt.Audit, &rest, answer.(*kmsg.OffsetCommitResponse))
		codes := left
		for _, t := range answer.(*kmsg.OffsetCommitResponse).Topics {
			for _, p := range t.Partitions {
				*codes[0], codes = p.ErrorCode, codes[1:]
			}
		}
		c.committed(resp)
	})
}

// committed answers an OffsetCommit, counted with the first error of a partition. firstError would
// be slow for as many partitions as a commit may have.
func (c call) committed(resp *kmsg.OffsetCommitResponse) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			c.r.Code = cmp.Or(c.r.Code, p.ErrorCode)
		}
	}
	c.respond(resp)
}

// committable adds every partition of the request to resp; an unknown partition gets its error.
// It returns the others with pointers to their codes.
func (b *Handler) committable(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) (topics []kmsg.OffsetCommitRequestTopic,
	left []*int16) {
	img := b.image()
	for i := range req.Topics {
		t := &req.Topics[i]
		var known *metadata.Topic
		missing := kerr.UnknownTopicOrPartition
		if req.Version >= 10 {
			known, missing = img.TopicByID(t.TopicID), kerr.UnknownTopicID
		} else {
			known = img.Topic(t.Topic)
		}
		out := kmsg.NewOffsetCommitResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		out.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		some := kmsg.OffsetCommitRequestTopic{}
		if known != nil {
			some.Topic, some.TopicID = known.Name, known.ID
		}
		for n := range t.Partitions {
			p, entry := t.Partitions[n], &out.Partitions[n]
			entry.Partition = p.Partition
			switch {
			case known == nil:
				entry.ErrorCode = missing.Code
			case known.Partitions.At(p.Partition) == nil:
				entry.ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				some.Partitions, left = append(some.Partitions, p), append(left, &entry.ErrorCode)
			}
		}
		resp.Topics = append(resp.Topics, out)
		if len(some.Partitions) > 0 {
			topics = append(topics, some)
		}
	}
	return topics, left
}
