package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// AlterPartitionReassignments (key 45), versions 0 to 1 (KIP-455): begins, replaces or cancels the
// move of partitions to other brokers. It does not wait for the copies.
func alterPartitionReassignmentsAPI() api {
	return apiDef[*kmsg.AlterPartitionAssignmentsRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.AlterPartitionAssignments), Max: 1},
		asks:         clusterAsks[*kmsg.AlterPartitionAssignmentsRequest](acl.Alter),
		overloaded:   kerr.RequestTimedOut,
		handle:       inBackground(atMetadata, alterPartitionReassignments),
	}.api()
}

func alterPartitionReassignments(ctx context.Context, b *Handler, r *network.Request,
	req *kmsg.AlterPartitionAssignmentsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrAlterPartitionAssignmentsResponse())
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	results := b.reassign(ctx, r, req)
	for i := range req.Topics {
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = req.Topics[i].Topic
		for k := range req.Topics[i].Partitions {
			one := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			one.Partition = req.Topics[i].Partitions[k].Partition
			one.ErrorCode, one.ErrorMessage = b.verdict(r, results[i][k])
			if one.ErrorCode != 0 {
				r.Code = one.ErrorCode
			}
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// reassign returns an error or nil for each partition of each topic. It waits until this broker's
// metadata shows the changes, at most for the timeout of the request.
func (b *Handler) reassign(ctx context.Context, r *network.Request, req *kmsg.AlterPartitionAssignmentsRequest) [][]error {
	img := b.image()
	results := make([][]error, len(req.Topics))
	var list []controller.Reassignment
	var at []*error
	seen := map[metadata.TopicPartition]bool{}
	for i := range req.Topics {
		t := &req.Topics[i]
		results[i] = make([]error, len(t.Partitions))
		for k := range t.Partitions {
			one, err := reassignment(img, t.Topic, &t.Partitions[k])
			if err == nil && seen[one.TopicPartition] {
				err = protocolErrorf(kerr.InvalidRequest, "The request names partition %s-%d more than once.", t.Topic, one.Partition)
			}
			if results[i][k] = err; err == nil {
				seen[one.TopicPartition] = true
				one.SameFactor = !req.AllowReplicationFactorChange
				list, at = append(list, one), append(at, &results[i][k])
			}
		}
	}
	if len(list) == 0 {
		return results
	}
	limited, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	revision, errs := b.opt.Controller.Reassign(limited, b.opt.Metadata, list)
	unseen := b.waitApplied(ctx, revision, time.Until(r.Received.Add(milliseconds(req.TimeoutMillis))))
	for i, err := range errs {
		if *at[i] = err; err == nil {
			*at[i] = unseen
		}
	}
	return results
}

// reassignment returns what a request asks for. The controller decides, on newer metadata.
func reassignment(img *metadata.Image, topic string, want *kmsg.AlterPartitionAssignmentsRequestTopicPartition) (
	x controller.Reassignment, err error) {
	t := img.Topic(topic)
	if t == nil {
		return x, protocolErrorf(kerr.UnknownTopicOrPartition, "Unable to find a topic named %s.", topic)
	}
	if t.Partitions.At(want.Partition) == nil {
		return x, protocolErrorf(kerr.UnknownTopicOrPartition, "Unable to find partition %s:%d.", topic, want.Partition)
	}
	x.TopicPartition = metadata.TopicPartition{Topic: t.ID, Partition: want.Partition}
	x.Replicas = want.Replicas
	return x, nil
}
