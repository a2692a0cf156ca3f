package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// DescribeProducers (key 61), version 0: the producers that a partition knows, with the first
// offsets of their open transactions. A follower answers from its own log, so that an operator can
// compare the replicas (KIP-664); clients that name no broker ask the leader.
func describeProducersAPI() api {
	return apiDef[*kmsg.DescribeProducersRequest]{
		API: protocol.API{Key: int16(kmsg.DescribeProducers), Max: 0},
		asks: asks[*kmsg.DescribeProducersRequest]{parts: each(
			func(req *kmsg.DescribeProducersRequest) *[]kmsg.DescribeProducersRequestTopic { return &req.Topics },
			func(m rights, _ *kmsg.DescribeProducersRequest, x *kmsg.DescribeProducersRequestTopic) *kerr.Error {
				return m.topic(acl.Read, x.Topic)
			})},
		overloaded:  kerr.LeaderNotAvailable,
		answerBytes: knownProducers,
		route:       toLeader(producersDescribed),
		handle:      answering(describeProducers),
	}.api()
}

// describeProducers answers for a repeated partition once, at its first occurrence: its answer may
// be a million times as large as the request for it.
func describeProducers(b *Handler, r *network.Request, req *kmsg.DescribeProducersRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDescribeProducersResponse())
	seen := map[txn.Partition]bool{}
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			at := txn.Partition{Topic: t.Topic, Index: p}
			if seen[at] {
				continue
			}
			seen[at] = true
			out.Partitions = append(out.Partitions, b.describeProducersOf(r, t.Topic, p))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// producerAnswer is what an answer has for a producer, in bytes.
const producerAnswer = 48

// knownProducers returns how many bytes the producers have that an answer lists. They are no part
// of the metadata, and a partition may have very many.
func knownProducers(b *Handler, req *kmsg.DescribeProducersRequest) (n int64) {
	seen := map[txn.Partition]bool{}
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			at := txn.Partition{Topic: req.Topics[i].Topic, Index: p}
			if part, err := b.partitionByName(at.Topic, p); err == nil && !seen[at] {
				seen[at] = true
				n += producerAnswer * int64(part.Log().ProducerCount())
			}
		}
	}
	return n
}

func (b *Handler) describeProducersOf(r *network.Request, topic string, partition int32) kmsg.DescribeProducersResponseTopicPartition {
	out := kmsg.NewDescribeProducersResponseTopicPartition()
	out.Partition = partition
	part, err := b.partitionByName(topic, partition)
	if err != nil {
		out.ErrorCode, out.ErrorMessage = b.verdict(r, err)
		r.Code = out.ErrorCode
		return out
	}
	for _, p := range part.Log().Producers() {
		one := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		one.ProducerID, one.ProducerEpoch, one.LastSequence = p.ID, int32(p.Epoch), p.LastSequence
		one.LastTimestamp, one.CoordinatorEpoch, one.CurrentTxnStartOffset = p.Seen, p.CoordinatorEpoch, p.First
		out.ActiveProducers = append(out.ActiveProducers, one)
	}
	return out
}
