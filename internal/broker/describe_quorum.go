package broker

import (
	"context"
	"encoding/binary"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/view"
)

// DescribeQuorum (key 55), versions 0 to 2 (KIP-595, KIP-836, KIP-853). It shows the metadata
// quorum as Kafka shows its own: the leader epoch is the term, offsets are indexes of entries, and
// directory ids are member ids.
func describeQuorumAPI() api {
	return apiDef[*kmsg.DescribeQuorumRequest]{
		API:        protocol.API{Key: int16(kmsg.DescribeQuorum), Max: 2},
		asks:       clusterAsks[*kmsg.DescribeQuorumRequest](acl.Describe),
		overloaded: kerr.RequestTimedOut,
		handle:     inBackground(atQuorum, describeQuorum),
	}.api()
}

// quorumTopic is the name of Kafka's metadata log, which requests must contain.
const quorumTopic = "__cluster_metadata"

// quorumTime bounds how long the metadata leader is asked; the request has no timeout.
const quorumTime = 5 * time.Second

func describeQuorum(ctx context.Context, b *Handler, r *network.Request, req *kmsg.DescribeQuorumRequest) kmsg.Response {
	if operatorAsk(&req.UnknownTags, view.SnapshotTag) != nil {
		resp := respondTo(r, kmsg.NewPtrDescribeQuorumResponse())
		resp.UnknownTags.Set(view.SnapshotTag, encoded(b.Snapshots(ctx)))
		return resp
	}
	if len(req.Topics) != 1 || req.Topics[0].Topic != quorumTopic || len(req.Topics[0].Partitions) != 1 ||
		req.Topics[0].Partitions[0].Partition != 0 {
		r.Code = kerr.UnknownTopicOrPartition.Code
		return quorumRefused(r, req, kerr.UnknownTopicOrPartition)
	}
	ctx, cancel := context.WithTimeout(ctx, quorumTime)
	defer cancel()
	q, err := b.opt.Cluster.Quorum(ctx)
	if err != nil { // Kafka's answer without a leader; clients retry
		r.Code = kerr.NotLeaderForPartition.Code
		return quorumRefused(r, req, protocolErrorf(kerr.NotLeaderForPartition, "%s", message(err)))
	}
	resp := respondTo(r, kmsg.NewPtrDescribeQuorumResponse())
	topic := kmsg.NewDescribeQuorumResponseTopic()
	topic.Topic, topic.Partitions = quorumTopic, []kmsg.DescribeQuorumResponseTopicPartition{b.quorum(resp, q, time.Now())}
	resp.Topics = append(resp.Topics, topic)
	return resp
}

// quorumRefused answers with an error for each partition that a request names, as Kafka does.
func quorumRefused(r *network.Request, req *kmsg.DescribeQuorumRequest, err error) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrDescribeQuorumResponse())
	for i := range req.Topics {
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic = req.Topics[i].Topic
		for _, p := range req.Topics[i].Partitions {
			one := kmsg.NewDescribeQuorumResponseTopicPartition()
			one.Partition = p.Partition
			one.ErrorCode, one.ErrorMessage = verdict(err)
			topic.Partitions = append(topic.Partitions, one)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// quorum describes the quorum and adds the brokers of its members to resp.
func (b *Handler) quorum(resp *kmsg.DescribeQuorumResponse, q controller.Quorum, now time.Time) kmsg.DescribeQuorumResponseTopicPartition {
	img := b.image()
	out := kmsg.NewDescribeQuorumResponseTopicPartition()
	out.LeaderID, out.LeaderEpoch = brokerOf(img, q.Leader), int32(min(q.Term, math.MaxInt32))
	out.HighWatermark = int64(min(q.Commit, math.MaxInt64))
	for _, m := range q.Members {
		id := brokerOf(img, m.Member)
		one := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		one.ReplicaID, one.LogEndOffset = id, int64(min(m.End, math.MaxInt64))
		binary.BigEndian.PutUint64(one.ReplicaDirectoryID[:], m.Member)
		one.LastFetchTimestamp = now.Add(-m.Silent).UnixMilli()
		if m.Member == q.Leader || m.End >= q.Commit {
			one.LastCaughtUpTimestamp = one.LastFetchTimestamp // otherwise it is not known
		}
		if m.Voter {
			out.CurrentVoters = append(out.CurrentVoters, one)
			resp.Nodes = append(resp.Nodes, quorumNode(img, id))
		} else {
			out.Observers = append(out.Observers, one)
		}
	}
	return out
}

// quorumNode returns the addresses of a voter's broker. The Java client rejects the answer if the
// name of a listener has lower-case letters.
func quorumNode(img *metadata.Image, id int32) kmsg.DescribeQuorumResponseNode {
	node := kmsg.NewDescribeQuorumResponseNode()
	node.NodeID = id
	broker, _ := img.Broker(id)
	for _, e := range broker.Listeners {
		l := kmsg.NewDescribeQuorumResponseNodeListener()
		l.Name, l.Host, l.Port = strings.ToUpper(e.Listener), e.Host, uint16(e.Port)
		node.Listeners = append(node.Listeners, l)
	}
	return node
}
