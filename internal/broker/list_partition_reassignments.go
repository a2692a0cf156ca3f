package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// ListPartitionReassignments (key 46), version 0: the partitions that are being moved to other
// brokers (KIP-455). As in Kafka, unknown topics and partitions are not in the answer.
func listPartitionReassignmentsAPI() api {
	return apiDef[*kmsg.ListPartitionReassignmentsRequest]{
		API:    protocol.API{Key: int16(kmsg.ListPartitionReassignments), Max: 0},
		asks:   clusterAsks[*kmsg.ListPartitionReassignmentsRequest](acl.Describe),
		handle: answering(listPartitionReassignments),
	}.api()
}

func listPartitionReassignments(b *Handler, r *network.Request, req *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrListPartitionReassignmentsResponse())
	img := b.image()
	add := func(t *metadata.Topic, list []int32) {
		out := kmsg.NewListPartitionReassignmentsResponseTopic()
		out.Topic = t.Name
		for _, i := range list {
			p := t.Partitions.At(i)
			if p == nil || !p.Reassigning() {
				continue
			}
			one := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			one.Partition, one.Replicas, one.AddingReplicas, one.RemovingReplicas = i, p.Replicas, p.Adding, p.Removing
			out.Partitions = append(out.Partitions, one)
		}
		if len(out.Partitions) > 0 {
			resp.Topics = append(resp.Topics, out)
		}
	}
	if req.Topics == nil {
		for t := range img.Topics() {
			add(t, allPartitions(t))
		}
	}
	for i := range req.Topics {
		if t := img.Topic(req.Topics[i].Topic); t != nil {
			add(t, req.Topics[i].Partitions)
		}
	}
	return resp
}
