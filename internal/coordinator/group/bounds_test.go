package group

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// A request must cost about what the client sent, or a small multiple: a slow request blocks all
// other groups of the shard.

// Each offset's record contains the names of its group and topic.
func TestRecordsOfOneCommitAreBounded(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxRecord = 1 << 20 })
	w.topics.list["t"] = 1000
	req := commitOf("", -1, "t", 0)
	req.Group = strings.Repeat("g", 10_000)
	req.Topics[0].Partitions = make([]kmsg.OffsetCommitRequestTopicPartition, 1000)
	is(t, w.commit(req), kerr.InvalidCommitOffsetSize)
	if len(w.log) > 0 || len(w.shard.groups) > 0 {
		t.Errorf("%d records, %d groups", len(w.log), len(w.shard.groups))
	}
	req.Topics[0].Partitions = req.Topics[0].Partitions[:100]
	is(t, w.commit(req), nil)
}

func TestTopicsOfOneMemberAreBounded(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxRecord = 1 << 20 })
	req := full("m", strings.Repeat("t", 1<<19), strings.Repeat("u", 1<<19))
	is(t, w.consumerBeat(req).ErrorCode, kerr.InvalidRequest)
	if len(w.log) > 0 || len(w.shard.groups) > 0 {
		t.Errorf("%d records, %d groups", len(w.log), len(w.shard.groups))
	}
}

func TestExpressionIsBounded(t *testing.T) {
	w := newWorld(t)
	for expression, code := range map[string]*kerr.Error{
		strings.Repeat("(a{0,1000}b)|", 20) + "c":            kerr.InvalidRegularExpression,
		strings.Repeat("(", 30_000):                          kerr.InvalidRegularExpression,
		strings.Repeat("orders-of-a-customer-x|", 300) + "y": nil,
	} {
		req := full("m")
		req.SubscribedTopicNames, req.SubscribedTopicRegex = nil, &expression
		resp := w.consumerBeat(req)
		is(t, resp.ErrorCode, code)
		if resp.ErrorMessage != nil && len(*resp.ErrorMessage) > 2*maxShown {
			t.Errorf("the message has %d bytes", len(*resp.ErrorMessage))
		}
	}
}

func manyProtocols(prefix string, n int) []kmsg.JoinGroupRequestProtocol {
	list := make([]kmsg.JoinGroupRequestProtocol, n)
	for i := range list {
		list[i] = kmsg.JoinGroupRequestProtocol{Name: fmt.Sprint(prefix, i), Metadata: subscription("t")}
	}
	return list
}

// Comparing each protocol with each would take minutes.
func TestMembersMayNameManyProtocols(t *testing.T) {
	w := newWorld(t)
	const n = 20_000
	with := func(list []kmsg.JoinGroupRequestProtocol) func(*kmsg.JoinGroupRequest) {
		return func(r *kmsg.JoinGroupRequest) { r.Protocols = list }
	}
	first, second := manyProtocols("a", n), manyProtocols("b", n)
	_, j := w.join("", with(first))
	w.advance(0)
	w.joined(j)
	other := joinOf("", with(second))
	is(t, ask[*kmsg.JoinGroupResponse](w, request(other)).ErrorCode, kerr.InconsistentGroupProtocol)
	second[n-1].Name = first[n/2].Name
	other.MemberID = ""
	is(t, ask[*kmsg.JoinGroupResponse](w, request(other)).ErrorCode, kerr.MemberIDRequired)
}

func TestConsumerGroupMembersMayNameManyProtocols(t *testing.T) {
	w := newWorld(t)
	w.topics.list["t"] = 4
	w.event(TopicsChanged{Topics: w.topics.clone(), All: true})
	const n = 100_000
	w.newClient("new", "t")
	c := w.shard.groups["g"].consumer()
	old := c.member("old")
	old.meta.Classic = &format.Classic{Protocols: protocolsOf(manyProtocols("a", n))}
	if c.supportsClassic(manyProtocols("b", n)) {
		t.Error("no protocol is shared")
	}
	if !c.supportsClassic(append(manyProtocols("b", n), manyProtocols("a", 1)...)) {
		t.Error("a protocol is shared")
	}
}

// The next leader is searched once, not for each member that leaves.
func TestManyMembersMayLeaveAtOnce(t *testing.T) {
	w := newWorld(t)
	leader, other, _ := w.two()
	g := w.shard.groups["g"]
	gone := []kmsg.LeaveGroupRequestMember{{MemberID: leader}, {MemberID: other}}
	const n = 60_000
	for i := range n + 2 {
		id := fmt.Sprint("m", i)
		g.classic().add(&classicMember{id: id, session: 10_000, rebalance: 10_000})
		if i < n {
			gone = append(gone, kmsg.LeaveGroupRequestMember{MemberID: id}) // each is the leader at some point
		}
	}
	for _, m := range w.leave(gone...).Members {
		if m.ErrorCode != 0 {
			t.Fatalf("%s: %d", m.MemberID, m.ErrorCode)
		}
	}
	if g.classic().leader != fmt.Sprint("m", n) || len(g.classic().members) != 2 {
		t.Errorf("%s leads %d members", g.classic().leader, len(g.classic().members))
	}
}

// Subscriptions are decoded once, not for every topic.
func TestManyTopicsAndSubscriptions(t *testing.T) {
	w := newWorld(t)
	w.two()
	g := w.shard.groups["g"]
	var topics []string
	for i := range 100 {
		topics = append(topics, fmt.Sprint("t", i))
	}
	for i := range 2000 {
		g.classic().add(&classicMember{id: fmt.Sprint("m", i),
			protocols: []format.Protocol{{Name: "range", Metadata: subscription(topics...)}}})
	}
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = "g"
	for i := range 20_000 {
		req.Topics = append(req.Topics, kmsg.OffsetDeleteRequestTopic{Topic: fmt.Sprint("t", i%200),
			Partitions: make([]kmsg.OffsetDeleteRequestTopicPartition, 1)})
	}
	for i, topic := range ask[*kmsg.OffsetDeleteResponse](w, request(req)).Topics {
		if (topic.Partitions[0].ErrorCode == kerr.GroupSubscribedToTopic.Code) != (i%200 < 100) {
			t.Fatalf("%s: %d", topic.Topic, topic.Partitions[0].ErrorCode)
		}
	}
}

func TestMemberMetadataIsBounded(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxRequest = 1000 })
	large := func(r *kmsg.JoinGroupRequest) {
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "a", Metadata: make([]byte, 600)}, {Name: "b", Metadata: make([]byte, 600)}}
	}
	is(t, ask[*kmsg.JoinGroupResponse](w, request(joinOf("", large))).ErrorCode, kerr.InvalidRequest)
}

func TestAFilterMayHaveManyWords(t *testing.T) {
	w := newWorld(t)
	const n = 30_000
	for i := range n {
		w.shard.group(fmt.Sprint("g", i))
	}
	filter := make([]string, 500_000)
	for i := range filter {
		filter[i] = fmt.Sprint("emptx", i)
	}
	filter[len(filter)-1] = "eMPTY"
	if got := len(ask[[]kmsg.ListGroupsResponseGroup](w, List{States: FilterOf(filter), Types: FilterOf([]string{"CLASSIC"})})); got != n {
		t.Errorf("%d groups", got)
	}
}

// A cluster may have a hundred thousand groups and create a thousand topics.
func TestTopicChangeIsCheapForUnaffectedGroups(t *testing.T) {
	w := newWorld(t)
	for i := range 1000 {
		req := commitOf("", -1, "t", 0)
		req.Group = fmt.Sprint("g", i)
		is(t, w.commit(req), nil)
	}
	change := TopicsChanged{Topics: w.topics, Changed: []string{"u", "v"}, Deleted: []string{"v"}}
	if n := testing.AllocsPerRun(10, func() { w.event(change) }); n > 5 {
		t.Errorf("%.0f allocations", n)
	}
}
