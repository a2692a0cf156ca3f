package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// fillShareOffsets is fillRequest for the requests about offsets of share groups.
func fillShareOffsets(r kmsg.Request) {
	v := r.GetVersion()
	switch r := r.(type) {
	case *kmsg.DescribeShareGroupOffsetsRequest:
		*r = *describeShareOffsets("g", "t", 0, 1)
	case *kmsg.AlterShareGroupOffsetsRequest:
		*r = *alterShareOffsets("t", 5, 1, 100)
	case *kmsg.DeleteShareGroupOffsetsRequest:
		*r = *deleteShareOffsets("t")
	}
	r.SetVersion(v)
}

// describeShareOffsets asks for partitions of a topic; "": for all.
func describeShareOffsets(id, topic string, partitions ...int32) *kmsg.DescribeShareGroupOffsetsRequest {
	req := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	g := kmsg.DescribeShareGroupOffsetsRequestGroup{GroupID: id}
	if topic != "" {
		g.Topics = []kmsg.DescribeShareGroupOffsetsRequestGroupTopic{{Topic: topic, Partitions: partitions}}
	}
	req.Groups = []kmsg.DescribeShareGroupOffsetsRequestGroup{g}
	return req
}

func alterShareOffsets(topic string, start int64, partitions ...int32) *kmsg.AlterShareGroupOffsetsRequest {
	req := kmsg.NewPtrAlterShareGroupOffsetsRequest()
	t := kmsg.AlterShareGroupOffsetsRequestTopic{Topic: topic}
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, kmsg.AlterShareGroupOffsetsRequestTopicPartition{Partition: p, StartOffset: start})
	}
	req.GroupID, req.Topics = "g", []kmsg.AlterShareGroupOffsetsRequestTopic{t}
	return req
}

func deleteShareOffsets(topics ...string) *kmsg.DeleteShareGroupOffsetsRequest {
	req := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
	req.GroupID = "g"
	for _, name := range topics {
		req.Topics = append(req.Topics, kmsg.DeleteShareGroupOffsetsRequestTopic{Topic: name})
	}
	return req
}

// positionsOf returns the positions of an answer: topic/partition: start, leader epoch, lag, error.
func positionsOf(resp *kmsg.DescribeShareGroupOffsetsResponse) string {
	var b strings.Builder
	for i := range resp.Groups {
		g := &resp.Groups[i]
		fmt.Fprintf(&b, "%s(%d)", g.GroupID, g.ErrorCode)
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(&b, " %s/%d: %d %d %d (%d)", t.Topic, p.Partition, p.StartOffset, p.LeaderEpoch, p.Lag, p.ErrorCode)
			}
		}
	}
	return b.String()
}

// A group gets offsets before it has a member, and loses them.
func TestShareGroupOffsets(t *testing.T) {
	states := &shareStates{all: map[format.Key]int64{}, led: sharestate.Led{High: 17}}
	n := newNode(t, quick, withShares(states))
	id := n.topic(t, "in", 2)
	n.coordinates(t)
	w := n.dial(t)
	described := func(v int16, req *kmsg.DescribeShareGroupOffsetsRequest, want string) {
		t.Helper()
		if got := positionsOf(ask[*kmsg.DescribeShareGroupOffsetsResponse](t, w, v, req)); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	described(1, describeShareOffsets("g", ""), "g(0)")
	described(1, describeShareOffsets("g", "in", 0, 7), "g(0) in/0: -1 0 -1 (0) in/7: -1 0 -1 (0)")
	described(1, describeShareOffsets("g", "none", 0), "g(0) none/0: -1 0 -1 (0)")

	altered := ask[*kmsg.AlterShareGroupOffsetsResponse](t, w, 0, alterShareOffsets("in", 5, 1, 100))
	if p := altered.Topics[0].Partitions; altered.ErrorCode != 0 || altered.Topics[0].TopicID != id || p[0].ErrorCode != 0 ||
		p[1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("%+v", altered)
	}
	described(0, describeShareOffsets("g", ""), "g(0) in/1: 5 3 -1 (0)")
	described(1, describeShareOffsets("g", ""), "g(0) in/1: 5 3 10 (0)") // 17 - 5 - 2
	described(1, describeShareOffsets("g", "in", 0, 1), "g(0) in/0: -1 0 -1 (0) in/1: 5 3 10 (0)")
	if d, _, err := n.groups.Describe(t.Context(), "g"); err != nil || d.Kind != "share" || d.State != "Empty" || d.Lag != 10 ||
		len(d.Offsets) != 1 || d.Offsets[0].Committed != 5 || d.Offsets[0].End != 17 || d.Offsets[0].Share.Loaded {
		t.Errorf("%+v, %v", d, err)
	}
	states.mu.Lock()
	states.led.LogStart = 15 // the log begins above the group's start, and the window is not in memory
	states.mu.Unlock()
	described(1, describeShareOffsets("g", ""), "g(0) in/1: 5 3 2 (0)")
	states.mu.Lock()
	states.led.Err = kerr.CoordinatorNotAvailable // the leader cannot be asked
	states.mu.Unlock()
	described(1, describeShareOffsets("g", ""), "g(0) in/1: 5 3 -1 (0)")

	internal := ask[*kmsg.AlterShareGroupOffsetsResponse](t, w, 0, alterShareOffsets("__consumer_offsets", 5, 0))
	if code := internal.Topics[0].Partitions[0].ErrorCode; code != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("an internal topic: %d", code)
	}
	deleted := ask[*kmsg.DeleteShareGroupOffsetsResponse](t, w, 0, deleteShareOffsets("in", "none"))
	if x := deleted.Topics; deleted.ErrorCode != 0 || x[0].ErrorCode != 0 || x[0].TopicID != id ||
		x[1].ErrorCode != kerr.UnknownTopicOrPartition.Code || states.count() != 0 {
		t.Errorf("%+v, %d states", deleted, states.count())
	}
	described(1, describeShareOffsets("g", ""), "g(0)")

	ask[*kmsg.ShareGroupHeartbeatResponse](t, w, 1, shareBeat("m", 0, "in"))
	altered = ask[*kmsg.AlterShareGroupOffsetsResponse](t, w, 0, alterShareOffsets("in", 5, 1))
	if altered.ErrorCode != kerr.NonEmptyGroup.Code {
		t.Errorf("an alteration with a member: %+v", altered)
	}
	forget := ask[*kmsg.DeleteShareGroupOffsetsResponse](t, w, 0, deleteShareOffsets("in"))
	if forget.ErrorCode != kerr.NonEmptyGroup.Code {
		t.Errorf("a deletion with a member: %+v", forget)
	}
}

// Who has no right to a topic does not see it, and changes nothing of it.
func TestShareGroupOffsetsRights(t *testing.T) {
	states := &shareStates{all: map[format.Key]int64{}}
	g := newGuarded(t, quick, withShares(states))
	g.topic(t, "in", 1)
	g.topic(t, "other", 1)
	g.coordinates(t)
	w := g.dial(t)
	g.allow()
	refused := func(what string, code int16, want *kerr.Error) {
		t.Helper()
		if code != want.Code {
			t.Errorf("%s: %d, want %s", what, code, want.Message)
		}
	}
	alter := alterShareOffsets("in", 5, 0)
	alter.Topics = append(alter.Topics, alterShareOffsets("other", 5, 0).Topics...)
	refused("describe", ask[*kmsg.DescribeShareGroupOffsetsResponse](t, w, 1, describeShareOffsets("g", "in", 0)).Groups[0].ErrorCode,
		kerr.GroupAuthorizationFailed)
	whole := ask[*kmsg.AlterShareGroupOffsetsResponse](t, w, 0, alter)
	if refused("alter", whole.ErrorCode, kerr.GroupAuthorizationFailed); len(whole.Topics) > 0 {
		t.Errorf("%+v", whole)
	}
	forget := ask[*kmsg.DeleteShareGroupOffsetsResponse](t, w, 0, deleteShareOffsets("in"))
	refused("delete", forget.ErrorCode, kerr.GroupAuthorizationFailed)

	g.allow(groupRight(acl.Read, "g"), groupRight(acl.Delete, "g"), topicRight(acl.Read, "in"))
	got := ask[*kmsg.AlterShareGroupOffsetsResponse](t, w, 0, alter)
	if len(got.Topics) != 2 || got.Topics[0].Partitions[0].ErrorCode != 0 || states.count() != 1 {
		t.Fatalf("%+v, %d states", got, states.count())
	}
	refused("alter", got.Topics[1].Partitions[0].ErrorCode, kerr.TopicAuthorizationFailed)
	if seen := positionsOf(ask[*kmsg.DescribeShareGroupOffsetsResponse](t, w, 0, describeShareOffsets("g", ""))); seen !=
		"g(0) in/0: 5 3 -1 (0)" {
		t.Error(seen)
	}
	if seen := positionsOf(ask[*kmsg.DescribeShareGroupOffsetsResponse](t, w, 0, describeShareOffsets("g", "other", 0))); seen !=
		"g(0) other/0: -1 0 -1 (29)" {
		t.Error(seen)
	}
	removed := ask[*kmsg.DeleteShareGroupOffsetsResponse](t, w, 0, deleteShareOffsets("in", "other"))
	if len(removed.Topics) != 2 || removed.Topics[0].ErrorCode != 0 || states.count() != 0 {
		t.Fatalf("%+v, %d states", removed, states.count())
	}
	refused("delete", removed.Topics[1].ErrorCode, kerr.TopicAuthorizationFailed)
}
