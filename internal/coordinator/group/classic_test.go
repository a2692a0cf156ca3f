package group

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

func joinOf(member string, edit ...func(*kmsg.JoinGroupRequest)) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID = 9, "g", member
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10_000, 60_000, "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription("t")}}
	for _, f := range edit {
		f(req)
	}
	return req
}

func static(instance string) func(*kmsg.JoinGroupRequest) {
	return func(r *kmsg.JoinGroupRequest) { r.InstanceID = &instance }
}

func version(v int16) func(*kmsg.JoinGroupRequest) {
	return func(r *kmsg.JoinGroupRequest) { r.Version = v }
}

// subscription returns the metadata that a consumer sends.
func subscription(topics ...string) []byte {
	v := kmsg.NewConsumerMemberMetadata()
	v.Version, v.Topics = 1, topics
	return v.AppendTo(nil)
}

// join sends a JoinGroup, and sends it again if the shard requires a member id.
func (w *world) join(member string, edit ...func(*kmsg.JoinGroupRequest)) (string, coordinator.Ticket) {
	w.t.Helper()
	req := joinOf(member, edit...)
	ticket := w.send(request(req))
	if resp, ok := w.got[ticket].(*kmsg.JoinGroupResponse); ok && resp.ErrorCode == kerr.MemberIDRequired.Code {
		member = resp.MemberID
		ticket = w.send(request(joinOf(member, edit...)))
	}
	return member, ticket
}

func (w *world) joined(ticket coordinator.Ticket) *kmsg.JoinGroupResponse {
	w.t.Helper()
	resp := answer[*kmsg.JoinGroupResponse](w, ticket)
	is(w.t, resp.ErrorCode, nil)
	return resp
}

func syncOf(member string, generation int32, assignments ...string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 5, "g", member, generation
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	for i := 0; i < len(assignments); i += 2 {
		req.GroupAssignment = append(req.GroupAssignment,
			kmsg.SyncGroupRequestGroupAssignment{MemberID: assignments[i], MemberAssignment: []byte(assignments[i+1])})
	}
	return req
}

func (w *world) sync(member string, generation int32, assignments ...string) coordinator.Ticket {
	return w.send(request(syncOf(member, generation, assignments...)))
}

func (w *world) beat(member string, generation int32) int16 {
	w.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 4, "g", member, generation
	return ask[*kmsg.HeartbeatResponse](w, request(req)).ErrorCode
}

func (w *world) leave(members ...kmsg.LeaveGroupRequestMember) *kmsg.LeaveGroupResponse {
	w.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group, req.Members = 5, "g", members
	return ask[*kmsg.LeaveGroupResponse](w, request(req))
}

func (w *world) state(group string) string {
	for _, g := range ask[[]kmsg.ListGroupsResponseGroup](w, List{}) {
		if g.Group == group {
			return g.GroupState
		}
	}
	return "Dead"
}

// two returns a stable group of two members, in generation 1 or 2.
func (w *world) two() (leader, other string, generation int32) {
	w.t.Helper()
	leader, j := w.join("")
	w.advance(0)
	generation = w.joined(j).Generation
	w.sync(leader, generation, leader, "all")
	other, k := w.join("")
	is(w.t, w.beat(leader, generation), kerr.RebalanceInProgress)
	_, j = w.join(leader)
	generation = w.joined(j).Generation
	w.joined(k)
	s := w.sync(other, generation)
	w.sync(leader, generation, leader, "one", other, "two")
	is(w.t, answer[*kmsg.SyncGroupResponse](w, s).ErrorCode, nil)
	return leader, other, generation
}

// The normal life of a group, as clients see it.
func TestTwoMembersJoinSyncAndLeave(t *testing.T) {
	w := newWorld(t)
	first := ask[*kmsg.JoinGroupResponse](w, request(joinOf("")))
	is(t, first.ErrorCode, kerr.MemberIDRequired)
	if first.MemberID != "c-1" {
		t.Errorf("member id %q", first.MemberID)
	}
	a, j := w.join(first.MemberID)
	w.waits(j) // for the initial delay: even a delay of 0 ends with a timer
	w.advance(0)
	resp := w.joined(j)
	if resp.Generation != 1 || resp.LeaderID != a || len(resp.Members) != 1 || *resp.Protocol != "range" ||
		*resp.ProtocolType != "consumer" {
		t.Errorf("joined: %+v", resp)
	}
	if w.state("g") != "CompletingRebalance" {
		t.Error(w.state("g"))
	}
	got := answer[*kmsg.SyncGroupResponse](w, w.sync(a, 1, a, "everything"))
	if string(got.MemberAssignment) != "everything" || *got.Protocol != "range" {
		t.Errorf("synced: %+v", got)
	}
	is(t, w.beat(a, 1), nil)

	b, k := w.join("")
	w.waits(k)
	is(t, w.beat(a, 1), kerr.RebalanceInProgress)
	_, j = w.join(a)
	if r := w.joined(j); r.Generation != 2 || len(r.Members) != 2 || !cmp.Equal(r.Members[0].ProtocolMetadata, subscription("t")) {
		t.Errorf("the leader gets %+v", r)
	}
	if r := w.joined(k); r.Generation != 2 || len(r.Members) != 0 || r.LeaderID != a || r.MemberID != b {
		t.Errorf("the other gets %+v", r)
	}
	s := w.sync(b, 2)
	w.waits(s)
	records := len(w.log)
	w.sync(a, 2, a, "A", b, "B")
	if r := answer[*kmsg.SyncGroupResponse](w, s); string(r.MemberAssignment) != "B" {
		t.Errorf("the other's assignment: %+v", r)
	}
	if len(w.log) != records+1 {
		t.Errorf("%d records for a generation", len(w.log)-records)
	}
	w.replays()

	left := w.leave(kmsg.LeaveGroupRequestMember{MemberID: b}, kmsg.LeaveGroupRequestMember{MemberID: "stranger"})
	is(t, left.ErrorCode, nil)
	is(t, left.Members[0].ErrorCode, nil)
	is(t, left.Members[1].ErrorCode, kerr.UnknownMemberID)
	is(t, w.beat(a, 2), kerr.RebalanceInProgress)
	w.leave(kmsg.LeaveGroupRequestMember{MemberID: a})
	if w.state("g") != "Empty" {
		t.Error(w.state("g"))
	}
	w.replays()
}

func TestSilentMembersAreRemoved(t *testing.T) {
	w := newWorld(t)
	leader, other, gen := w.two()
	for range 4 {
		w.advance(4 * time.Second)
		is(t, w.beat(leader, gen), nil)
		if code := w.beat(other, gen); code != 0 {
			t.Fatal("it sends heartbeats")
		}
	}
	w.advance(6 * time.Second)
	is(t, w.beat(leader, gen), nil)
	w.advance(5 * time.Second) // 11 s after the other's last heartbeat
	is(t, w.beat(other, gen), kerr.UnknownMemberID)
	is(t, w.beat(leader, gen), kerr.RebalanceInProgress)
	_, j := w.join(leader)
	if r := w.joined(j); r.Generation != gen+1 || len(r.Members) != 1 {
		t.Errorf("%+v", r)
	}
	w.replays()
}

func TestMemberThatDoesNotRejoinIsRemoved(t *testing.T) {
	w := newWorld(t)
	leader, other, gen := w.two()
	_, j := w.join(leader) // the leader's join starts a rebalance
	for range 12 {
		w.waits(j)
		is(t, w.beat(other, gen), kerr.RebalanceInProgress)
		w.advance(5 * time.Second)
	}
	if r := w.joined(j); len(r.Members) != 1 {
		t.Errorf("%+v", r)
	}
	is(t, w.beat(other, gen), kerr.UnknownMemberID)
}

func TestMemberThatDoesNotSyncIsRemoved(t *testing.T) {
	w := newWorld(t)
	leader, other, gen := w.two()
	_, j := w.join(leader)
	_, k := w.join(other)
	w.joined(j)
	w.joined(k)
	w.sync(leader, gen+1, leader, "one")
	for range 12 {
		w.advance(5 * time.Second)
		w.beat(other, gen+1)
		w.beat(leader, gen+1)
	}
	is(t, w.beat(other, gen+1), kerr.UnknownMemberID)
	is(t, w.beat(leader, gen+1), kerr.RebalanceInProgress)
}

func TestLeaderDiesBeforeItAssigns(t *testing.T) {
	w := newWorld(t)
	leader, other, gen := w.two()
	_, j := w.join(leader)
	_, k := w.join(other)
	w.joined(j)
	w.joined(k)
	s := w.sync(other, gen+1)
	w.advance(10 * time.Second)
	is(t, answer[*kmsg.SyncGroupResponse](w, s).ErrorCode, kerr.RebalanceInProgress)
	_, k = w.join(other)
	if r := w.joined(k); r.LeaderID != other || len(r.Members) != 1 {
		t.Errorf("%+v", r)
	}
}

// Members that join one after another within the initial delay share a generation.
func TestInitialDelayCollectsMembers(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.InitialDelay = 3 * time.Second })
	a, j := w.join("")
	w.advance(2 * time.Second)
	_, k := w.join("")
	w.advance(2 * time.Second) // a member joined: the delay starts again
	w.waits(j)
	w.advance(2 * time.Second)
	if r := w.joined(j); len(r.Members) != 2 || r.Generation != 1 || r.LeaderID != a {
		t.Errorf("%+v", r)
	}
	w.joined(k)
}

func TestInitialDelayIsBoundedByTheRebalanceTimeout(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.InitialDelay = 25 * time.Second })
	_, j := w.join("", version(3))
	for range 6 {
		w.advance(9 * time.Second)
		w.join("", version(3))
	}
	w.advance(7 * time.Second) // 61 s after the first
	if r := w.joined(j); len(r.Members) != 7 {
		t.Errorf("%d members", len(r.Members))
	}
}

func TestErrorsOfJoin(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxSize = 2 })
	code := func(member string, edit ...func(*kmsg.JoinGroupRequest)) int16 {
		return ask[*kmsg.JoinGroupResponse](w, request(joinOf(member, edit...))).ErrorCode
	}
	is(t, code("", func(r *kmsg.JoinGroupRequest) { r.Group = "" }), kerr.InvalidGroupID)
	is(t, code("", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 100 }), kerr.InvalidSessionTimeout)
	is(t, code("", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1 << 30 }), kerr.InvalidSessionTimeout)
	is(t, code("", func(r *kmsg.JoinGroupRequest) { r.Protocols = nil }), kerr.InconsistentGroupProtocol)
	is(t, code("nobody"), kerr.UnknownMemberID)
}

func TestErrorsOfJoinToAGroup(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxSize = 2 })
	_, other, _ := w.two()
	code := func(member string, edit ...func(*kmsg.JoinGroupRequest)) int16 {
		return ask[*kmsg.JoinGroupResponse](w, request(joinOf(member, edit...))).ErrorCode
	}
	is(t, code("nobody"), kerr.GroupMaxSizeReached)
	is(t, code(""), kerr.GroupMaxSizeReached)
	is(t, code(other, func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" }), kerr.InconsistentGroupProtocol)
	is(t, code(other, func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "sticky" }), kerr.InconsistentGroupProtocol)
	is(t, code(other, static("i")), kerr.UnknownMemberID)
	is(t, code(other), nil) // nothing has changed: it may sync again
	if w.state("g") != "Stable" {
		t.Error(w.state("g"))
	}
}

func TestErrorsOfSyncAndHeartbeat(t *testing.T) {
	w := newWorld(t)
	sync := func(req *kmsg.SyncGroupRequest) int16 { return ask[*kmsg.SyncGroupResponse](w, request(req)).ErrorCode }
	is(t, sync(syncOf("m", 1)), kerr.UnknownMemberID)
	is(t, w.beat("m", 1), kerr.UnknownMemberID)
	leader, other, gen := w.two()
	is(t, sync(syncOf("m", gen)), kerr.UnknownMemberID)
	is(t, sync(syncOf(other, gen-1)), kerr.IllegalGeneration)
	is(t, w.beat(other, gen-1), kerr.IllegalGeneration)
	wrong := syncOf(other, gen)
	wrong.Protocol = kmsg.StringPtr("sticky")
	is(t, sync(wrong), kerr.InconsistentGroupProtocol)
	again := ask[*kmsg.SyncGroupResponse](w, request(syncOf(other, gen)))
	if string(again.MemberAssignment) != "two" {
		t.Errorf("%+v", again)
	}
	w.join(leader)
	is(t, sync(syncOf(other, gen)), kerr.RebalanceInProgress)
	silent := syncOf(other, gen)
	silent.Protocol = nil
	is(t, sync(silent), kerr.InconsistentGroupProtocol)
	empty := syncOf(other, gen)
	empty.Group = ""
	is(t, sync(empty), kerr.InvalidGroupID)
}

func TestStaticMemberReturnsWithoutARebalance(t *testing.T) {
	w := newWorld(t)
	_, j := w.join("", static("i"))
	w.advance(0)
	a, gen := w.joined(j).MemberID, w.joined(j).Generation
	w.sync(a, gen, a, "mine")
	_, j = w.join("", static("i"))
	r := w.joined(j)
	if a == r.MemberID || r.Generation != gen || r.LeaderID != r.MemberID || !r.SkipAssignment || len(r.Members) != 1 {
		t.Fatalf("%+v", r)
	}
	got := answer[*kmsg.SyncGroupResponse](w, w.sync(r.MemberID, gen))
	if string(got.MemberAssignment) != "mine" {
		t.Errorf("%+v", got)
	}
	is(t, w.beat(a, gen), kerr.UnknownMemberID)
	old := kmsg.NewPtrHeartbeatRequest()
	old.Version, old.Group, old.MemberID, old.Generation, old.InstanceID = 4, "g", a, gen, kmsg.StringPtr("i")
	is(t, ask[*kmsg.HeartbeatResponse](w, request(old)).ErrorCode, kerr.FencedInstanceID)
	w.replays()
	w.start()
	is(t, w.beat(r.MemberID, gen), nil)
	is(t, w.leave(kmsg.LeaveGroupRequestMember{InstanceID: kmsg.StringPtr("i")}).Members[0].ErrorCode, nil)
	if w.state("g") != "Empty" {
		t.Error(w.state("g"))
	}
}

func TestOldClientGetsAnotherLeader(t *testing.T) {
	w := newWorld(t)
	_, j := w.join("", static("i"))
	w.advance(0)
	a, gen := w.joined(j).MemberID, w.joined(j).Generation
	w.sync(a, gen, a, "mine")
	_, j = w.join("", static("i"), version(8))
	if r := w.joined(j); r.LeaderID == r.MemberID || len(r.Members) != 0 {
		t.Errorf("it would assign: %+v", r)
	}
}

// A stable group continues without a rebalance after the coordinator has moved.
func TestReloadKeepsAStableGroup(t *testing.T) {
	w := newWorld(t)
	leader, other, gen := w.two()
	w.start()
	is(t, w.beat(leader, gen), nil)
	is(t, w.beat(other, gen), nil)
	got := answer[*kmsg.SyncGroupResponse](w, w.sync(other, gen))
	if string(got.MemberAssignment) != "two" {
		t.Errorf("%+v", got)
	}
	w.advance(11 * time.Second)
	is(t, w.beat(leader, gen), kerr.UnknownMemberID)
}

// A reload during a rebalance restores the last completed generation; no member has received
// anything of the unrecorded one.
func TestReloadDuringARebalanceRestoresTheLastGeneration(t *testing.T) {
	w := newWorld(t)
	leader, other, gen := w.two()
	_, j := w.join(leader)
	_, k := w.join(other)
	w.joined(j)
	w.joined(k)
	w.start()
	is(t, w.beat(leader, gen+1), kerr.IllegalGeneration)
	is(t, w.beat(leader, gen), nil)
	_, j = w.join(leader)
	_, k = w.join(other)
	if r := w.joined(j); r.Generation != gen+1 {
		t.Errorf("generation %d", r.Generation)
	}
	w.joined(k)
}

func TestGroupTooLargeForItsRecord(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxRecord = 300 })
	a, j := w.join("")
	w.advance(0)
	gen := w.joined(j).Generation
	s := w.sync(a, gen, a, string(make([]byte, 400)))
	is(t, answer[*kmsg.SyncGroupResponse](w, s).ErrorCode, kerr.UnknownServerError)
	if len(w.log) != 0 || w.state("g") != "PreparingRebalance" {
		t.Errorf("%d records, %s", len(w.log), w.state("g"))
	}
}

func TestLeaveOfOldClients(t *testing.T) {
	w := newWorld(t)
	_, other, _ := w.two()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group, req.MemberID = 1, "g", other
	is(t, ask[*kmsg.LeaveGroupResponse](w, request(req)).ErrorCode, nil)
	is(t, ask[*kmsg.LeaveGroupResponse](w, request(req)).ErrorCode, kerr.UnknownMemberID)
}

func TestPendingMemberExpires(t *testing.T) {
	w := newWorld(t)
	id := ask[*kmsg.JoinGroupResponse](w, request(joinOf(""))).MemberID
	w.advance(11 * time.Second)
	if w.state("g") != "Dead" || len(w.log) != 0 {
		t.Error("a group without members is left")
	}
	is(t, ask[*kmsg.JoinGroupResponse](w, request(joinOf(id))).ErrorCode, kerr.UnknownMemberID)
}

// A rebalance timeout of 0 is valid. A join phase that nothing but a JoinGroup or the end of a
// session can end is not checked all the time.
func TestARebalanceTimeoutOfZero(t *testing.T) {
	w := newWorld(t)
	leader, j := w.join("")
	member, k := w.join("", static("i"), func(r *kmsg.JoinGroupRequest) { r.RebalanceTimeoutMillis = 0 })
	w.advance(0)
	generation := w.joined(j).Generation
	w.joined(k)
	w.sync(member, generation)
	w.sync(leader, generation, leader, "one", member, "two")
	w.leave(kmsg.LeaveGroupRequestMember{MemberID: leader})
	w.advance(9 * time.Second)
	if s := w.state("g"); s != "PreparingRebalance" {
		t.Errorf("before the end of the session, the group is %s", s)
	}
	w.advance(3 * time.Second)
	if s := w.state("g"); s != "Empty" {
		t.Errorf("afterwards, the group is %s", s)
	}
}
