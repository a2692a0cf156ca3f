package group

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
)

// stabilizeOld lets clients of both protocols continue until the group is stable.
func stabilizeOld(w *world, news []*client, olds []*oldClient) {
	w.t.Helper()
	for range 20 {
		w.advance(time.Second)
		for _, c := range news {
			is(w.t, c.beat(), nil)
		}
		for _, c := range olds {
			c.step()
		}
	}
}

// oldGroup returns a classic group of two consumers of t, which has 6 partitions.
func oldGroup(w *world) []*oldClient {
	w.t.Helper()
	w.topic("t", 6)
	olds := []*oldClient{{w: w, topics: []string{"t"}, generation: -1}, {w: w, topics: []string{"t"}, generation: -1}}
	stabilizeOld(w, nil, olds)
	if olds[0].has.Count() != 3 || olds[1].has.Count() != 3 || w.state("g") != "Stable" {
		w.t.Fatalf("%v %v, the group is %s", olds[0].has, olds[1].has, w.state("g"))
	}
	return olds
}

// A consumer with the new protocol joins a classic group, and the old members continue. When it
// leaves, the group is a classic one again.
func TestUpgradeAndDowngrade(t *testing.T) {
	w := newWorld(t)
	olds := oldGroup(w)
	generation := olds[0].generation
	is(t, w.commit(commitOf(olds[0].id, generation, "t", 7)), nil)

	n := &client{w: w, id: "n", request: func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{"t"} }}
	is(t, n.join(), nil)
	if n.epoch <= generation || n.has.Count() != 0 {
		t.Errorf("epoch %d after generation %d, with %v that others still own", n.epoch, generation, n.has)
	}
	w.replays()
	olds[0].step()
	if olds[0].generation != -1 {
		t.Error("the old members are not asked to rejoin")
	}
	stabilizeOld(w, []*client{n}, olds)
	if n.has.Count() != 2 || olds[0].has.Count() != 2 || olds[1].has.Count() != 2 {
		t.Errorf("%v, %v, %v", n.has, olds[0].has, olds[1].has)
	}
	d := w.described()
	if d.State != "Stable" || len(d.Members) != 3 || d.Members[0].MemberType != 0 || d.Members[2].MemberType != 1 {
		t.Errorf("%+v", d)
	}
	if p := w.fetched("t"); p.Offset != 7 {
		t.Errorf("the offset is lost: %+v", p)
	}
	w.replays()
	w.start()
	stabilizeOld(w, []*client{n}, olds)

	is(t, w.consumerBeat(heartbeatOf("n", -1)).ErrorCode, nil)
	if s := w.state("g"); s != "PreparingRebalance" {
		t.Error(s)
	}
	stabilizeOld(w, nil, olds)
	if olds[0].has.Count() != 3 || olds[1].has.Count() != 3 || w.shard.groups["g"].consumer() != nil {
		t.Errorf("%v, %v", olds[0].has, olds[1].has)
	}
	if olds[0].generation <= generation {
		t.Errorf("generation %d, was %d", olds[0].generation, generation)
	}
	w.replays()
}

func TestImpossibleUpgrade(t *testing.T) {
	join := func(w *world) int16 { return w.consumerBeat(full("n", "t")).ErrorCode }
	w := newWorld(t, func(c *Config) { c.Upgrade = false })
	oldGroup(w)
	is(t, join(w), kerr.GroupIDNotFound)

	w = newWorld(t)
	w.two() // its assignments can't be decoded
	resp := w.consumerBeat(full("n", "t"))
	is(t, resp.ErrorCode, kerr.GroupIDNotFound)
	if *resp.ErrorMessage != "Cannot upgrade classic group g to consumer group because the embedded consumer protocol is malformed." {
		t.Error(*resp.ErrorMessage)
	}
	is(t, w.consumerBeat(heartbeatOf("n", 1)).ErrorCode, kerr.GroupIDNotFound)
	if w.state("g") != "Stable" {
		t.Error(w.state("g"))
	}
}

func TestDisabledDowngrade(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Downgrade = false })
	olds := oldGroup(w)
	n := w.newClient("n", "t")
	stabilizeOld(w, []*client{n}, olds)
	is(t, w.consumerBeat(heartbeatOf("n", -1)).ErrorCode, nil)
	stabilizeOld(w, nil, olds)
	if w.shard.groups["g"].consumer() == nil || olds[0].has.Count() != 3 {
		t.Error("it became a classic group, or does not continue")
	}
}

// An empty group changes its protocol immediately and keeps its offsets.
func TestEmptyGroupAcceptsEitherProtocol(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	is(t, w.commit(commitOf("", -1, "t", 7)), nil)
	n := w.newClient("n", "t")
	is(t, w.consumerBeat(heartbeatOf("n", -1)).ErrorCode, nil)
	old := &oldClient{w: w, topics: []string{"t"}, generation: -1}
	stabilizeOld(w, nil, []*oldClient{old})
	if old.has.Count() != 2 || w.shard.groups["g"].consumer() != nil {
		t.Errorf("%v", old.has)
	}
	w.leave(kmsg.LeaveGroupRequestMember{MemberID: old.id})
	if is(t, n.join(), nil); n.has.Count() != 2 {
		t.Errorf("%v", n.has)
	}
	if p := w.fetched("t"); p.Offset != 7 {
		t.Errorf("%+v", p)
	}
	w.replays()
}

func TestFailingClassicMembersOfAConsumerGroup(t *testing.T) {
	w := newWorld(t)
	olds := oldGroup(w)
	n := w.newClient("n", "t")
	stabilizeOld(w, []*client{n}, olds)
	beat := func(id string, generation int32) int16 { return w.beat(id, generation) }
	is(t, beat("nobody", 1), kerr.UnknownMemberID)
	is(t, beat(olds[0].id, 1), kerr.IllegalGeneration)
	is(t, beat("n", n.epoch), kerr.UnknownMemberID)
	sync := syncOf(olds[0].id, 1)
	is(t, ask[*kmsg.SyncGroupResponse](w, request(sync)).ErrorCode, kerr.IllegalGeneration)
	sync.Generation, sync.Protocol = olds[0].generation, kmsg.StringPtr("x")
	is(t, ask[*kmsg.SyncGroupResponse](w, request(sync)).ErrorCode, kerr.InconsistentGroupProtocol)
	join := joinOf("")
	join.Protocols[0].Name = "sticky"
	is(t, ask[*kmsg.JoinGroupResponse](w, request(join)).ErrorCode, kerr.InconsistentGroupProtocol)
	is(t, w.commit(commitOf(olds[0].id, olds[0].generation+1, "t", 1)), kerr.IllegalGeneration)

	// A member dies: its session is the one it asked for, 10 s.
	for range 6 {
		w.advance(2 * time.Second)
		is(t, n.beat(), nil)
		olds[0].step()
	}
	stabilizeOld(w, []*client{n}, olds[:1])
	if n.has.Count()+olds[0].has.Count() != 6 {
		t.Errorf("%v, %v", n.has, olds[0].has)
	}
	// A member sends heartbeats, must rejoin, and does not.
	w.newClient("n2", "t")
	is(t, n.beat(), nil)
	for range 40 { // its rebalance timeout is 60 s
		w.advance(2 * time.Second)
		w.beat(olds[0].id, olds[0].generation)
		n.beat()
	}
	if w.shard.groups["g"].consumer().members[olds[0].id] != nil {
		t.Error("it is still a member")
	}
	w.replays()
}

// A leader may have assigned a partition twice; after the upgrade it has a single owner.
func TestUpgradeWithOverlappingAssignments(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	leader, j := w.join("")
	w.advance(0)
	w.sync(leader, w.joined(j).Generation, leader, "")
	other, k := w.join("")
	w.join(leader)
	gen := w.joined(k).Generation
	both := string(w.shard.encodeAssignment(assign.Assignment{idOf("t"): {0, 1}}, w.shard.visible(Viewer{}), subscription()))
	w.sync(leader, gen, leader, both, other, both)
	w.newClient("n", "t")
	has := 0
	for _, m := range w.shard.groups["g"].consumer().list() {
		has += m.assigned.count() + m.revoking.count()
	}
	if has != 2 {
		t.Errorf("%d partitions have an owner, want 2", has)
	}
	w.replays()
}
