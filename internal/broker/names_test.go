package broker

import (
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/view"
)

// A name that is longer than the bound is refused with the API's error, and nothing is made of it;
// one at the bound is taken.
func TestLongNamesAreRefused(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 1)
	w := n.dial(t)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	eventually(t, "the coordinators are there", func() bool {
		found := ask[*kmsg.FindCoordinatorResponse](t, w, 2, find).ErrorCode == 0
		list := kmsg.NewPtrDescribeGroupsRequest()
		for i := range 200 {
			list.Groups = append(list.Groups, strconv.Itoa(i))
		}
		for _, g := range ask[*kmsg.DescribeGroupsResponse](t, w, 4, list).Groups {
			found = found && g.ErrorCode == 0
		}
		return found
	})
	for extra := range 2 {
		name := strings.Repeat("n", protocol.MaxName+extra)
		code := func(k *kerr.Error) int16 { return k.Code * int16(extra) }
		software := kmsg.NewPtrApiVersionsRequest()
		software.ClientSoftwareName, software.ClientSoftwareVersion = name, "1"
		if got := ask[*kmsg.ApiVersionsResponse](t, w, 3, software); got.ErrorCode != code(kerr.InvalidRequest) {
			t.Errorf("software with a name of %d bytes: %d", len(name), got.ErrorCode)
		}
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Group, commit.Generation = name, -1
		commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: make([]kmsg.OffsetCommitRequestTopicPartition, 1)}}
		if got := ask[*kmsg.OffsetCommitResponse](t, w, 8, commit).Topics[0].Partitions[0]; got.ErrorCode != code(kerr.InvalidGroupID) {
			t.Errorf("an offset of a group with a name of %d bytes: %d", len(name), got.ErrorCode)
		}
		beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		beat.Group, beat.MemberID, beat.RackID, beat.RebalanceTimeoutMillis = "g", "m", &name, 1000
		beat.SubscribedTopicNames, beat.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if got := ask[*kmsg.ConsumerGroupHeartbeatResponse](t, w, 1, beat); got.ErrorCode != code(kerr.InvalidRequest) {
			t.Errorf("a rack of %d bytes: %d", len(name), got.ErrorCode)
		}
	}
	if got := ask[*kmsg.ListGroupsResponse](t, w, 4, kmsg.NewPtrListGroupsRequest()).Groups; len(got) != 2 {
		t.Errorf("groups %+v", got)
	}
}

// What is kept of a client to be shown is cut: a connection costs the same whatever it says.
func TestShownTextsAreCut(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	software := kmsg.NewPtrApiVersionsRequest()
	software.ClientSoftwareName = strings.Repeat("n", protocol.MaxName)
	software.ClientSoftwareVersion = strings.Repeat("1", protocol.MaxName)
	ask[*kmsg.ApiVersionsResponse](t, w, 3, software)
	for _, c := range n.server.Load().Connections() {
		if len(c.Software) > view.MaxWaitText || len(c.Version) > view.MaxWaitText || len(c.Software) < 200 {
			t.Errorf("%d and %d bytes of software are kept", len(c.Software), len(c.Version))
		}
	}
}
