package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// roomy has memory for records that are too large.
func roomy(c *Config) { c.MemberMemory = coordinator.NewMemoryBudget(512 << 20) }

// largest returns the bytes of the largest event since a number of records.
func (w *world) largest(since int) (most int) {
	size := 0
	for _, r := range w.log[since:] {
		if r.Begins {
			size = 0
		}
		size += r.Size()
		most = max(most, size)
	}
	return most
}

// A classic group whose records as a consumer group would have no place in a batch stays a classic
// one, and the consumer that would change it gets an error.
func TestAnUpgradeHasABound(t *testing.T) {
	w := newWorld(t, roomy)
	w.topic("t", 1)
	names := make([]string, 16_000)
	for i := range names {
		names[i] = fmt.Sprintf("%060d", i)
	}
	metadata := subscription(names...)
	for range 12 {
		w.send(request(joinOf("", version(3), func(r *kmsg.JoinGroupRequest) {
			r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: metadata}}
		})))
	}
	n := len(w.log)
	is(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, request(full("n", "t"))).ErrorCode, kerr.GroupMaxSizeReached)
	if len(w.log) != n || w.state("g") != "PreparingRebalance" {
		t.Errorf("%d records; the group is %s", len(w.log)-n, w.state("g"))
	}
}

// Static members that return with larger metadata begin a rebalance before the record of their
// group has no place in a batch.
func TestAReturnOfStaticMembersHasABound(t *testing.T) {
	w := newWorld(t, roomy)
	w.topic("t", 1)
	with := func(n int) func(*kmsg.JoinGroupRequest) {
		v := kmsg.NewConsumerMemberMetadata()
		v.Version, v.Topics, v.UserData = 1, []string{"t"}, make([]byte, n)
		return func(r *kmsg.JoinGroupRequest) {
			r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: v.AppendTo(nil)}}
		}
	}
	var tickets []coordinator.Ticket
	for i := range 20 {
		_, k := w.join("", static(fmt.Sprint("i", i)), with(10))
		tickets = append(tickets, k)
	}
	w.advance(time.Second)
	var r *kmsg.JoinGroupResponse
	for _, k := range tickets {
		r = w.joined(k)
		w.sync(r.MemberID, r.Generation)
	}
	w.sync(r.LeaderID, r.Generation, r.LeaderID, "x")
	n := len(w.log)
	for i := 0; i < 20 && w.state("g") == "Stable"; i++ {
		w.join("", static(fmt.Sprint("i", i)), with(1<<20-200))
	}
	if most := w.largest(n); w.state("g") != "PreparingRebalance" || most > w.cfg.MaxRecord+1<<20 {
		t.Errorf("the group is %s, its record has %d bytes", w.state("g"), most)
	}
}

// Groups count, also those without members and offsets.
func TestEmptyGroupsCount(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MemberMemory = coordinator.NewMemoryBudget(4 << 20) })
	w.topic("t", 1)
	refused := 0
	for i := range 3000 { // a shard has 1 MiB
		req := kmsg.NewPtrShareGroupHeartbeatRequest()
		req.Version, req.GroupID, req.MemberID = 1, fmt.Sprint("group-", i), "AAAAAAAAAAAAAAAAAAAAAA"
		req.SubscribedTopicNames = []string{"missing"}
		if ask[*kmsg.ShareGroupHeartbeatResponse](w, request(req)).ErrorCode != 0 {
			refused++
		}
		req.MemberEpoch = -1
		w.send(request(req))
	}
	if refused == 0 || len(w.shard.groups) > 2500 {
		t.Errorf("%d groups, %d were refused", len(w.shard.groups), refused)
	}
	w.weighs()
}

// A static member that restarts while its JoinGroup waits keeps its place as long as the new one
// waits.
func TestAStaticMemberThatRestartsInAJoinPhase(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 2)
	b, j := w.join("")
	w.advance(0)
	g := w.joined(j).Generation
	w.sync(b, g, b, "all")
	_, first := w.join("", static("a"))
	_, second := w.join("", static("a"))
	is(t, answer[*kmsg.JoinGroupResponse](w, first).ErrorCode, kerr.FencedInstanceID)
	for range 12 { // sessions are 10 s, the rebalance timeout is 60 s
		w.advance(time.Second)
		is(t, w.beat(b, g), kerr.RebalanceInProgress)
	}
	w.waits(second)
}
