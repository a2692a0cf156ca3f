package broker

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/security/acl"
)

// subscribe sends a heartbeat of a member that joins a consumer group.
func subscribe(t testing.TB, w *wire, group string, expression *string, names ...string) *kmsg.ConsumerGroupHeartbeatResponse {
	t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis = group, "m", 10_000
	req.SubscribedTopicRegex, req.SubscribedTopicNames, req.Topics = expression, names, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return ask[*kmsg.ConsumerGroupHeartbeatResponse](t, w, 1, req)
}

// A member that subscribes by an expression gets the topics that it may see, and no others: not
// when its rights change, either, nor when topics are created.
func TestAnExpressionMatchesVisibleTopics(t *testing.T) {
	g := newGuarded(t, quick)
	names := map[[16]byte]string{}
	for _, name := range []string{"t1", "t2", "t3", "other"} {
		names[g.topic(t, name, 1)] = name
	}
	g.coordinates(t)
	w := g.dial(t)
	group := groupRight(acl.Read, "cg")
	g.allow(group, topicRight(acl.Describe, "t1"))
	expression := "t.*"
	joined := subscribe(t, w, "cg", &expression)
	epoch, has := joined.MemberEpoch, []string{}
	beat := func() []string {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch = "cg", "m", epoch
		req.RebalanceTimeoutMillis = -1
		resp := ask[*kmsg.ConsumerGroupHeartbeatResponse](t, w, 1, req)
		if resp.ErrorCode != 0 {
			t.Fatalf("%+v", resp)
		}
		epoch = resp.MemberEpoch
		if resp.Assignment != nil {
			has = []string{}
			var owned []kmsg.ConsumerGroupHeartbeatRequestTopic
			for _, topic := range resp.Assignment.Topics {
				has = append(has, names[topic.TopicID])
				owned = append(owned, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topic.TopicID, Partitions: topic.Partitions})
			}
			slices.Sort(has)
			req.MemberEpoch, req.Topics = epoch, owned
			epoch = ask[*kmsg.ConsumerGroupHeartbeatResponse](t, w, 1, req).MemberEpoch
		}
		return has
	}
	if joined.ErrorCode != 0 || joined.Assignment == nil || len(joined.Assignment.Topics) != 1 ||
		names[joined.Assignment.Topics[0].TopicID] != "t1" {
		t.Fatalf("%+v", joined)
	}
	has = []string{"t1"}
	// More rights, fewer, and a topic that appears.
	change := func(want []string, rights ...right) {
		t.Helper()
		g.allow(append(rights, group)...)
		g.rulesChanged(t)
		eventually(t, "the assignment is what the rules allow", func() bool { return slices.Equal(beat(), want) })
	}
	change([]string{"t1", "t3"}, topicRight(acl.Describe, "t1"), topicRight(acl.Read, "t3"))
	change([]string{"t3"}, topicRight(acl.Describe, "t3"), topicRight(acl.Describe, "other"))
	names[g.topic(t, "t4", 1)] = "t4"
	names[g.topic(t, "t5", 1)] = "t5"
	change([]string{"t3", "t5"}, topicRight(acl.Describe, "t3"), topicRight(acl.Describe, "t5"))
	// A description shows the expression as the member has it.
	g.rules.Store(nil)
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Groups = []string{"cg"}
	if d := ask[*kmsg.ConsumerGroupDescribeResponse](t, w, 1, describe).Groups[0]; *d.Members[0].SubscribedTopicRegex != expression {
		t.Errorf("%+v", d)
	}
	nul := "t.*\x00User:admin\x00127.0.0.1"
	if resp := subscribe(t, w, "other", &nul); resp.ErrorCode != kerr.InvalidRegularExpression.Code {
		t.Errorf("%+v", resp)
	}
}

// Who may not describe every topic that a group's members subscribe to, or have, sees no member.
func TestADescriptionHidesGroupsOfHiddenTopics(t *testing.T) {
	g := newGuarded(t, quick, atOnceStreams)
	g.topic(t, "t", 1)
	g.topic(t, hiddenTopic, 1)
	g.coordinates(t)
	w := g.dial(t)
	expression := "can.*"
	for _, resp := range []*kmsg.ConsumerGroupHeartbeatResponse{subscribe(t, w, "named", nil, "t", hiddenTopic),
		subscribe(t, w, "matched", &expression), subscribe(t, w, "open", nil, "t")} {
		if resp.ErrorCode != 0 {
			t.Fatalf("%+v", resp)
		}
	}
	if resp := ask[*kmsg.StreamsGroupHeartbeatResponse](t, w, 0, streamsBeat("t", hiddenTopic)); resp.ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	rights := []right{groupRight(acl.Describe, acl.Wildcard), topicRight(acl.Describe, "t")}
	for _, seen := range []bool{false, true} {
		if g.allow(rights...); seen {
			g.allow(append(rights, topicRight(acl.Describe, hiddenTopic))...)
		}
		req := kmsg.NewPtrConsumerGroupDescribeRequest()
		req.Groups, req.IncludeAuthorizedOperations = []string{"named", "matched", "open"}, true
		list := ask[*kmsg.ConsumerGroupDescribeResponse](t, w, 1, req).Groups
		streams := kmsg.NewPtrStreamsGroupDescribeRequest()
		streams.Groups = []string{"g"}
		s := ask[*kmsg.StreamsGroupDescribeResponse](t, w, 0, streams).Groups[0]
		for i, hidden := range []bool{!seen, !seen, false} {
			d := list[i]
			if (d.ErrorCode == kerr.TopicAuthorizationFailed.Code) != hidden || (len(d.Members) == 0) != hidden ||
				(d.AuthorizedOperations == opsNotAsked) != hidden || d.Group != req.Groups[i] {
				t.Errorf("seen: %t: %+v", seen, d)
			}
		}
		if (s.ErrorCode == kerr.TopicAuthorizationFailed.Code) == seen || (s.Topology == nil) == seen || (len(s.Members) == 0) == seen {
			t.Errorf("seen: %t: %+v", seen, s)
		}
	}
}

// Lists leave out what the client may not describe.
func TestListsHaveVisibleEntriesOnly(t *testing.T) {
	g := newGuarded(t, quick)
	g.authWorld(t)
	w := g.dial(t)
	for ask[*kmsg.ListTransactionsResponse](t, w, 1, kmsg.NewPtrListTransactionsRequest()).ErrorCode != 0 {
		time.Sleep(time.Millisecond) // a partition of the coordinator is being loaded
	}
	lists := func() (all []string) {
		for _, x := range ask[*kmsg.ListGroupsResponse](t, w, 4, kmsg.NewPtrListGroupsRequest()).Groups {
			all = append(all, x.Group)
		}
		for _, x := range ask[*kmsg.ListTransactionsResponse](t, w, 1, kmsg.NewPtrListTransactionsRequest()).TransactionStates {
			all = append(all, x.TransactionalID)
		}
		offsets := kmsg.NewPtrOffsetFetchRequest()
		one := kmsg.NewOffsetFetchRequestGroup()
		one.Group = "g"
		offsets.Groups = []kmsg.OffsetFetchRequestGroup{one}
		for _, x := range ask[*kmsg.OffsetFetchResponse](t, w, 9, offsets).Groups[0].Topics {
			all = append(all, x.Topic)
		}
		describe := kmsg.NewPtrDescribeTransactionsRequest()
		describe.TransactionalIDs = []string{"tx"}
		for _, x := range ask[*kmsg.DescribeTransactionsResponse](t, w, 0, describe).TransactionStates[0].Topics {
			all = append(all, x.Topic)
		}
		for _, x := range ask[*kmsg.MetadataResponse](t, w, 9, &kmsg.MetadataRequest{}).Topics {
			all = append(all, *x.Topic)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	for _, c := range []struct {
		rights []right
		want   []string
	}{
		{nil, nil},
		{[]right{groupRight(acl.Read, "g"), topicRight(acl.Read, "t")}, []string{"g", "t"}},
		{[]right{txnRight(acl.Write, "tx"), topicRight(acl.Describe, hiddenTopic)}, []string{hiddenTopic, "tx"}},
		{[]right{clusterRight(acl.Describe)}, []string{hiddenGroup, "g"}},
	} {
		g.allow(c.rights...)
		if got := lists(); !slices.Equal(got, c.want) {
			t.Errorf("with %v: %q, want %q", c.rights, got, c.want)
		}
	}
}

// The broker makes the internal topics of a streams group for a client that may create them.
func TestStreamsTopicsAreMadeForWhoMayCreateThem(t *testing.T) {
	g := newGuarded(t, quick, atOnceStreams)
	g.topic(t, "in", 1)
	g.coordinates(t)
	w := g.dial(t)
	rights := []right{groupRight(acl.Read, "g"), topicRight(acl.Describe, "in"), topicRight(acl.Describe, "g-s-changelog")}
	g.allow(rights...)
	resp := ask[*kmsg.StreamsGroupHeartbeatResponse](t, w, 0, streamsBeat("in", "g-s-changelog"))
	if resp.ErrorCode != 0 || len(resp.Status) != 1 ||
		resp.Status[0].StatusDetail != "Internal topics are missing: g-s-changelog; Unauthorized to CREATE on topics g-s-changelog." {
		t.Errorf("%+v", resp)
	}
	if g.image().Topic("g-s-changelog") != nil {
		t.Error("the topic is there")
	}
	g.allow(append(rights, topicRight(acl.Create, "g-s-changelog"))...)
	eventually(t, "the topic is made", func() bool {
		resp = ask[*kmsg.StreamsGroupHeartbeatResponse](t, w, 0, again(resp.MemberEpoch))
		return g.image().Topic("g-s-changelog") != nil
	})
}
