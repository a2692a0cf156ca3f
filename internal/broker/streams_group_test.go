package broker

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// streamsBeat returns the heartbeat of a member that joins with a topology of one subtopology,
// which reads "in" and has a changelog.
func streamsBeat(source, changelog string, configs ...kmsg.TopicInfoConfig) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis, req.ProcessID = "g", "m", 10_000, kmsg.StringPtr("p")
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	req.Topology = &kmsg.StreamsGroupHeartbeatRequestTopology{Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{
		{SubtopologyID: "0", SourceTopics: []string{source}, StateChangelogTopics: []kmsg.TopicInfo{
			{Topic: changelog, ReplicationFactor: -1, Configs: configs}}}}}
	return req
}

func again(epoch int32) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = "g", "m", epoch
	return req
}

func atOnceStreams(o *nodeOptions) {
	o.static["group.streams.initial.rebalance.delay.ms"], o.static["group.streams.assignment.interval.ms"] = "0", "0"
	o.static["auto.create.topics.enable"] = "false" // internal topics are created anyway
}

// A member of a streams group gets its tasks when the broker has created the internal topics.
func TestStreamsGroupGetsItsInternalTopics(t *testing.T) {
	n := newNode(t, quick, atOnceStreams)
	n.topic(t, "in", 2)
	n.coordinates(t)
	w := n.dial(t)
	compact := kmsg.TopicInfoConfig{Key: "cleanup.policy", Value: "compact"}
	resp := ask[*kmsg.StreamsGroupHeartbeatResponse](t, w, 0, streamsBeat("in", "g-s-changelog", compact))
	if resp.ErrorCode != 0 || len(resp.Status) != 1 || resp.Status[0].StatusDetail != "Internal topics are missing: g-s-changelog" {
		t.Fatalf("%+v", resp)
	}
	for len(resp.ActiveTasks) == 0 { // until the topic exists
		resp = ask[*kmsg.StreamsGroupHeartbeatResponse](t, w, 0, again(resp.MemberEpoch))
		if resp.ErrorCode != 0 || t.Context().Err() != nil {
			t.Fatalf("%+v", resp)
		}
	}
	if len(resp.ActiveTasks[0].Partitions) != 2 || len(resp.Status) != 0 {
		t.Errorf("%+v", resp)
	}
	if topic := n.image().Topic("g-s-changelog"); topic.Partitions.Len() != 2 || topic.Configs["cleanup.policy"] != "compact" {
		t.Errorf("%+v", topic)
	}
	describe := kmsg.NewPtrStreamsGroupDescribeRequest()
	describe.Groups = []string{"g", "none"}
	d := ask[*kmsg.StreamsGroupDescribeResponse](t, w, 0, describe).Groups
	if len(d) != 2 || d[0].State != "Stable" || d[1].ErrorCode != kerr.GroupIDNotFound.Code {
		t.Errorf("%+v", d)
	}
}

// A topic that can't be created, and topics that can't belong to an application, are reported.
func TestStreamsGroupLearnsWhyATopicIsMissing(t *testing.T) {
	n := newNode(t, quick, atOnceStreams)
	n.topic(t, "in", 2)
	n.coordinates(t)
	w := n.dial(t)
	nonsense := kmsg.TopicInfoConfig{Key: "cleanup.policy", Value: "nonsense"}
	resp := ask[*kmsg.StreamsGroupHeartbeatResponse](t, w, 0, streamsBeat("in", "g-s-changelog", nonsense))
	for want := "; Creation failed: g-s-changelog ("; !strings.Contains(resp.Status[0].StatusDetail, want); {
		resp = ask[*kmsg.StreamsGroupHeartbeatResponse](t, w, 0, again(resp.MemberEpoch))
		if resp.ErrorCode != 0 || len(resp.Status) != 1 || t.Context().Err() != nil {
			t.Fatalf("%+v", resp)
		}
	}
	for _, c := range []struct{ source, want string }{
		{"__consumer_offsets", "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited."},
		{"a b", "Topic names a b are not valid topic names."},
	} {
		resp := ask[*kmsg.StreamsGroupHeartbeatResponse](t, w, 0, streamsBeat(c.source, "c"))
		if resp.ErrorCode != kerr.StreamsInvalidTopology.Code || resp.ErrorMessage == nil || *resp.ErrorMessage != c.want {
			t.Errorf("%+v", resp)
		}
	}
}
