package broker

import (
	"cmp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// OffsetDelete (key 47), version 0. The group is asked even if no partition is left to ask for: as
// in Kafka, a missing group is reported first.
func offsetDeleteAPI() api {
	return apiDef[*kmsg.OffsetDeleteRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.OffsetDelete), Max: 0},
		asks: asks[*kmsg.OffsetDeleteRequest]{
			whole: func(m rights, req *kmsg.OffsetDeleteRequest) *kerr.Error { return m.group(acl.Delete, req.Group) },
			parts: each(func(req *kmsg.OffsetDeleteRequest) *[]kmsg.OffsetDeleteRequestTopic { return &req.Topics },
				func(m rights, _ *kmsg.OffsetDeleteRequest, x *kmsg.OffsetDeleteRequestTopic) *kerr.Error {
					return m.topic(acl.Read, x.Topic)
				}),
		},
		refuse: func(_ *network.Request, req *kmsg.OffsetDeleteRequest, code *kerr.Error) kmsg.Response {
			if code == kerr.TopicAuthorizationFailed {
				return refuseWhole(req, code)
			}
			return group.Refuse(req, code) // as in Kafka, errors of the group have no list of topics
		},
		overloaded: kerr.CoordinatorNotAvailable,
		changes:    deletedOffsets,
		route:      toGroup(func(req *kmsg.OffsetDeleteRequest) string { return req.Group }),
		handle:     later(atGroup(func(req *kmsg.OffsetDeleteRequest) string { return req.Group }), offsetDelete),
	}.api()
}

func offsetDelete(c call, req *kmsg.OffsetDeleteRequest) {
	b, r := c.b, c.r
	resp := respondTo(r, kmsg.NewPtrOffsetDeleteResponse())
	rest := *req
	rest.Topics = nil
	var left []*int16 // the codes for the partitions that the group is asked for, in order
	img := b.image()
	for _, t := range req.Topics {
		known := img.Topic(t.Topic)
		out := kmsg.NewOffsetDeleteResponseTopic()
		out.Topic, out.Partitions = t.Topic, make([]kmsg.OffsetDeleteResponseTopicPartition, len(t.Partitions))
		some := kmsg.OffsetDeleteRequestTopic{Topic: t.Topic}
		for i, p := range t.Partitions {
			entry := &out.Partitions[i]
			entry.Partition = p.Partition
			if known == nil || known.Partitions.At(p.Partition) == nil {
				entry.ErrorCode = kerr.UnknownTopicOrPartition.Code
				continue
			}
			some.Partitions, left = append(some.Partitions, p), append(left, &entry.ErrorCode)
		}
		resp.Topics = append(resp.Topics, out)
		if len(some.Partitions) > 0 {
			rest.Topics = append(rest.Topics, some)
		}
	}
	b.askGroup(r, req.Group, &rest, func(answer kmsg.Response) {
		got := answer.(*kmsg.OffsetDeleteResponse)
		if got.ErrorCode != 0 {
			c.respond(got)
			return
		}
		codes := left
		for _, t := range got.Topics {
			for _, p := range t.Partitions {
				*codes[0], codes = p.ErrorCode, codes[1:]
			}
		}
		r.Code = cmp.Or(firstError(resp), r.Code)
		c.respond(resp)
	})
}
