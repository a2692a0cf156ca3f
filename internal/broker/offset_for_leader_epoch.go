package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// OffsetForLeaderEpoch (key 23), versions 2 to 4: where a leader epoch ended. A consumer uses it to
// detect that its position belongs to a truncated history (KIP-320).
func offsetForLeaderEpochAPI() api {
	return apiDef[*kmsg.OffsetForLeaderEpochRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.OffsetForLeaderEpoch), Min: 2, Max: 4},
		asks: asks[*kmsg.OffsetForLeaderEpochRequest]{
			parts: each(func(req *kmsg.OffsetForLeaderEpochRequest) *[]kmsg.OffsetForLeaderEpochRequestTopic {
				return &req.Topics
			},
				func(m rights, _ *kmsg.OffsetForLeaderEpochRequest, x *kmsg.OffsetForLeaderEpochRequestTopic) *kerr.Error {
					if m.mayCluster(acl.ClusterAction) {
						return nil
					}
					return m.topic(acl.Describe, x.Topic)
				}),
		},
		route:  toLeader(epochsAsked),
		handle: answering(offsetForLeaderEpoch),
	}.api()
}

func offsetForLeaderEpoch(b *Handler, r *network.Request, req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrOffsetForLeaderEpochResponse())
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = t.Topic
		for j := range t.Partitions {
			p := &t.Partitions[j]
			one := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			one.Partition = p.Partition
			epoch, end, err := b.epochEnd(t.Topic, p)
			if err != nil {
				one.ErrorCode = b.code(r, err)
				r.Code = one.ErrorCode
			} else {
				one.LeaderEpoch, one.EndOffset = epoch, end
			}
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (b *Handler) epochEnd(topic string, p *kmsg.OffsetForLeaderEpochRequestTopicPartition) (int32, int64, error) {
	part, err := b.partitionByName(topic, p.Partition)
	if err != nil {
		return -1, -1, err
	}
	return part.EpochEnd(p.CurrentLeaderEpoch, p.LeaderEpoch)
}
