package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// TestChangesOfGroupsAreAudited: resets and deletions have a line, and the progress of consumers
// has none.
func TestChangesOfGroupsAreAudited(t *testing.T) {
	n, end := auditedNode(t, audit.Refusals, binding(acl.All, acl.Topic, acl.Wildcard, acl.Allow),
		binding(acl.All, acl.Group, acl.Wildcard, acl.Allow))
	n.topic(t, "t", 2)
	n.coordinates(t)
	w := n.dial(t)
	commit := func(group string, partition int32, offset int64) {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 9, group, -1
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = partition, offset
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
		resp := ask[*kmsg.OffsetCommitResponse](t, w, 9, req)
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Fatal(code)
		}
	}
	commit("begins", 0, 5)
	commit("rewinds", 0, 5)
	commit("rewinds", 0, 9)
	commit("rewinds", 0, 3)
	forget := kmsg.NewPtrOffsetDeleteRequest()
	forget.Group = "forgets"
	commit("forgets", 1, 7)
	topic := kmsg.NewOffsetDeleteRequestTopic()
	topic.Topic, topic.Partitions = "t", []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 1}, {Partition: 7}}
	forget.Topics = append(forget.Topics, topic)
	ask[*kmsg.OffsetDeleteResponse](t, w, 0, forget)
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{"begins", "none"}
	ask[*kmsg.DeleteGroupsResponse](t, w, 2, remove)
	events := end()
	var got []string
	for _, name := range []string{"change ALTER GROUP:LITERAL:begins", "change ALTER GROUP:LITERAL:rewinds",
		"change ALTER GROUP:LITERAL:forgets", "change DELETE GROUP:LITERAL:begins", "change DELETE GROUP:LITERAL:none"} {
		got = append(got, fmt.Sprint(events[name]["old"], events[name]["new"]))
	}
	want := []string{"<nil> map[offsets:map[t:map[0:5]]]", "map[offsets:map[t:map[0:9]]] map[offsets:map[t:map[0:3]]]",
		"<nil> map[offsets:map[t:map[1:<nil>]]]", "<nil> <nil>", "<nil> <nil>"}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, recorded := events["change DELETE GROUP:LITERAL:none"]; recorded {
		t.Error("the deletion of a group that does not exist is recorded")
	}
	if _, recorded := events["change DELETE GROUP:LITERAL:begins"]; !recorded {
		t.Error("the deletion of a group is not recorded")
	}
}

// TestEveryChangeIsAudited: an API that changes something declares what its answers change in
// groups, or is one of those whose changes pass the metadata store, or change no more than their
// client's own progress.
func TestEveryChangeIsAudited(t *testing.T) {
	silent := map[string]string{}
	for reason, names := range map[string]string{
		"reads": "Fetch ListOffsets OffsetForLeaderEpoch Metadata OffsetFetch FindCoordinator DescribeGroups ListGroups ApiVersions " +
			"DescribeACLs DescribeConfigs DescribeLogDirs DescribeQuorum DescribeClientQuotas DescribeUserSCRAMCredentials DescribeCluster " +
			"DescribeProducers DescribeTransactions ListTransactions ConsumerGroupDescribe StreamsGroupDescribe GetTelemetrySubscriptions " +
			"ListConfigResources DescribeTopicPartitions ShareGroupDescribe ReadShareGroupState ReadShareGroupStateSummary " +
			"DescribeShareGroupOffsets ListPartitionReassignments",
		"records and progress of clients": "Produce JoinGroup Heartbeat LeaveGroup SyncGroup InitProducerID AddPartitionsToTxn AddOffsetsToTxn " +
			"EndTxn TxnOffsetCommit ConsumerGroupHeartbeat StreamsGroupHeartbeat ShareGroupHeartbeat PushTelemetry WriteTxnMarkers",
		"logins, which have lines of their own": "SASLHandshake SASLAuthenticate",
		"changes of the metadata": "CreateTopics DeleteTopics CreateACLs DeleteACLs AlterConfigs IncrementalAlterConfigs CreatePartitions " +
			"ElectLeaders AlterPartitionAssignments AlterClientQuotas AlterUserSCRAMCredentials UpdateFeatures UnregisterBroker",
		"its handler records resets":          "OffsetCommit",
		"its handler records operators":       "ShareFetch ShareAcknowledge",
		"removes records, and moves replicas": "DeleteRecords AlterReplicaLogDirs",
	} {
		for _, name := range strings.Fields(names) {
			silent[name] = reason
		}
	}
	for _, a := range apis() {
		name := kmsg.NameForKey(a.Key)
		switch _, known := silent[name]; {
		case known && a.audited:
			t.Errorf("%s declares what it changes: remove it from silent", name)
		case !known && !a.audited:
			t.Errorf("%s: declare what its answers change in groups (changes), or add it to silent with the reason", name)
		}
	}
}
