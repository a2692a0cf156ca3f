package group

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// joinFrom returns the JoinGroup of a connection.
func joinFrom(connection uint64, group, client string, version int16, metadata int) Request {
	req := joinOf("", func(r *kmsg.JoinGroupRequest) {
		r.Version, r.Group = version, group
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, metadata)}}
	})
	return Request{Connection: connection, ClientID: client, ClientHost: "/1.2.3.4", Body: req}
}

// The total size of members' metadata is bounded, in however many groups. When memory is free
// again, a refused member gets in.
func TestMemberMemoryIsBounded(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MemberMemory = coordinator.NewMemoryBudget(4 << 20) })
	accepted := 0
	for i := range 40 {
		ticket := w.send(joinFrom(0, fmt.Sprint("g", i), "c", 3, 500<<10))
		if got, answered := w.got[ticket]; answered {
			is(t, got.(*kmsg.JoinGroupResponse).ErrorCode, kerr.CoordinatorLoadInProgress)
		} else {
			accepted++
		}
	}
	if used := w.cfg.MemberMemory.Used(); accepted != 2 || used > 1<<20 { // a shard's share
		t.Errorf("%d of 40 were accepted and use %d bytes", accepted, used)
	}
	w.weighs()
	w.advance(0) // the joins are answered
	w.advance(time.Minute)
	if used := w.cfg.MemberMemory.Used(); used > 2*(groupWeight+10) { // of the two groups, which are empty
		t.Errorf("%d bytes are used by members that left", used)
	}
	w.waits(w.send(joinFrom(0, "g9", "c", 3, 500<<10)))
}

// A member that could never fit gets an error that does not make it retry.
func TestMemberThatCanNeverFitIsRefusedForGood(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MemberMemory = coordinator.NewMemoryBudget(1 << 20) })
	w.topic("t", 1)
	resp := ask[*kmsg.JoinGroupResponse](w, joinFrom(0, "g", "c", 3, 200<<10))
	is(t, resp.ErrorCode, kerr.InvalidRequest)
	beat := full("m", strings.Repeat("t", 200<<10))
	is(t, w.consumerBeat(beat).ErrorCode, kerr.InvalidRequest)
}

// A member may change its metadata if that needs no more memory, even if the budget is used up.
func TestMemberStaysWhenMemoryIsUsedUp(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	leader, other, _ := w.two()
	a := &client{w: w, id: "a", request: func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.Group, r.SubscribedTopicNames = "k",
			[]string{"t"}
	}}
	is(t, a.join(), nil)
	w.cfg.MemberMemory.Count(w.cfg.MemberMemory.Size()) // used up
	w.join(leader)
	_, j := w.join(other)
	if resp := answer[*kmsg.JoinGroupResponse](w, j); resp.ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
	is(t, a.join(), nil)
	is(t, ask[*kmsg.JoinGroupResponse](w, request(joinOf(""))).ErrorCode, kerr.CoordinatorLoadInProgress)
	b := full("b", "t")
	resp := w.consumerBeat(b)
	is(t, resp.ErrorCode, kerr.CoordinatorLoadInProgress)
	if resp.ErrorMessage == nil {
		t.Error("no words")
	}
}

// A leader's assignment also counts.
func TestAssignmentBeyondTheBudgetIsRefused(t *testing.T) {
	w := newWorld(t)
	leader, other, _ := w.two()
	w.join(leader)
	_, j := w.join(other)
	gen := answer[*kmsg.JoinGroupResponse](w, j).Generation
	others := w.cfg.MemberMemory.Size() - w.cfg.MemberMemory.Used() - 100
	w.cfg.MemberMemory.Count(others)
	s := w.sync(leader, gen, leader, string(bytes.Repeat([]byte("x"), 1000)))
	is(t, answer[*kmsg.SyncGroupResponse](w, s).ErrorCode, kerr.CoordinatorNotAvailable)
	w.cfg.MemberMemory.Count(-others)
	w.replays()
}

// Pending ids are bounded for each connection; the oldest are dropped first. The end of a
// connection drops all of its ids, and no others.
func TestPendingIDsEndWithTheirConnection(t *testing.T) {
	w := newWorld(t)
	first := ""
	for i := range 2000 {
		resp := ask[*kmsg.JoinGroupResponse](w, joinFrom(7, fmt.Sprint("g", i%3), string(make([]byte, 15<<10)), 5, 10))
		is(t, resp.ErrorCode, kerr.MemberIDRequired)
		if first == "" {
			first = resp.MemberID
		}
	}
	if used := w.cfg.MemberMemory.Used(); used > 2<<20 {
		t.Errorf("ids hold %d bytes", used)
	}
	w.weighs()
	other := ask[*kmsg.JoinGroupResponse](w, joinFrom(8, "g0", "c", 5, 10)).MemberID
	is(t, ask[*kmsg.JoinGroupResponse](w, request(joinOf(first, func(r *kmsg.JoinGroupRequest) { r.Group = "g0" }))).ErrorCode,
		kerr.UnknownMemberID)
	w.event(Closed{Connection: 7})
	w.advance(0)
	if len(w.shard.groups) != 1 || len(w.shard.groups["g0"].classic().pending) != 1 || len(w.shard.pending) != 1 {
		t.Errorf("%d groups and %d connections are left", len(w.shard.groups), len(w.shard.pending))
	}
	w.weighs()
	w.waits(w.send(request(joinOf(other, func(r *kmsg.JoinGroupRequest) { r.Group = "g0" }))))
	w.weighs()
	w.event(Closed{Connection: 8}) // its id belongs to a member by now
	w.advance(0)
	if len(w.shard.groups["g0"].classic().members) != 1 {
		t.Error("a member was removed with a connection")
	}
}

// The retention check, which removes empty groups, keeps those with pending ids.
func TestPendingIDSurvivesTheRetentionCheck(t *testing.T) {
	w := newWorld(t)
	join := joinFrom(1, "g", "c", 5, 10)
	join.Body.(*kmsg.JoinGroupRequest).SessionTimeoutMillis = 1_800_000
	id := ask[*kmsg.JoinGroupResponse](w, join).MemberID
	w.advance(2 * w.cfg.RetentionCheck)
	w.waits(w.send(request(joinOf(id))))
}

// The total size of pending ids is bounded, over however many connections.
func TestPendingIDsAreBounded(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MemberMemory = coordinator.NewMemoryBudget(4 << 20) })
	refused := 0
	for i := range 3000 {
		resp := ask[*kmsg.JoinGroupResponse](w, joinFrom(uint64(i), "g", string(make([]byte, 1<<10)), 5, 10))
		if resp.ErrorCode == kerr.CoordinatorLoadInProgress.Code {
			refused++
		}
	}
	if used := w.cfg.MemberMemory.Used(); used > 1<<20 || refused == 0 {
		t.Errorf("ids use %d bytes, %d were refused", used, refused)
	}
	w.advance(30 * time.Minute)
	if w.cfg.MemberMemory.Used() != 0 || len(w.timers) != 1 {
		t.Errorf("%d bytes and %d timers are left", w.cfg.MemberMemory.Used(), len(w.timers))
	}
}

// Offsets count against the budget, with their metadata and the names of their groups, also after a
// load. Beyond their part of it, offsets that need more memory are refused, and all others are
// accepted. Members can still join.
func TestOffsetsCountAgainstTheBudget(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MemberMemory = coordinator.NewMemoryBudget(1 << 20) })
	w.topic("t", 10)
	commit := func(group string, partition int32, metadata int) int16 {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 9, group, -1
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = partition, 1, kmsg.StringPtr(strings.Repeat("m", metadata))
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", TopicID: idOf("t"),
			Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
		return w.commit(req)
	}
	full := kerr.CoordinatorLoadInProgress.Code
	n := 0
	for ; commit(fmt.Sprint("g", n), 0, 4000) == 0; n++ {
		if n > 1000 {
			t.Fatal("offsets are never refused")
		}
	}
	if used := w.cfg.MemberMemory.Used(); used > 3<<16 || used < int64(n)*4000 {
		t.Errorf("%d offsets use %d bytes", n, used)
	}
	w.weighs()
	for _, x := range []struct {
		group     string
		partition int32
		metadata  int
		want      int16
	}{{"g0", 0, 4000, 0}, {"g1", 0, 4000, 0}, {"g0", 1, 4000, full}, {"other", 0, 4000, full}, {"g0", 0, 10, 0}, {"g0", 0, 4000, 0}} {
		if got := commit(x.group, x.partition, x.metadata); got != x.want {
			t.Errorf("%+v: %d", x, got)
		}
	}
	w.weighs()
	w.newClient("a", "t") // a member can join
	held := w.cfg.MemberMemory.Used()
	if w.start(); w.cfg.MemberMemory.Used() != held {
		t.Errorf("%d bytes after a load, %d before", w.cfg.MemberMemory.Used(), held)
	}
	w.topic("t", 0)
	w.advance(time.Minute)
	w.weighs()
	if used := w.cfg.MemberMemory.Used(); used > 20_000 {
		t.Errorf("%d bytes are in use after the topic was deleted", used)
	}
}

// A shard releases its memory when it is discarded, and counts it again when it is loaded.
func TestMemoryIsReleased(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 10)
	w.newClient("a", "t")
	held := w.cfg.MemberMemory.Used()
	if held < memberWeight+10*partitionWeight {
		t.Errorf("%d bytes", held)
	}
	w.start()
	if got := w.cfg.MemberMemory.Used(); got != held {
		t.Errorf("%d bytes after a load, %d before", got, held)
	}
	w.shard.End()
	if got := w.cfg.MemberMemory.Used(); got != 0 {
		t.Errorf("%d bytes are left", got)
	}
}

// An embedded subscription that claims to be large costs little time and no memory, wherever it is
// decoded.
func TestSubscriptionWithFalseLengths(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	lie := append([]byte{0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x0f, 0, 0}, make([]byte, 1<<20-100)...)
	w.newClient("a", "t")
	req := joinOf("", func(r *kmsg.JoinGroupRequest) {
		r.Version, r.Protocols = 3, []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: lie}}
	})
	var resp *kmsg.JoinGroupResponse
	if used := allocated(func() { resp = ask[*kmsg.JoinGroupResponse](w, request(req)) }); used > 4<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
	is(t, resp.ErrorCode, kerr.InconsistentGroupProtocol)
	req.Group = "k"
	w.send(request(req))
	w.advance(0)
	var up *kmsg.ConsumerGroupHeartbeatResponse
	beat := full("b", "t")
	beat.Group = "k"
	if used := allocated(func() { up = w.consumerBeat(beat) }); used > 4<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
	is(t, up.ErrorCode, kerr.GroupIDNotFound)
}
