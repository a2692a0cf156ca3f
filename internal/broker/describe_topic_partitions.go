package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// DescribeTopicPartitions (key 75), version 0: topics and partitions in order, a
// page at a time (KIP-966).
func describeTopicPartitionsAPI() api {
	return apiDef[*kmsg.DescribeTopicPartitionsRequest]{
		API:    protocol.API{Key: int16(kmsg.DescribeTopicPartitions), Max: 0},
		asks:   asks[*kmsg.DescribeTopicPartitionsRequest]{inside: true},
		handle: answering(describeTopicPartitions),
	}.api()
}

// maxDescribedPartitions bounds one page, whatever the request says: the default
// of max.request.partition.size.limit in Kafka.
const maxDescribedPartitions = 2000

// page is an answer that is being built.
type page struct {
	b    *Handler
	may  rights
	r    *network.Request
	img  *metadata.Image
	resp *kmsg.DescribeTopicPartitionsResponse
	left int32 // partitions that may still be described
}

func describeTopicPartitions(b *Handler, r *network.Request, req *kmsg.DescribeTopicPartitionsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDescribeTopicPartitionsResponse())
	from, first := "", int32(0)
	if c := req.Cursor; c != nil {
		from, first = c.Topic, c.Partition
	}
	var names []string
	for i := range req.Topics {
		if req.Topics[i].Topic >= from {
			names = append(names, req.Topics[i].Topic)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if missing := len(req.Topics) > 0 && req.Cursor != nil && !slices.Contains(names, from); missing || first < 0 {
		// This answer has no field for a message, and none for a code at the top.
		r.Code = kerr.InvalidRequest.Code
		for i := range req.Topics {
			one := kmsg.NewDescribeTopicPartitionsResponseTopic()
			one.ErrorCode, one.Topic = kerr.InvalidRequest.Code, &req.Topics[i].Topic
			resp.Topics = append(resp.Topics, one)
		}
		return resp
	}
	img := b.image()
	p := page{b: b, may: b.rights(r), r: r, img: img, resp: resp, left: max(min(req.ResponsePartitionLimit, maxDescribedPartitions), 1)}
	start := func(name string) int32 {
		if name == from { // if it still exists; otherwise the next topic starts at its first partition
			return first
		}
		return 0
	}
	if len(req.Topics) == 0 {
		for t := range img.TopicsFrom(from) {
			if p.may.mayTopic(acl.Describe, t.Name) && !p.topic(t.Name, t, start(t.Name)) {
				break
			}
		}
		return resp
	}
	for _, name := range names {
		if p.left > 0 && p.may.topic(acl.Describe, name) != nil {
			p.refused(name)
		} else if !p.topic(name, img.Topic(name), start(name)) {
			break
		}
	}
	return resp
}

// refused adds a topic that the client may not describe.
func (p *page) refused(name string) {
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.ErrorCode, out.IsInternal = &name, kerr.TopicAuthorizationFailed.Code, metadata.IsInternal(name)
	p.r.Code = out.ErrorCode
	p.resp.Topics = append(p.resp.Topics, out)
}

// topic adds a topic's partitions from an index on. If the page is full, it sets where the next
// page starts and returns false. t is nil for a topic that does not exist.
func (p *page) topic(name string, t *metadata.Topic, from int32) bool {
	if p.left == 0 {
		p.next(name, 0)
		return false
	}
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic = &name
	out.AuthorizedOperations = p.may.topicOperations(true, name)
	if t == nil {
		out.ErrorCode, out.IsInternal = code(missingTopic(name, [16]byte{}, nil)), metadata.IsInternal(name)
		p.resp.Topics = append(p.resp.Topics, out)
		return true
	}
	out.TopicID, out.IsInternal = t.ID, t.Internal
	end := t.Partitions.Len()
	for i := from; i < end && p.left > 0; i++ {
		out.Partitions = append(out.Partitions, p.partition(t, i))
		p.left--
		from = i + 1
	}
	p.resp.Topics = append(p.resp.Topics, out)
	if from < end {
		p.next(name, from)
		return false
	}
	return true
}

func (p *page) partition(t *metadata.Topic, i int32) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	part := t.Partitions.At(i)
	s := p.b.partitionState(p.img, t, i, part).forClient(p.b, p.r, p.img, false)
	out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	out.ErrorCode, out.Partition, out.LeaderID, out.LeaderEpoch = s.code, i, s.leader, part.LeaderEpoch
	out.Replicas, out.ISR, out.OfflineReplicas = part.Replicas, part.ISR, s.offline
	out.EligibleLeaderReplicas, out.LastKnownELR = append([]int32{}, part.ELR...), []int32{}
	if !part.Last.IsZero() {
		out.LastKnownELR = append(out.LastKnownELR, part.Last.Broker)
	}
	return out
}

func (p *page) next(topic string, partition int32) {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
	p.resp.NextCursor = &c
}
