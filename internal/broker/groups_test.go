package broker

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/metadata"
)

// quick has settings with which groups don't wait for members that don't come.
func quick(o *nodeOptions) {
	o.static["group.initial.rebalance.delay.ms"] = "0"
	o.static["offsets.topic.num.partitions"] = "3"
	o.static["group.consumer.heartbeat.interval.ms"] = "50"
}

// protocols are the two ways to be in a group, by the type of the group.
func protocols() map[string][]kgo.Opt {
	return map[string][]kgo.Opt{"classic": nil, "consumer": {kgo.ServerSideBalancer()}}
}

// member is a consumer of a group.
func (n *node) member(t testing.TB, group, topic string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return n.client(t, append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.HeartbeatInterval(50 * time.Millisecond), kgo.RebalanceTimeout(time.Minute),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, opts...)...)
}

// fill writes records 0 to count-1 to a topic, to its partitions in turn.
func (n *node) fill(t testing.TB, topic string, count, partitions int) {
	t.Helper()
	c := n.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range count {
		must(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: int32(i % partitions),
			Value: fmt.Append(nil, i)}).FirstErr())
	}
}

// poll reads until it has want records.
func poll(t testing.TB, c *kgo.Client, want int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []string
	for len(got) < want {
		f := c.PollFetches(ctx)
		must(t, f.Err())
		f.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	slices.Sort(got)
	return got
}

func TestAGroupReadsCommitsAndGoesOn(t *testing.T) {
	for name, opts := range protocols() {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, quick)
			n.topic(t, "t", 2)
			n.fill(t, "t", 4, 2)
			c := n.member(t, "g", "t", opts...)
			if got := poll(t, c, 4); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
				t.Fatal(got)
			}
			must(t, c.CommitUncommittedOffsets(t.Context()))
			listed, err := kadm.NewClient(c).ListGroupsByType(t.Context(), []string{name})
			must(t, err)
			if g := listed["g"]; g.State != "Stable" || g.ProtocolType != "consumer" {
				t.Errorf("%+v", listed)
			}
			c.Close()
			n.fill(t, "t", 2, 2)
			c = n.member(t, "g", "t", opts...)
			if got := poll(t, c, 2); !slices.Equal(got, []string{"0", "1"}) {
				t.Fatal(got)
			}
			offsets, err := kadm.NewClient(c).FetchOffsets(t.Context(), "g")
			must(t, err)
			if o, ok := offsets.Lookup("t", 1); !ok || o.At != 2 {
				t.Errorf("%+v", o)
			}
			if topic := n.image().Topic(service.OffsetsTopic); !topic.Internal || topic.Partitions.Len() != 3 ||
				topic.Configs["cleanup.policy"] != "compact" {
				t.Errorf("%+v", topic)
			}
		})
	}
}

// coordinates waits until the node coordinates groups.
func (n *node) coordinates(t testing.TB) {
	t.Helper()
	w := n.dial(t)
	eventually(t, "groups have a coordinator", func() bool {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKeys = []string{"g"}
		resp := ask[*kmsg.FindCoordinatorResponse](t, w, 4, req)
		list := kmsg.NewPtrListGroupsRequest()
		return resp.Coordinators[0].ErrorCode == 0 && ask[*kmsg.ListGroupsResponse](t, w, 4, list).ErrorCode == 0
	})
}

// listed waits until ListGroups reports a group.
func listed(t *testing.T, w *wire) {
	t.Helper()
	eventually(t, "there is a group", func() bool {
		return len(ask[*kmsg.ListGroupsResponse](t, w, 4, kmsg.NewPtrListGroupsRequest()).Groups) > 0
	})
}

// Members join and leave; every partition is assigned to exactly one of them.
func TestMembersComeAndGo(t *testing.T) {
	for name, opts := range protocols() {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, quick)
			n.topic(t, "t", 4)
			n.coordinates(t)
			var members []*kgo.Client
			for len(members) < 3 {
				members = append(members, n.member(t, "g", "t", opts...))
				n.shared(t, members, 4)
			}
			members[0].Close()
			n.shared(t, members[1:], 4)
			members[1].Close()
			n.shared(t, members[2:], 4)
			n.fill(t, "t", 8, 4)
			if got := poll(t, members[2], 8); len(got) != 8 {
				t.Error(got)
			}
		})
	}
}

// shared waits until members have a topic's partitions, each about as many.
func (n *node) shared(t testing.TB, members []*kgo.Client, partitions int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		counts, owners := []int{}, map[string]int{}
		g, err := n.assigned(t, members[0])
		must(t, err)
		for _, owned := range g {
			counts = append(counts, len(owned))
			for _, p := range owned {
				owners[p]++
			}
		}
		if slices.Max(append(slices.Collect(maps.Values(owners)), 0)) > 1 {
			t.Fatalf("a partition has two owners: %v", g)
		}
		if len(counts) == len(members) && len(owners) == partitions && slices.Max(counts)-slices.Min(counts) <= 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d members have %v", len(members), g)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// assigned returns the assignments of the group's members, as an administrator sees them.
func (n *node) assigned(t testing.TB, c *kgo.Client) (map[string][]string, error) {
	t.Helper()
	a := map[string][]string{}
	g, err := kadm.NewClient(c).DescribeGroups(t.Context(), "g")
	if err != nil {
		return nil, err
	}
	for _, m := range g["g"].Members {
		a[m.MemberID] = nil
		if assignment, ok := m.Assigned.AsConsumer(); ok {
			for _, topic := range assignment.Topics {
				for _, p := range topic.Partitions {
					a[m.MemberID] = append(a[m.MemberID], fmt.Sprint(topic.Topic, p))
				}
			}
		}
	}
	if len(a) > 0 {
		return a, nil
	}
	consumers, err := kadm.NewClient(c).DescribeConsumerGroups(t.Context(), "g")
	for _, m := range consumers["g"].Members {
		a[m.MemberID] = nil
		for topic, list := range m.Assignment {
			for p := range list {
				a[m.MemberID] = append(a[m.MemberID], fmt.Sprint(topic, p))
			}
		}
	}
	return a, err
}

// Before the first FindCoordinator there is no coordinator: every API of groups reports that in its
// own way, and none keeps the client waiting.
func TestNoCoordinatorWithoutATopic(t *testing.T) {
	var metric counted
	n := newNode(t, quick, metric.by)
	id := n.topic(t, "t", 2)
	w := n.dial(t)
	seen := map[int16]bool{}
	for _, a := range n.table.APIs() {
		if n.entries[a.Key].route != byGroup {
			continue
		}
		for v := a.Min; v <= a.Max; v++ {
			req := kmsg.RequestForKey(a.Key)
			fillRequest(req, id)
			clear(seen)
			resp := ask[kmsg.Response](t, w, v, req)
			errorCodes(reflect.ValueOf(resp), func(code int16) { seen[code] = true })
			if !seen[kerr.NotCoordinator.Code] {
				t.Errorf("%s version %d: errors %v", a.Name(), v, seen)
			}
			metric.check(t, resp)
		}
	}
	if resp := ask[*kmsg.ListGroupsResponse](t, w, 5, kmsg.NewPtrListGroupsRequest()); resp.ErrorCode != 0 || len(resp.Groups) > 0 {
		t.Errorf("%+v", resp)
	}
}

// A join that waits for others occupies no goroutine, holds no memory of its request, and is
// answered when the broker stops.
func TestAStopDoesNotWaitForTheMembersOfAGroup(t *testing.T) {
	n := newNode(t, quick, func(o *nodeOptions) { o.static["group.initial.rebalance.delay.ms"] = "600000" })
	n.coordinates(t)
	w := n.dial(t)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = "g", 600_000, 600_000, "consumer"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, 1000)}}
	join.SetVersion(3)
	must(t, w.send(join))
	listed(t, n.dial(t))
	n.groups.Close()
	resp, err := w.receive(join)
	must(t, err)
	if code := resp.(*kmsg.JoinGroupResponse).ErrorCode; code != kerr.NotCoordinator.Code {
		t.Error(code)
	}
}

// A heartbeat that was not processed, for any reason except a loading shard, is not answered with
// success: the member's session continues to run out.
func TestUnprocessedHeartbeatIsNoSuccess(t *testing.T) {
	for err, want := range map[error]*kerr.Error{
		coordinator.ErrBusy:           kerr.CoordinatorNotAvailable,
		coordinator.ErrRefused:        kerr.CoordinatorNotAvailable,
		coordinator.ErrNotCoordinator: kerr.NotCoordinator,
	} {
		resp := group.Refuse(kmsg.NewPtrHeartbeatRequest(), kerr.TypedErrorForCode(code(err))).(*kmsg.HeartbeatResponse)
		if resp.ErrorCode != want.Code {
			t.Errorf("%v: %d", err, resp.ErrorCode)
		}
	}
	if resp := group.Loading(kmsg.NewPtrHeartbeatRequest()).(*kmsg.HeartbeatResponse); resp.ErrorCode != 0 {
		t.Errorf("in a load: %d", resp.ErrorCode)
	}
	resp := group.Loading(kmsg.NewPtrJoinGroupRequest()).(*kmsg.JoinGroupResponse)
	if resp.ErrorCode != kerr.CoordinatorLoadInProgress.Code {
		t.Errorf("a join in a load: %d", resp.ErrorCode)
	}
}

// A member id that a client was given is removed with its connection, not earlier.
func TestMemberIDIsRemovedWithItsConnection(t *testing.T) {
	n := newNode(t, quick)
	n.coordinates(t)
	other := n.dial(t)
	there := func() int {
		return len(ask[*kmsg.ListGroupsResponse](t, other, 4, kmsg.NewPtrListGroupsRequest()).Groups)
	}
	w := n.dial(t)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = "g", 1_800_000, 600_000, "consumer"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, 10)}}
	for range 3 {
		if code := ask[*kmsg.JoinGroupResponse](t, w, 5, join).ErrorCode; code != kerr.MemberIDRequired.Code {
			t.Fatal(code)
		}
	}
	if there() != 1 || n.groups.MemberMemory().Used() == 0 {
		t.Fatalf("%d groups, %d bytes", there(), n.groups.MemberMemory().Used())
	}
	must(t, w.Close())
	eventually(t, "the group is gone with its connection", func() bool { return there() == 0 })
	if used := n.groups.MemberMemory().Used(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

// The topic may be deleted under the groups: they disappear, and can be created again.
func TestGroupsGoWithTheirTopic(t *testing.T) {
	n := newNode(t, quick)
	id := n.topic(t, "t", 1)
	w := n.dial(t)
	for range 2 {
		n.coordinates(t)
		if got := fetched(t, w, 9, "g", nil); got != "" {
			t.Error(got)
		}
		if codes := commit(t, w, 9, "g", id, "t", 0); codes[0] != 0 {
			t.Error(codes)
		}
		revision, err := n.control.DeleteTopic(t.Context(), n.image().Topic(service.OffsetsTopic).ID)
		must(t, err)
		must(t, n.applier.WaitFor(t.Context(), revision))
		if codes := commit(t, w, 9, "g", id, "t", 0); codes[0] != kerr.NotCoordinator.Code {
			t.Error(codes)
		}
	}
}

// A new leader epoch makes the shard read its log again, completely.
func TestANewEpochReadsEverythingAgain(t *testing.T) {
	n := newNode(t, quick)
	id := n.topic(t, "t", 1)
	n.coordinates(t)
	w := n.dial(t)
	commit(t, w, 9, "g", id, "t", 0)
	topic := n.image().Topic(service.OffsetsTopic)
	all := map[metadata.TopicPartition]metadata.Raise{}
	for i := range topic.Partitions.All() {
		all[metadata.TopicPartition{Topic: topic.ID, Partition: i}] = metadata.Raise{}
	}
	revision, err := n.control.RaiseEpochs(t.Context(), all)
	must(t, err)
	must(t, n.applier.WaitFor(t.Context(), revision))
	n.coordinates(t)
	if got := fetched(t, w, 9, "g", nil); got != "t/0=5 note" {
		t.Error(got)
	}
	for _, s := range n.groups.Stats() {
		if s.Epoch != 1 || s.State != "active" {
			t.Errorf("%+v", s)
		}
	}
}

// A member's metadata stays intact while its join waits, even if the memory of the request is
// reused.
func TestMemberMetadataOutlivesItsRequest(t *testing.T) {
	n := newNode(t, quick, func(o *nodeOptions) { o.static["group.initial.rebalance.delay.ms"] = "100" })
	n.coordinates(t)
	w, other := n.dial(t), n.dial(t)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = "g", 10_000, 10_000, "consumer"
	said := bytes.Repeat([]byte("said"), 500)
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: said}}
	join.SetVersion(3)
	must(t, w.send(join))
	listed(t, other)
	noise := kmsg.NewPtrDescribeGroupsRequest()
	noise.Groups = []string{strings.Repeat("x", 1990)}
	for range 100 {
		ask[*kmsg.DescribeGroupsResponse](t, n.dial(t), 4, noise)
	}
	resp, err := w.receive(join)
	must(t, err)
	if j := resp.(*kmsg.JoinGroupResponse); len(j.Members) != 1 || !bytes.Equal(j.Members[0].ProtocolMetadata, said) {
		t.Errorf("%+v", j)
	}
}
