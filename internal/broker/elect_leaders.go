package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/view"
)

// ElectLeaders (key 43), versions 0 to 2 (KIP-183, KIP-460). A single node elects nothing: the only
// replica of a partition leads it, or is offline, and then there is none to elect.
func electLeadersAPI() api {
	return apiDef[*kmsg.ElectLeadersRequest]{
		API:        protocol.API{Key: int16(kmsg.ElectLeaders), Max: 2},
		asks:       clusterAsks[*kmsg.ElectLeadersRequest](acl.Alter),
		overloaded: kerr.RequestTimedOut,
		answerBytes: func(b *Handler, req *kmsg.ElectLeadersRequest) int64 {
			if req.Topics == nil {
				return b.largestAnswer()
			}
			return 0
		},
		handle: inBackground(atMetadata, electLeaders),
	}.api()
}

// The kinds of election.
const (
	preferredElection int8 = 0
	uncleanElection   int8 = 1
	// confirmedLoss elects nothing: an operator confirms that he knows of earlier losses. It is
	// chronik's own, and other brokers refuse it.
	confirmedLoss = view.ConfirmLoss
)

func electLeaders(ctx context.Context, b *Handler, r *network.Request, req *kmsg.ElectLeadersRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrElectLeadersResponse())
	img := b.image()
	if !slices.Contains([]int8{preferredElection, uncleanElection, confirmedLoss}, req.ElectionType) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		r.Code = resp.ErrorCode
	}
	topics := req.Topics
	if topics == nil { // all partitions; those that need no election are left out, as in Kafka
		for t := range img.Topics() {
			topics = append(topics, kmsg.ElectLeadersRequestTopic{Topic: t.Name, Partitions: allPartitions(t)})
		}
	}
	results := b.elect(ctx, r, img, topics, req)
	for i := range topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = topics[i].Topic
		for k, p := range topics[i].Partitions {
			one := kmsg.NewElectLeadersResponseTopicPartition()
			one.Partition = p
			one.ErrorCode, one.ErrorMessage = b.verdict(r, results[i][k])
			if req.Topics == nil && one.ErrorCode == kerr.ElectionNotNeeded.Code {
				continue
			}
			if one.ErrorCode != kerr.ElectionNotNeeded.Code {
				r.Code = one.ErrorCode
			}
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// elect elects leaders, and returns an error or nil for each partition of each topic. It waits
// until this broker's metadata shows them, at most for the timeout of the request.
func (b *Handler) elect(ctx context.Context, r *network.Request, img *metadata.Image, topics []kmsg.ElectLeadersRequestTopic,
	req *kmsg.ElectLeadersRequest) [][]error {
	results := make([][]error, len(topics))
	var list []metadata.TopicPartition
	var at []*error
	for i := range topics {
		results[i] = make([]error, len(topics[i].Partitions))
		for k, p := range topics[i].Partitions {
			tp, err := b.election(img, topics[i].Topic, p, req.ElectionType)
			if results[i][k] = err; err == nil {
				list, at = append(list, tp), append(at, &results[i][k])
			}
		}
	}
	if len(list) == 0 {
		return results
	}
	timeout := milliseconds(req.TimeoutMillis)
	limited, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	var revision int64
	var errs []error
	switch req.ElectionType {
	case preferredElection:
		revision, errs = b.opt.Controller.ElectPreferred(limited, b.opt.Metadata, list)
	case confirmedLoss:
		revision, errs = b.opt.Controller.ConfirmLosses(limited, b.opt.Metadata, list)
	default:
		revision, errs = b.opt.Cluster.ElectUnclean(limited, list)
	}
	unseen := b.waitApplied(ctx, revision, time.Until(r.Received.Add(timeout)))
	for i, err := range errs {
		if verb := electionVerbs[req.ElectionType]; verb != "" {
			b.recordChange(ctx, verb, fmt.Sprintf("Partition:%s-%d", metadata.FormatID(list[i].Topic), list[i].Partition), err)
		}
		if *at[i] = err; err == nil {
			*at[i] = unseen
		}
	}
	return results
}

// electionVerbs are the operations of the audit log.
var electionVerbs = map[int8]string{uncleanElection: "ELECT_UNCLEAN", confirmedLoss: "CONFIRM_LOSS"}

func allPartitions(t *metadata.Topic) []int32 {
	list := make([]int32, 0, t.Partitions.Len())
	for i := range t.Partitions.All() {
		list = append(list, i)
	}
	return list
}

// election returns the partition that a request names, or why no leader can be elected for it. The
// controller decides again, on newer metadata.
func (b *Handler) election(img *metadata.Image, topic string, partition int32, kind int8) (tp metadata.TopicPartition, err error) {
	if !slices.Contains([]int8{preferredElection, uncleanElection, confirmedLoss}, kind) {
		return tp, protocolErrorf(kerr.InvalidRequest, "Unknown election type %d", kind)
	}
	t := img.Topic(topic)
	if t == nil {
		return tp, protocolErrorf(kerr.UnknownTopicOrPartition, "No such topic as %s", topic)
	}
	p := t.Partitions.At(partition)
	if p == nil {
		return tp, protocolErrorf(kerr.UnknownTopicOrPartition, "No such partition as %s-%d", topic, partition)
	}
	if kind == confirmedLoss {
		if !p.Lost() {
			return tp, protocolErrorf(kerr.ElectionNotNeeded, "The partition has no loss to confirm.")
		}
		return metadata.TopicPartition{Topic: t.ID, Partition: partition}, nil
	}
	if p.Leader >= 0 && (kind == uncleanElection || p.Leader == p.Replicas[0]) {
		return tp, protocolErrorf(kerr.ElectionNotNeeded, "Leader election not needed for topic partition.")
	}
	return metadata.TopicPartition{Topic: t.ID, Partition: partition}, nil
}
