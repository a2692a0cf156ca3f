package group

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
)

// cooperating lets clients of the classic protocol and new ones continue, and returns how many
// partitions they have in the end.
func cooperating(w *world, olds []*oldClient, news ...*client) (n int) {
	for range 60 {
		w.advance(2 * time.Second)
		for _, o := range olds {
			o.step()
		}
		for _, c := range news {
			if c.beat() != 0 {
				c.join()
			}
		}
	}
	for _, o := range olds {
		n += o.has.Count()
	}
	for _, c := range news {
		n += c.has.Count()
	}
	return n
}

// brokenWorld returns a world without some rules.
func brokenWorld(t fataler, b Broken) *world {
	w := newWorld(t, func(c *Config) { c.Broken = b })
	w.topic("t", 4)
	return w
}

// returning is the history of a static member that restarts when it has revoked partitions, and has
// not joined again for others to get them. It returns how many of 4 partitions have an owner.
func returning(t fataler, b Broken) int {
	w := brokenWorld(t, b)
	static := &oldClient{w: w, topics: []string{"t"}, generation: -1, cooperative: true, instance: kmsg.StringPtr("s")}
	cooperating(w, []*oldClient{static})
	other := &oldClient{w: w, topics: []string{"t"}, generation: -1, cooperative: true}
	for !static.rejoins || static.has.Count() == 4 {
		w.advance(100 * time.Millisecond)
		other.step()
		static.step()
	}
	static.restart()
	return cooperating(w, []*oldClient{static, other})
}

// upgraded is the history of a group that is upgraded when its leader has assigned a member less
// than it owns, and the member has not heard of that. It returns how many partitions the new member
// gets at once.
func upgraded(t fataler, b Broken) int {
	w := brokenWorld(t, b)
	old := &oldClient{w: w, topics: []string{"t"}, generation: -1, cooperative: true}
	cooperating(w, []*oldClient{old})
	other := &oldClient{w: w, topics: []string{"t"}, generation: -1, cooperative: true}
	other.step() // it joins, and waits
	other.step()
	join := joinOf(old.id)
	join.Protocols[0].Name, join.Protocols[0].Metadata = old.protocol(), old.metadata()
	joined := ask[*kmsg.JoinGroupResponse](w, request(join))
	sync := syncOf(old.id, joined.Generation, old.id,
		string(w.shard.encodeAssignment(assign.Assignment{idOf("t"): {0, 1}}, w.shard.visible(Viewer{}), subscription("t"))))
	sync.Protocol = kmsg.StringPtr(old.protocol())
	is(t, ask[*kmsg.SyncGroupResponse](w, request(sync)).ErrorCode, nil) // the response is lost
	return w.newClient("n", "t").has.Count()
}

// replacing is the history of a static member that returns with the new protocol while the group
// rebalances because another one has left. It returns how many of 4 partitions have an owner.
func replacing(t fataler, b Broken) int {
	w := brokenWorld(t, b)
	static := &oldClient{w: w, topics: []string{"t"}, generation: -1, instance: kmsg.StringPtr("s")}
	other := &oldClient{w: w, topics: []string{"t"}, generation: -1}
	cooperating(w, []*oldClient{static, other})
	w.leave(kmsg.LeaveGroupRequestMember{MemberID: other.id})
	n := &client{w: w, id: "n", instance: kmsg.StringPtr("s"), request: func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.SubscribedTopicNames, r.InstanceID = []string{"t"}, kmsg.StringPtr("s")
	}}
	is(t, n.join(), nil)
	return cooperating(w, nil, n)
}

// recreated is the history of a topic that is deleted and created again, smaller, after a member
// has reported its partitions and before the rebalance ends. It returns how many of 5 partitions
// have an owner.
func recreated(t fataler, b Broken) int {
	w := brokenWorld(t, b)
	w.topic("u", 2)
	owner := &oldClient{w: w, topics: []string{"u"}, generation: -1, cooperative: true, instance: kmsg.StringPtr("s")}
	slow := &oldClient{w: w, topics: []string{"t"}, generation: -1, cooperative: true}
	cooperating(w, []*oldClient{owner, slow})
	other := &oldClient{w: w, topics: []string{"u"}, generation: -1, cooperative: true}
	other.step() // its id sorts before the owner's, and gets the partition
	other.step()
	for owner.parked == 0 {
		owner.step()
	}
	w.topic("u", 0)
	owner.has = nil
	w.topic("u", 1)
	return cooperating(w, []*oldClient{owner, slow, other})
}

func TestMembersOwnWhatTheyReport(t *testing.T) {
	if n := returning(t, Broken{}); n != 4 {
		t.Errorf("a static member has returned: %d of 4 partitions have an owner", n)
	}
	if n := upgraded(t, Broken{}); n != 0 {
		t.Errorf("after an upgrade the new member gets %d partitions that another one owns", n)
	}
	if n := recreated(t, Broken{}); n != 5 {
		t.Errorf("a topic was created again during a rebalance: %d of 5 partitions have an owner", n)
	}
	if n := replacing(t, Broken{}); n != 4 {
		t.Errorf("a static member has been replaced: %d of 4 partitions have an owner", n)
	}
}
