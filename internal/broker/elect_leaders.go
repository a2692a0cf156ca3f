package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
)

// ElectLeaders (key 43), versions 0 to 2 (KIP-183, KIP-460). On a single node the only replica of a
// partition leads it, so no election is needed. If that replica is offline, there is none to elect.
// The answers are Kafka's for these cases.
func electLeadersAPI() api {
	return apiDef[*kmsg.ElectLeadersRequest]{
		API:    protocol.API{Key: int16(kmsg.ElectLeaders), Max: 2},
		needs:  func(_ *kmsg.ElectLeadersRequest, n *needs) { n.cluster(opAlter) },
		handle: answering(electLeaders),
	}.api()
}

// The kinds of election.
const (
	preferredElection int8 = 0
	uncleanElection   int8 = 1
)

func electLeaders(b *Broker, r *network.Request, req *kmsg.ElectLeadersRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrElectLeadersResponse())
	img := b.image()
	if !slices.Contains([]int8{preferredElection, uncleanElection}, req.ElectionType) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		r.Code = resp.ErrorCode
	}
	topics := req.Topics
	if topics == nil { // all partitions; those that need no election are left out, as in Kafka
		for t := range img.Topics() {
			topics = append(topics, kmsg.ElectLeadersRequestTopic{Topic: t.Name, Partitions: allPartitions(t)})
		}
	}
	for i := range topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = topics[i].Topic
		for _, p := range topics[i].Partitions {
			err := b.election(img, topics[i].Topic, p, req.ElectionType)
			one := kmsg.NewElectLeadersResponseTopicPartition()
			one.Partition = p
			one.ErrorCode, one.ErrorMessage = verdict(err)
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

func allPartitions(t *metadata.Topic) []int32 {
	list := make([]int32, 0, t.Partitions.Len())
	for i := range t.Partitions.All() {
		list = append(list, i)
	}
	return list
}

// election returns why no leader was elected for a partition.
func (b *Broker) election(img *metadata.Image, topic string, partition int32, kind int8) error {
	if kind != preferredElection && kind != uncleanElection {
		return protocolErrorf(kerr.InvalidRequest, "Unknown election type %d", kind)
	}
	t := img.Topic(topic)
	if t == nil {
		return protocolErrorf(kerr.UnknownTopicOrPartition, "No such topic as %s", topic)
	}
	p := t.Partitions.At(partition)
	if p == nil {
		return protocolErrorf(kerr.UnknownTopicOrPartition, "No such partition as %s-%d", topic, partition)
	}
	switch leader := b.partitionState(t, partition, p).leader; {
	case leader >= 0 && (kind == uncleanElection || leader == p.Replicas[0]):
		return protocolErrorf(kerr.ElectionNotNeeded, "Leader election not needed for topic partition.")
	case kind == preferredElection:
		return protocolErrorf(kerr.PreferredLeaderNotAvailable, "The preferred leader was not available.")
	}
	return protocolErrorf(kerr.EligibleLeadersNotAvailable, "Eligible topic partition leaders are not available.")
}
