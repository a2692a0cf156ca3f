package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// Metadata (key 3), versions 0 to 13.
func metadataAPI() api {
	return apiDef[*kmsg.MetadataRequest]{
		API:         protocol.API{Key: int16(kmsg.Metadata), Max: 13},
		asks:        asks[*kmsg.MetadataRequest]{inside: true},
		answerBytes: listedPartitions,
		handle:      answering(describeTopics),
	}.api()
}

// listedPartitions returns about how many bytes an answer has for the partitions of its topics.
func listedPartitions(b *Handler, req *kmsg.MetadataRequest) (n int64) {
	img := b.image()
	if req.Topics == nil || req.Version == 0 && len(req.Topics) == 0 {
		return b.largestAnswer()
	}
	for i := range req.Topics {
		var t *metadata.Topic
		if name := req.Topics[i].Topic; name != nil {
			t = img.Topic(*name)
		} else {
			t = img.TopicByID(req.Topics[i].TopicID)
		}
		if t != nil {
			n += partitionAnswer * int64(t.Partitions.Len())
		}
	}
	return min(n, b.largestAnswer()) // a topic that is named repeatedly is answered once
}

// describeTopics answers at once, as in Kafka: a topic that the request creates is answered as
// unknown until it exists, and clients retry.
func describeTopics(b *Handler, r *network.Request, req *kmsg.MetadataRequest) kmsg.Response {
	if req.Version == 0 && len(req.Topics) == 0 {
		req.Topics = nil // all topics; from version 1 on an empty list means none
	}
	if err := checkMetadata(req); err != nil {
		r.Code = code(err)
		return metadataRefused(r, req, err)
	}
	img := b.image()
	return b.metadataAnswer(img, r, req, b.autoCreate(img, r, req))
}

// checkMetadata refuses what a version does not allow: ids are allowed from version 12 on, although
// version 10 has the field.
func checkMetadata(req *kmsg.MetadataRequest) error {
	for i := range req.Topics {
		t := &req.Topics[i]
		switch {
		case t.TopicID != [16]byte{} && req.Version < 12:
			return protocolErrorf(kerr.InvalidRequest, "topic ids are not supported in version %d", req.Version)
		case t.TopicID == [16]byte{} && t.Topic == nil:
			return protocolErrorf(kerr.InvalidRequest, "a topic has neither name nor id")
		}
	}
	return nil
}

// metadataRefused answers a request that is refused as a whole.
func metadataRefused(r *network.Request, req *kmsg.MetadataRequest, err error) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrMetadataResponse())
	resp.ErrorCode = code(err)
	for i := range req.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.ErrorCode, t.Topic, t.TopicID = resp.ErrorCode, req.Topics[i].Topic, req.Topics[i].TopicID
		if t.Topic == nil {
			t.Topic = kmsg.StringPtr("")
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// metadataAnswer describes brokers and topics. failed are the topics that could not be
// created, with the reasons.
func (b *Handler) metadataAnswer(
	img *metadata.Image, r *network.Request, req *kmsg.MetadataRequest, failed map[string]error,
) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrMetadataResponse())
	resp.ControllerID = b.controllerID(r, img)
	if id := img.ClusterID(); id != "" {
		resp.ClusterID = &id
	}
	m := b.rights(r)
	resp.AuthorizedOperations = m.clusterOperations(req.IncludeClusterAuthorizedOperations)
	for _, n := range b.nodes(r, img) {
		resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: n.ID, Host: n.Host, Port: n.Port, Rack: nonEmpty(n.Rack)})
	}
	if req.Topics == nil {
		for t := range img.Topics() {
			if m.mayTopic(acl.Describe, t.Name) {
				resp.Topics = append(resp.Topics, b.topicMetadata(r, img, t, req))
			}
		}
		return resp
	}
	type ref struct {
		name string
		id   [16]byte
	}
	seen := make(map[ref]bool, len(req.Topics))
	for i := range req.Topics {
		want := ref{id: req.Topics[i].TopicID}
		if want.id == [16]byte{} {
			want.name = *req.Topics[i].Topic
		}
		if seen[want] {
			continue
		}
		seen[want] = true
		t, err := m.find(acl.Describe, img, want.id != [16]byte{}, want.name, want.id)
		if t != nil {
			resp.Topics = append(resp.Topics, b.topicMetadata(r, img, t, req))
			continue
		}
		one := kmsg.NewMetadataResponseTopic()
		one.TopicID = want.id
		if want.id == [16]byte{} {
			one.Topic, one.IsInternal = &want.name, metadata.IsInternal(want.name)
		}
		if code(err) != kerr.TopicAuthorizationFailed.Code {
			err = missingTopic(want.name, want.id, failed)
		}
		one.ErrorCode = code(err)
		r.Code = one.ErrorCode
		if one.Topic != nil && one.ErrorCode != kerr.TopicAuthorizationFailed.Code {
			one.AuthorizedOperations = m.topicOperations(req.IncludeTopicAuthorizedOperations, *one.Topic)
		}
		resp.Topics = append(resp.Topics, one)
	}
	return resp
}

// missingTopic returns the error for a topic that does not exist.
func missingTopic(name string, id [16]byte, failed map[string]error) error {
	if id != [16]byte{} {
		return kerr.UnknownTopicID
	}
	if err := controller.CheckTopicName(name); err != nil {
		return err
	}
	if err := failed[name]; err != nil {
		return err
	}
	return kerr.UnknownTopicOrPartition
}

// topicMetadata describes a topic that exists.
func (b *Handler) topicMetadata(
	r *network.Request, img *metadata.Image, t *metadata.Topic, req *kmsg.MetadataRequest,
) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = kmsg.StringPtr(t.Name), t.ID, t.Internal
	out.AuthorizedOperations = b.rights(r).topicOperations(req.IncludeTopicAuthorizedOperations, t.Name)
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, t.Partitions.Len())
	for i, p := range t.Partitions.All() {
		s := b.partitionState(img, t, i, p).forClient(b, r, img, req.Version < 6)
		one := kmsg.NewMetadataResponseTopicPartition()
		one.ErrorCode, one.Partition, one.Leader, one.LeaderEpoch = s.code, i, s.leader, p.LeaderEpoch
		one.Replicas, one.ISR, one.OfflineReplicas = p.Replicas, p.ISR, s.offline
		out.Partitions = append(out.Partitions, one)
	}
	return out
}

// nodes returns the usable brokers with the addresses at which this client reaches them.
func (b *Handler) nodes(r *network.Request, img *metadata.Image) []protocol.NodeEndpoint {
	var all nodeSet
	for _, broker := range img.Brokers() {
		all.add(broker.ID)
	}
	return b.endpoints(r, all)
}

// nonEmpty returns a string, or nil for the empty one.
func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
