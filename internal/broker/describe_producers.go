package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
)

// DescribeProducers (key 61), version 0: the producers that a partition knows, with the first
// offsets of their open transactions. Only the leader answers.
func describeProducersAPI() api {
	return apiDef[*kmsg.DescribeProducersRequest]{
		API: protocol.API{Key: int16(kmsg.DescribeProducers), Max: 0},
		needs: func(req *kmsg.DescribeProducersRequest, n *needs) {
			for i := range req.Topics {
				n.topic(opRead, req.Topics[i].Topic)
			}
		},
		overloaded: kerr.LeaderNotAvailable,
		handle:     answering(describeProducers),
	}.api()
}

func describeProducers(b *Broker, r *network.Request, req *kmsg.DescribeProducersRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDescribeProducersResponse())
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			out.Partitions = append(out.Partitions, b.describeProducersOf(r, t.Topic, p))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (b *Broker) describeProducersOf(r *network.Request, topic string, partition int32) kmsg.DescribeProducersResponseTopicPartition {
	out := kmsg.NewDescribeProducersResponseTopicPartition()
	out.Partition = partition
	part, err := b.partitionByName(topic, partition)
	if err == nil {
		if leader, _ := part.Leader(); leader != b.opt.Self {
			err = protocolErrorf(kerr.NotLeaderForPartition, "this broker does not lead %s-%d", topic, partition)
		}
	}
	if err != nil {
		out.ErrorCode, out.ErrorMessage = verdict(err)
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
