package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
)

// AlterPartitionReassignments (key 45), versions 0 to 1 (KIP-455). Partitions are not moved between
// brokers: a request for the replicas that a partition already has succeeds at once, and there is
// never a reassignment to cancel.
func alterPartitionReassignmentsAPI() api {
	return apiDef[*kmsg.AlterPartitionAssignmentsRequest]{
		API:    protocol.API{Key: int16(kmsg.AlterPartitionAssignments), Max: 1},
		needs:  func(_ *kmsg.AlterPartitionAssignmentsRequest, n *needs) { n.cluster(opAlter) },
		handle: answering(alterPartitionReassignments),
	}.api()
}

func alterPartitionReassignments(b *Broker, r *network.Request, req *kmsg.AlterPartitionAssignmentsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrAlterPartitionAssignmentsResponse())
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	img := b.image()
	for i := range req.Topics {
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = req.Topics[i].Topic
		for j := range req.Topics[i].Partitions {
			p := &req.Topics[i].Partitions[j]
			one := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			one.Partition = p.Partition
			one.ErrorCode, one.ErrorMessage = verdict(reassignment(img, out.Topic, p))
			if one.ErrorCode != 0 {
				r.Code = one.ErrorCode
			}
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// reassignment returns why a partition can't have these replicas; nil if it already has them.
func reassignment(img *metadata.Image, topic string, want *kmsg.AlterPartitionAssignmentsRequestTopicPartition) error {
	t := img.Topic(topic)
	if t == nil {
		return protocolErrorf(kerr.UnknownTopicOrPartition, "Unable to find a topic named %s.", topic)
	}
	p := t.Partitions.At(want.Partition)
	if p == nil {
		return protocolErrorf(kerr.UnknownTopicOrPartition, "Unable to find partition %s:%d.", topic, want.Partition)
	}
	if want.Replicas == nil {
		return protocolErrorf(kerr.NoReassignmentInProgress, "No reassignment of %s-%d is in progress.", topic, want.Partition)
	}
	var brokers []int32
	for _, b := range img.Brokers() {
		brokers = append(brokers, b.ID)
	}
	if err := controller.CheckReplicas(want.Replicas, brokers); err != nil {
		return err
	}
	if !slices.Equal(want.Replicas, p.Replicas) {
		return protocolErrorf(kerr.InvalidReplicaAssignment, "The replicas of %s-%d are %v; partitions are not moved in this version.",
			topic, want.Partition, p.Replicas)
	}
	return nil
}
