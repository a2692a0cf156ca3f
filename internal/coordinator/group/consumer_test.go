package group

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
)

// client is a member of a consumer group that behaves like a client library.
type client struct {
	w     *world
	id    string
	epoch int32
	has   assign.Assignment
	// instance is sent with every heartbeat.
	instance *string
	// request changes the heartbeat with which it joins.
	request func(*kmsg.ConsumerGroupHeartbeatRequest)
	topics  []string // that it reads, for the checks of the chaos
	lost    bool     // the last response was lost: the next heartbeat has all fields
}

func heartbeatOf(id string, epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", id, epoch
	return req
}

// full returns the heartbeat of a member that joins.
func full(id string, topics ...string) *kmsg.ConsumerGroupHeartbeatRequest {
	req := heartbeatOf(id, 0)
	req.RebalanceTimeoutMillis, req.SubscribedTopicNames, req.Topics = 30_000, topics, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return req
}

func (w *world) consumerBeat(req *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	w.t.Helper()
	return ask[*kmsg.ConsumerGroupHeartbeatResponse](w, request(req))
}

// newClient creates a client that joins.
func (w *world) newClient(id string, topics ...string) *client {
	w.t.Helper()
	c := &client{w: w, id: id, request: func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = topics }}
	is(w.t, c.join(), nil)
	return c
}

func (c *client) join() int16 {
	req := full(c.id)
	c.request(req)
	c.has = nil
	return c.take(c.w.consumerBeat(req))
}

// beat reports the owned partitions, as clients do while they reconcile.
func (c *client) beat() int16 {
	req := heartbeatOf(c.id, c.epoch)
	req.InstanceID = c.instance
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, id := range c.has.Topics() {
		t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
		t.TopicID, t.Partitions = id, c.has[id]
		req.Topics = append(req.Topics, t)
	}
	if c.lost {
		c.request(req)
		req.RebalanceTimeoutMillis, c.lost = 30_000, false
	}
	return c.take(c.w.consumerBeat(req))
}

// take applies a response: the client revokes partitions or starts new ones.
func (c *client) take(resp *kmsg.ConsumerGroupHeartbeatResponse) int16 {
	if resp.ErrorCode != 0 {
		return resp.ErrorCode
	}
	c.epoch = resp.MemberEpoch
	if resp.Assignment != nil {
		c.has = assign.Assignment{}
		for _, t := range resp.Assignment.Topics {
			c.has[t.TopicID] = t.Partitions
		}
	}
	return 0
}

// stabilize lets clients send heartbeats until nothing changes.
func stabilize(w *world, clients ...*client) {
	w.t.Helper()
	for range 30 {
		n := len(w.log)
		for _, c := range clients {
			is(w.t, c.beat(), nil)
		}
		if len(w.log) == n {
			return
		}
	}
	w.t.Fatalf("the group does not become stable")
}

func counts(clients ...*client) (n []int) {
	for _, c := range clients {
		n = append(n, c.has.Count())
	}
	return n
}

func (w *world) described() kmsg.ConsumerGroupDescribeResponseGroup {
	w.t.Helper()
	return ask[[]kmsg.ConsumerGroupDescribeResponseGroup](w, DescribeConsumers{Groups: []string{"g"}})[0]
}

func TestConsumerGroupSharesPartitions(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 6)
	a := w.newClient("a", "t")
	if a.epoch != 2 || a.has.Count() != 6 {
		t.Fatalf("the first: epoch %d, %v", a.epoch, a.has)
	}
	b := w.newClient("b", "t")
	if b.epoch != 3 || b.has.Count() != 0 {
		t.Fatalf("the second owns partitions that the first has not revoked: epoch %d, %v", b.epoch, b.has)
	}
	if s := w.state("g"); s != "Reconciling" {
		t.Error(s)
	}
	is(t, a.beat(), nil) // must revoke three
	if a.epoch != 2 || a.has.Count() != 3 {
		t.Fatalf("epoch %d, %v", a.epoch, a.has)
	}
	is(t, b.beat(), nil)
	if b.has.Count() != 0 {
		t.Fatal("the first has not reported the revocation yet")
	}
	is(t, a.beat(), nil)
	is(t, b.beat(), nil)
	if a.epoch != 3 || b.epoch != 3 || !slices.Equal(counts(a, b), []int{3, 3}) {
		t.Fatalf("epochs %d %d, %v", a.epoch, b.epoch, counts(a, b))
	}
	if s := w.state("g"); s != "Stable" {
		t.Error(s)
	}
	w.replays()
	n := len(w.log)
	stabilize(w, a, b)
	if len(w.log) != n {
		t.Error("heartbeats of a stable group write records")
	}

	is(t, w.consumerBeat(heartbeatOf("a", -1)).ErrorCode, nil)
	stabilize(w, b)
	if b.epoch != 4 || b.has.Count() != 6 {
		t.Errorf("alone: epoch %d, %v", b.epoch, b.has)
	}
	w.replays()
}

func TestConsumerThatDoesNotRevokeIsFenced(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	a, b := w.newClient("a", "t"), w.newClient("b", "t")
	is(t, a.beat(), nil)
	stubborn := heartbeatOf("a", 2)
	stubborn.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: idOf("t"), Partitions: []int32{0, 1}}}
	for range 6 {
		w.advance(5*time.Second - time.Millisecond)
		is(t, w.consumerBeat(stubborn).ErrorCode, nil)
		is(t, b.beat(), nil)
	}
	w.advance(time.Second)
	is(t, w.consumerBeat(stubborn).ErrorCode, kerr.UnknownMemberID)
	stabilize(w, b)
	if b.has.Count() != 2 {
		t.Errorf("%v", b.has)
	}
}

func TestSilentConsumerIsRemoved(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	a, b := w.newClient("a", "t"), w.newClient("b", "t")
	stabilize(w, a, b)
	w.advance(30 * time.Second)
	is(t, b.beat(), nil)
	w.advance(20 * time.Second)
	stabilize(w, b)
	if b.has.Count() != 2 {
		t.Errorf("%v", b.has)
	}
	is(t, a.beat(), kerr.UnknownMemberID)
	is(t, a.join(), nil)
	stabilize(w, a, b)
	if !slices.Equal(counts(a, b), []int{1, 1}) {
		t.Error(counts(a, b))
	}
}

// A group's own timeouts apply to its members from their next heartbeat on, and after a reload;
// other groups keep the coordinator's.
func TestGroupTimeouts(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	times := func(own Times) func(string) Times {
		return func(group string) Times {
			if group == "g" {
				return own
			}
			return Times{}
		}
	}
	a := w.newClient("a", "t")
	interval := func() time.Duration {
		t.Helper()
		return time.Duration(w.consumerBeat(heartbeatOf("a", a.epoch)).HeartbeatIntervalMillis) * time.Millisecond
	}
	if got := interval(); got != 5*time.Second {
		t.Errorf("before: %v", got)
	}
	w.event(TopicsChanged{Topics: w.topics.clone(), Times: times(Times{Session: time.Minute, Heartbeat: 9 * time.Second})})
	is(t, a.beat(), nil)
	if got := interval(); got != 9*time.Second {
		t.Errorf("with its own timeouts: %v", got)
	}
	w.topic("other", 1) // unmentioned settings stay
	w.advance(50 * time.Second)
	is(t, a.beat(), nil) // the coordinator's session would be over
	w.advance(59 * time.Second)
	is(t, a.beat(), nil)
	w.advance(61 * time.Second)
	is(t, a.beat(), kerr.UnknownMemberID)

	is(t, a.join(), nil)
	w.start() // a loaded member gets a full session
	w.event(TopicsChanged{Topics: w.topics.clone(), All: true, Times: times(Times{Session: time.Minute})})
	is(t, a.beat(), nil)
	w.advance(50 * time.Second)
	is(t, a.beat(), nil)
	if got := interval(); got != 5*time.Second {
		t.Errorf("without its own heartbeat interval: %v", got)
	}
}

func TestConsumerWithAnotherEpochIsFenced(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 4)
	a, b := w.newClient("a", "t"), w.newClient("b", "t")
	stabilize(w, a, b)
	is(t, w.consumerBeat(heartbeatOf("a", a.epoch+1)).ErrorCode, kerr.FencedMemberEpoch)
	lost := heartbeatOf("a", a.epoch-1) // the response with the new epoch was lost
	is(t, w.consumerBeat(lost).ErrorCode, kerr.FencedMemberEpoch)
	lost.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: idOf("t"), Partitions: a.has[idOf("t")]}}
	is(t, w.consumerBeat(lost).ErrorCode, nil)
	lost.Topics[0].Partitions = b.has[idOf("t")]
	is(t, w.consumerBeat(lost).ErrorCode, kerr.FencedMemberEpoch)
}

// A member that has lost its state joins again with its id and gets its assignment.
func TestConsumerJoinsAgain(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 4)
	a, b := w.newClient("a", "t"), w.newClient("b", "t")
	stabilize(w, a, b)
	is(t, a.join(), nil)
	if a.has.Count() != 2 || a.epoch != 3 {
		t.Errorf("epoch %d, %v", a.epoch, a.has)
	}
}

// As in Kafka, a group begins at epoch 1, and a member without a subscription does not raise the
// epoch when it joins.
func TestFirstEpochsMatchKafka(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	a, b := w.newClient("a", []string{}...), w.newClient("b", []string{}...)
	if a.epoch != 1 || b.epoch != 1 {
		t.Fatalf("members without a subscription are in epochs %d and %d, want 1", a.epoch, b.epoch)
	}
	b.request = func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{"t"} }
	is(t, b.join(), nil)
	stabilize(w, a, b)
	if d := w.described(); d.Epoch != 2 || a.epoch != 2 || b.epoch != 2 || b.has.Count() != 2 {
		t.Errorf("with a subscription: group epoch %d, members in %d and %d, %v", d.Epoch, a.epoch, b.epoch, b.has)
	}
	w.replays()
}

func TestTopicsAreCreatedGrownAndDeleted(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	a := w.newClient("a", "t", "later")
	w.topic("t", 5)
	w.topic("other", 3)
	stabilize(w, a)
	if a.has.Count() != 5 || a.epoch != 3 {
		t.Errorf("grown: epoch %d, %v", a.epoch, a.has)
	}
	w.topic("later", 2)
	stabilize(w, a)
	if a.has.Count() != 7 {
		t.Errorf("made: %v", a.has)
	}
	w.topic("t", 0)
	stabilize(w, a)
	if a.has.Count() != 2 {
		t.Errorf("deleted: %v", a.has)
	}
	w.replays()
}

func TestRegularExpressions(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"orders-eu", "orders-us", "old-orders-eu", "else"} {
		w.topic(name, 1)
	}
	a := &client{w: w, id: "a", request: func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.SubscribedTopicRegex = kmsg.StringPtr("orders-(eu|us|asia)|e.*")
	}}
	is(t, a.join(), nil)
	if a.has.Count() != 3 {
		t.Fatalf("%v", a.has.Topics())
	}
	w.topic("orders-asia", 2)
	w.topic("orders-mars", 2)
	stabilize(w, a)
	if a.has.Count() != 5 {
		t.Errorf("%v", a.has)
	}
	w.topic("else", 0)
	stabilize(w, a)
	if a.has.Count() != 4 {
		t.Errorf("%v", a.has)
	}
	w.replays()
	w.start()
	stabilize(w, a)
	if a.has.Count() != 4 {
		t.Errorf("after a reload: %v", a.has)
	}
	d := w.described()
	if *d.Members[0].SubscribedTopicRegex != "orders-(eu|us|asia)|e.*" {
		t.Errorf("%+v", d)
	}
	bad := full("b")
	bad.SubscribedTopicRegex = kmsg.StringPtr("a(b")
	resp := w.consumerBeat(bad)
	is(t, resp.ErrorCode, kerr.InvalidRegularExpression)
	is(t, w.consumerBeat(heartbeatOf("a", -1)).ErrorCode, nil)
	if len(w.shard.groups["g"].consumer().regexes) != 0 {
		t.Error("an unused expression is kept")
	}
	w.replays()
}

func TestStaticConsumerReturns(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 4)
	instance := func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.SubscribedTopicNames, r.InstanceID = []string{"t"}, kmsg.StringPtr("i")
	}
	a := &client{w: w, id: "a", request: instance}
	is(t, a.join(), nil)
	b := w.newClient("b", "t")
	stabilize(w, a, b)
	had, epoch := a.has, a.epoch

	again := &client{w: w, id: "a2", request: instance}
	is(t, again.join(), kerr.UnreleasedInstanceID)
	bye := heartbeatOf("a", -2)
	bye.InstanceID = kmsg.StringPtr("i")
	is(t, w.consumerBeat(bye).ErrorCode, nil)
	w.replays()
	is(t, again.join(), nil)
	if !again.has.Equal(had) || again.epoch != epoch {
		t.Errorf("it had %v in epoch %d and has %v in %d", had, epoch, again.has, again.epoch)
	}
	stabilize(w, again, b)
	old := heartbeatOf("a", epoch)
	old.InstanceID = kmsg.StringPtr("i")
	is(t, w.consumerBeat(old).ErrorCode, kerr.FencedInstanceID)
	w.replays()

	bye.MemberID = "a2"
	is(t, w.consumerBeat(bye).ErrorCode, nil)
	for range 10 { // it does not return
		w.advance(5 * time.Second)
		is(t, b.beat(), nil)
	}
	stabilize(w, b)
	if b.has.Count() != 4 {
		t.Errorf("%v", b.has)
	}
}

func TestErrorsOfConsumerHeartbeats(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.ConsumerMaxSize = 1 })
	for name, c := range map[string]struct {
		edit func(*kmsg.ConsumerGroupHeartbeatRequest)
		want *kerr.Error
	}{
		"no group":        {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = " " }, kerr.InvalidRequest},
		"no member id":    {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" }, kerr.InvalidRequest},
		"blank instance":  {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = kmsg.StringPtr("") }, kerr.InvalidRequest},
		"blank rack":      {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = kmsg.StringPtr("") }, kerr.InvalidRequest},
		"no timeout":      {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }, kerr.InvalidRequest},
		"no subscription": {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil }, kerr.InvalidRequest},
		"owns already":    {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil }, kerr.InvalidRequest},
		"epoch -3":        {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 }, kerr.InvalidRequest},
		"-2 not static":   {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 }, kerr.InvalidRequest},
		"unknown assignor": {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = kmsg.StringPtr("x") },
			kerr.UnsupportedAssignor},
		"not a member":   {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 1 }, kerr.GroupIDNotFound},
		"leaves nothing": {func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -1 }, kerr.GroupIDNotFound},
	} {
		req := full("a", "t")
		c.edit(req)
		if resp := w.consumerBeat(req); resp.ErrorCode != c.want.Code {
			t.Errorf("%s: %v", name, kerr.ErrorForCode(resp.ErrorCode))
		}
	}
	if len(w.log) != 0 || len(w.shard.groups) != 0 {
		t.Error("refused requests left state behind")
	}
	w.newClient("a", "t")
	is(t, w.consumerBeat(full("b", "t")).ErrorCode, kerr.GroupMaxSizeReached)
	is(t, w.consumerBeat(heartbeatOf("c", 1)).ErrorCode, kerr.GroupMaxSizeReached)
	is(t, w.consumerBeat(heartbeatOf("c", -1)).ErrorCode, kerr.UnknownMemberID)
}

func TestServerGeneratesMemberIDsForOldClients(t *testing.T) {
	w := newWorld(t)
	req := full("", "t")
	req.Version = 0
	if resp := w.consumerBeat(req); resp.MemberID == nil || *resp.MemberID == "" {
		t.Errorf("%+v", resp)
	}
}

func TestMostNamedAssignorIsUsed(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 4)
	w.topic("u", 4)
	names := []*string{kmsg.StringPtr("range"), kmsg.StringPtr("range"), nil}
	var all []*client
	for i, name := range names {
		c := &client{w: w, id: fmt.Sprint("m", i), request: func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicNames, r.ServerAssignor = []string{"t", "u"}, name
		}}
		is(t, c.join(), nil)
		all = append(all, c)
	}
	stabilize(w, all...)
	if d := w.described(); d.AssignorName != "range" || d.State != "Stable" || len(d.Members) != 3 || d.Members[0].MemberType != 1 {
		t.Errorf("%+v", d)
	}
	if !slices.Equal(counts(all...), []int{4, 2, 2}) {
		t.Error(counts(all...))
	}
}

// Members in all states of a reconciliation survive a reload.
func TestReloadDuringReconciliation(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 6)
	a, b := w.newClient("a", "t"), w.newClient("b", "t")
	is(t, a.beat(), nil)
	w.start()
	stabilize(w, a, b)
	if !slices.Equal(counts(a, b), []int{3, 3}) || a.epoch != 3 {
		t.Errorf("%v in epoch %d", counts(a, b), a.epoch)
	}
}

func TestThreeConsumersJoin(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 9)
	var all []*client
	for i := range 3 {
		all = append(all, w.newClient(fmt.Sprint("m", i), "t"))
	}
	stabilize(w, all...)
	if !slices.Equal(counts(all...), []int{3, 3, 3}) {
		t.Error(counts(all...))
	}
	w.replays()
}

// Before the first TopicsChanged, the shard revokes nothing, although all topics seem missing.
func TestShardWithoutTopicsAssignsNothing(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	a := w.newClient("a", "t")
	w.shard.topics = noTopics{}
	n := len(w.log)
	is(t, a.beat(), kerr.CoordinatorLoadInProgress)
	is(t, w.consumerBeat(full("b", "t")).ErrorCode, kerr.CoordinatorLoadInProgress)
	if len(w.log) != n {
		t.Error("records were written")
	}
	w.start()
	stabilize(w, a)
	if a.has.Count() != 2 || a.epoch != 2 {
		t.Errorf("epoch %d, %v", a.epoch, a.has)
	}
}
