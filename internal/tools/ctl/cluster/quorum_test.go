package cluster

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/view"
)

// Members are compared with the leader: how many entries they lack, and for how long they are
// silent. Kafka's leader has no time, and an older version none at all.
func TestMembersAreComparedWithTheLeader(t *testing.T) {
	type state = kmsg.DescribeQuorumResponseTopicPartitionReplicaState
	p := kmsg.DescribeQuorumResponseTopicPartition{LeaderID: 2, LeaderEpoch: 7, HighWatermark: 90,
		CurrentVoters: []state{
			{ReplicaID: 3, LogEndOffset: 80, LastFetchTimestamp: 7500, ReplicaDirectoryID: [16]byte{7: 3}},
			{ReplicaID: 2, LogEndOffset: 100, LastFetchTimestamp: -1, ReplicaDirectoryID: [16]byte{7: 2}},
			{ReplicaID: 1, LogEndOffset: 100, LastFetchTimestamp: 10_000, ReplicaDirectoryID: [16]byte{7: 1}},
		},
		Observers: []state{{ReplicaID: -1, LogEndOffset: -1, LastFetchTimestamp: -1},
			{ReplicaID: 3, LogEndOffset: 100, LastFetchTimestamp: 10_000, ReplicaDirectoryID: [16]byte{7: 4}}}}
	want := &quorum{Leader: 2, Term: 7, Committed: 90, Members: []quorumMember{
		{Broker: -1, Member: "0000000000000000", Behind: 100},
		{Broker: 1, Member: "0000000000000001", Voter: true},
		{Broker: 2, Member: "0000000000000002", Voter: true},
		{Broker: 3, Member: "0000000000000003", Voter: true, Lost: true, Behind: 20, Silent: 2.5},
		{Broker: 3, Member: "0000000000000004"},
	}}
	if diff := cmp.Diff(want, quorumOf(&p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The admin port adds the states for which Kafka's protocol has no word, and the quorum the brokers
// that wait for their vote.
func TestBrokersShowTheirStates(t *testing.T) {
	all := []broker{{ID: 1, State: "active"}, {ID: 2, State: "active"}, {ID: 3, State: "fenced"}, {ID: 4, State: "fenced"}}
	withStates(all, []view.Broker{{ID: 1, State: "fenced"}, {ID: 2, State: "draining"}, {ID: 3, State: "starting"}},
		&quorum{Members: []quorumMember{{Broker: 1, Voter: true, Lost: true}, {Broker: 2, Voter: true}}})
	var got []string
	for _, b := range all {
		got = append(got, b.State)
	}
	if diff := cmp.Diff([]string{"active, lost voter", "draining", "starting", "fenced"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A broker that is cut off still lists all brokers, with their former states.
func TestStatesOfABrokerThatIsCutOff(t *testing.T) {
	for err, want := range map[error]bool{nil: false, kerr.UnsupportedVersion: false, kerr.NotLeaderForPartition: true} {
		var errs bytes.Buffer
		noteOld(app.New("v", app.Streams{Err: &errs}), err)
		if got := strings.Contains(errs.String(), "may be old"); got != want {
			t.Errorf("%v: %q", err, errs.String())
		}
	}
}
