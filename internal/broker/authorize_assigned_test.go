package broker

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/security/acl"
)

// joinClassic joins a group by the classic protocol, as a consumer of some topics, and fetches its
// assignment: nil if it was refused.
func joinClassic(t testing.TB, w *wire, group string, names ...string) (*kmsg.JoinGroupResponse, *kmsg.SyncGroupResponse) {
	t.Helper()
	said := kmsg.NewConsumerMemberMetadata()
	said.Topics = names
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = group, "consumer", 10_000, 10_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: said.AppendTo(nil)}}
	joined := ask[*kmsg.JoinGroupResponse](t, w, 5, join)
	if joined.ErrorCode == kerr.MemberIDRequired.Code {
		join.MemberID = joined.MemberID
		joined = ask[*kmsg.JoinGroupResponse](t, w, 5, join)
	}
	if joined.ErrorCode != 0 {
		return joined, nil
	}
	return joined, syncClassic(t, w, group, joined)
}

func syncClassic(t testing.TB, w *wire, group string, joined *kmsg.JoinGroupResponse) *kmsg.SyncGroupResponse {
	t.Helper()
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = group, joined.MemberID, joined.Generation
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	return ask[*kmsg.SyncGroupResponse](t, w, 5, sync)
}

// A member of a consumer group that uses the classic protocol is assigned its partitions by the
// broker. So it learns neither that a hidden topic exists, nor how many partitions it has.
func TestAClassicMemberIsAssignedVisibleTopics(t *testing.T) {
	g := newGuarded(t, quick)
	g.topic(t, "t", 1)
	g.topic(t, hiddenTopic, 3)
	g.coordinates(t)
	w := g.dial(t)
	g.allow(groupRight(acl.Read, "cg"), topicRight(acl.Describe, "t"))
	if resp := subscribe(t, w, "cg", nil, "t"); resp.ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	for _, name := range []string{hiddenTopic, "none"} {
		if joined, _ := joinClassic(t, w, "cg", "t", name); joined.ErrorCode != kerr.TopicAuthorizationFailed.Code || joined.MemberID != "" {
			t.Errorf("%s: %+v", name, joined)
		}
	}
	// Who has joined loses what is hidden from it later.
	g.allow(groupRight(acl.Read, "other"), topicRight(acl.Describe, "t"), topicRight(acl.Describe, hiddenTopic))
	if resp := subscribe(t, w, "other", nil, "t"); resp.ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	joined, synced := joinClassic(t, w, "other", hiddenTopic)
	if synced == nil || !bytes.Contains(synced.MemberAssignment, []byte(hiddenTopic)) {
		t.Fatalf("%+v: %+v", joined, synced)
	}
	g.allow(groupRight(acl.Read, "other"), topicRight(acl.Describe, "t"))
	if again := syncClassic(t, w, "other", joined); again.ErrorCode != 0 || bytes.Contains(again.MemberAssignment, []byte(hiddenTopic)) {
		t.Errorf("%+v", again)
	}
}

// Who joins a streams group with an older topology learns none of the topics of the group's own.
func TestAStreamsMemberLearnsNoHiddenTopic(t *testing.T) {
	g := newGuarded(t, quick, atOnceStreams)
	g.topic(t, hiddenTopic, 3)
	g.coordinates(t)
	w := g.dial(t)
	join := func(group, member, source string) *kmsg.StreamsGroupHeartbeatResponse {
		req := streamsBeat(source, "")
		req.Group, req.MemberID = group, member
		req.UserEndpoint = &kmsg.StreamsGroupHeartbeatRequestUserEndpoint{Host: member, Port: 1}
		req.Topology.Subtopologies[0].StateChangelogTopics = nil
		if req.Topology.Epoch = 1; source == "" {
			req.Topology.Epoch, req.Topology.Subtopologies = 0, nil
		}
		resp := ask[*kmsg.StreamsGroupHeartbeatResponse](t, w, 0, req)
		if resp.ErrorCode != 0 {
			t.Fatalf("%+v", resp)
		}
		return resp
	}
	for group, source := range map[string]string{"running": hiddenTopic, "waiting": "canary-missing"} {
		g.rules.Store(nil)
		if resp := join(group, "m", source); !bytes.Contains(resp.AppendTo(nil), []byte("canary")) {
			t.Errorf("%s: %+v", group, resp)
		}
		for _, rights := range [][]right{{groupRight(acl.Read, group)}, {groupRight(acl.Read, group), clusterRight(acl.Create)}} {
			g.allow(rights...)
			if resp := join(group, "spy", ""); bytes.Contains(resp.AppendTo(nil), []byte("canary")) {
				t.Errorf("%s: %+v", group, resp)
			}
		}
	}
}
