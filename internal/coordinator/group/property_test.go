package group

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
)

// oldClient is a consumer with the classic protocol. It revokes all partitions before it joins, as
// with the eager assignors.
type oldClient struct {
	w          *world
	id         string
	instance   *string
	topics     []string
	generation int32 // of its assignment; -1: it must join
	has        assign.Assignment
	parked     coordinator.Ticket // its waiting request
}

// step takes the next step of such a client.
func (c *oldClient) step() {
	switch {
	case c.parked != 0:
		if got, ok := c.w.got[c.parked]; ok {
			c.parked = 0
			c.take(got)
		}
	case c.generation < 0:
		c.has = nil
		req := joinOf(c.id)
		req.InstanceID = c.instance
		req.Protocols[0].Metadata = subscription(c.topics...)
		c.request(req)
	default:
		req := kmsg.NewPtrHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.Generation, req.InstanceID = 4, "g", c.id, c.generation, c.instance
		c.request(req)
	}
}

func (c *oldClient) request(body kmsg.Request) {
	c.parked = c.w.send(request(body))
	c.step()
}

func (c *oldClient) take(response any) {
	switch r := response.(type) {
	case *kmsg.JoinGroupResponse:
		switch r.ErrorCode {
		case 0:
			c.id = r.MemberID
			sync := syncOf(c.id, r.Generation)
			sync.InstanceID = c.instance
			if r.LeaderID == c.id && !r.SkipAssignment {
				sync.GroupAssignment = c.lead(r.Members)
			}
			c.generation = r.Generation
			c.request(sync)
		case kerr.MemberIDRequired.Code:
			c.id = r.MemberID
		default:
			c.failed(r.ErrorCode)
		}
	case *kmsg.SyncGroupResponse:
		if r.ErrorCode != 0 {
			c.failed(r.ErrorCode)
			return
		}
		a, err := c.w.shard.decodeAssignment(r.MemberAssignment)
		if err != nil {
			c.w.t.Fatalf("assignment: %v", err)
		}
		c.has = a
	case *kmsg.HeartbeatResponse:
		if r.ErrorCode != 0 {
			c.failed(r.ErrorCode)
		}
	}
}

// failed makes the client join again, with another id if its own is unknown.
func (c *oldClient) failed(code int16) {
	c.generation, c.has = -1, nil
	switch code {
	case kerr.RebalanceInProgress.Code, kerr.IllegalGeneration.Code:
	default:
		c.id = ""
	}
}

// lead assigns every partition of each topic to one of its subscribers.
func (c *oldClient) lead(members []kmsg.JoinGroupResponseMember) (out []kmsg.SyncGroupRequestGroupAssignment) {
	in := assign.Input{Partitions: map[assign.TopicID]int32{}}
	for _, m := range members {
		sub := kmsg.NewConsumerMemberMetadata()
		if err := sub.ReadFrom(m.ProtocolMetadata); err != nil {
			c.w.t.Fatalf("metadata of a member: %v", err)
		}
		a := assign.Member{ID: m.MemberID}
		for _, name := range sub.Topics {
			if t, ok := c.w.topics.ByName(name); ok {
				a.Topics = append(a.Topics, t.ID)
				in.Partitions[t.ID] = t.Partitions
			}
		}
		in.Members = append(in.Members, a)
	}
	for id, a := range assign.Range(in) {
		out = append(out, kmsg.SyncGroupRequestGroupAssignment{MemberID: id,
			MemberAssignment: c.w.shard.encodeAssignment(a, c.w.shard.visible(Viewer{}), subscription())})
	}
	return out
}

// chaos is a group whose members join, leave, die and change, while topics change and the
// coordinator moves.
type chaos struct {
	*world
	t       *rapid.T
	created int
	new     []*client
	old     []*oldClient
	// The highest values seen, to check that none decreases.
	epoch      int32
	generation int32
	memberOf   map[string]int32
	work
}

func newChaos(t *rapid.T) *chaos {
	c := &chaos{world: newWorld(t), t: t, memberOf: map[string]int32{}, work: newWork()}
	c.topic("t", 4)
	return c
}

func (c *chaos) names() []string {
	return rapid.SampledFrom([][]string{{"t"}, {"t", "u"}, {"u"}, {"t", "v"}}).Draw(c.t, "topics")
}

func (c *chaos) act(kinds []string) {
	switch kind := rapid.SampledFrom(kinds).Draw(c.t, "act"); kind {
	case "new":
		c.created++
		n := &client{w: c.world, id: fmt.Sprint("new", c.created)}
		topics, regex, instance := c.names(), rapid.Bool().Draw(c.t, "regex"), rapid.SampledFrom([]string{"", "", "i", "j"}).Draw(c.t,
			"instance")
		n.request = func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			if r.SubscribedTopicNames = topics; regex {
				r.SubscribedTopicNames, r.SubscribedTopicRegex = []string{}, kmsg.StringPtr("[tu]")
			}
			r.InstanceID = ptr(instance)
		}
		n.instance = ptr(instance)
		if n.join() == 0 {
			c.new = append(c.new, n)
		}
	case "old":
		o := &oldClient{w: c.world, topics: c.names(), generation: -1,
			instance: ptr(rapid.SampledFrom([]string{"", "", "", "k"}).Draw(c.t, "instance"))}
		if slices.ContainsFunc(c.old, func(x *oldClient) bool { return x.instance != nil }) {
			o.instance = nil // two members with one instance id would fence each other forever
		}
		c.old = append(c.old, o)
	case "beat":
		for _, n := range slices.Clone(c.new) {
			if rapid.Bool().Draw(c.t, "beats") {
				c.goOn(n)
			}
		}
		for _, o := range c.old {
			if rapid.Bool().Draw(c.t, "steps") {
				o.step()
			}
		}
	case "lost": // the response is lost
		if len(c.new) > 0 {
			n := rapid.SampledFrom(c.new).Draw(c.t, "who")
			had, epoch := n.has, n.epoch
			n.beat()
			n.has, n.epoch = had, epoch
		}
	case "leave":
		if len(c.new) > 0 {
			n := rapid.SampledFrom(c.new).Draw(c.t, "who")
			req := heartbeatOf(n.id, -1)
			if req.InstanceID = n.instance; n.instance != nil && rapid.Bool().Draw(c.t, "back") {
				req.MemberEpoch = -2
			}
			c.consumerBeat(req)
			c.remove(n)
		}
	case "die":
		if len(c.old) > 0 {
			c.old = slices.Delete(c.old, 0, 1)
		}
	case "topic":
		c.changeTopic(rapid.SampledFrom([]string{"t", "u", "v"}).Draw(c.t, "name"), rapid.Int32Range(0, 6).Draw(c.t, "partitions"))
	case "time":
		c.advance(time.Duration(rapid.SampledFrom([]int{0, 1, 5, 20, 50}).Draw(c.t, "seconds")) * time.Second)
	case "reload":
		c.start()
		for _, o := range c.old {
			if o.parked != 0 { // its waiting request is answered with an error
				o.parked, o.generation = 0, -1
			}
		}
	case "read":
		if all := c.workers(); len(all) > 0 {
			c.readOn(rapid.SampledFrom(all).Draw(c.t, "who"), rapid.Int64Range(0, 9).Draw(c.t, "records"))
		}
	case "sleep":
		c.sleep()
	}
}

// check checks the invariants.
func (c *chaos) check() {
	c.replays()
	c.note()
	c.checkOffsets()
	g := c.shard.groups["g"]
	if g == nil {
		c.epoch, c.generation = 0, 0
		clear(c.memberOf)
		return
	}
	if g.consumer() != nil {
		c.checkConsumer(g.consumer())
	} else {
		c.checkClassic(g.classic())
	}
}

func (c *chaos) checkConsumer(k *consumer) {
	if k.epoch < c.epoch || k.targetEpoch > k.epoch {
		c.t.Fatalf("group epoch %d, was %d, target of %d", k.epoch, c.epoch, k.targetEpoch)
	}
	c.epoch, c.generation = k.epoch, 0
	owners, targets := map[string]string{}, map[string]string{}
	for _, m := range k.list() {
		if m.epoch >= 0 && m.epoch < c.memberOf[m.id] {
			c.t.Fatalf("epoch of %s went from %d to %d", m.id, c.memberOf[m.id], m.epoch)
		}
		c.memberOf[m.id] = max(m.epoch, 0)
		for _, o := range []owned{m.assigned, m.revoking} {
			c.claim(owners, m.id, o.assignment())
		}
		c.claim(targets, m.id, k.target[m.id])
		if m.epoch > k.targetEpoch || m.state == memberStable && m.epoch == k.targetEpoch &&
			!m.assigned.assignment().Equal(k.target[m.id]) {
			c.t.Fatalf("%s is stable in epoch %d of %d with %v, its target is %v", m.id, m.epoch, k.targetEpoch, m.assigned, k.target[m.id])
		}
	}
	maps.DeleteFunc(c.memberOf, func(id string, _ int32) bool { return k.members[id] == nil })
	// The members and the coordinator agree about what the members own.
	for _, n := range c.new {
		if m := k.members[n.id]; m != nil && n.epoch >= m.previous && m.epoch >= 0 {
			c.within(n.id, n.has, m)
		}
	}
	for _, o := range c.old {
		if m := k.members[o.id]; m != nil && m.classic() && o.generation == m.epoch {
			c.within(o.id, o.has, m)
		}
	}
}

// claim checks that no other member owns the partitions.
func (c *chaos) claim(owners map[string]string, id string, a assign.Assignment) {
	for topic, list := range a {
		for _, p := range list {
			key := fmt.Sprint(topic, p)
			if owners[key] != "" {
				c.t.Fatalf("%s of %s belongs to %s too", key, id, owners[key])
			}
			owners[key] = id
		}
	}
}

// within checks that a member owns nothing that the coordinator has not assigned to it.
func (c *chaos) within(id string, has assign.Assignment, m *member) {
	for topic, list := range has {
		for _, p := range list {
			_, a := m.assigned[topic][p]
			_, r := m.revoking[topic][p]
			if !a && !r {
				c.t.Fatalf("%s has partition %d of %v; the coordinator has %v and %v", id, p, topic, m.assigned, m.revoking)
			}
		}
	}
}

func (c *chaos) checkClassic(k *classic) {
	c.epoch = 0
	clear(c.memberOf)
	if k.state == stable || k.state == empty {
		if k.generation < c.generation {
			c.t.Fatalf("generation %d, was %d", k.generation, c.generation)
		}
		c.generation = k.generation
	}
	owners := map[string]string{}
	awaiting := 0
	for _, m := range k.members {
		if m.join.to != 0 {
			awaiting++
		}
	}
	if awaiting != k.awaiting {
		c.t.Fatalf("%d joins wait, but the count is %d", awaiting, k.awaiting)
	}
	if len(k.members) > 0 && k.members[k.leader] == nil && k.state != empty {
		c.t.Fatalf("the leader %q is not a member", k.leader)
	}
	for _, o := range c.old {
		if k.members[o.id] != nil && o.generation == k.generation && o.parked == 0 {
			c.claim(owners, o.id, o.has)
		}
	}
}

// calm lets all live members continue without faults: the group must become stable, with every
// partition of the subscribed topics owned by a live member.
func (c *chaos) calm() {
	for range 60 {
		c.advance(2 * time.Second)
		for _, n := range slices.Clone(c.new) {
			c.goOn(n)
		}
		for _, o := range c.old {
			o.step()
		}
	}
	c.check()
	if g := c.shard.groups["g"]; g != nil && g.consumer() == nil && len(c.old) > 0 && g.classic().state != stable {
		c.t.Fatalf("the classic group does not become stable: %v", g.classic().state)
	} else if g != nil && g.consumer() != nil && len(c.new)+len(c.old) > 0 && g.consumer().stateName() != "Stable" {
		for _, m := range g.consumer().list() {
			c.t.Logf("%s in epoch %d of %d, state %d, classic %t: owns %v revokes %v target %v", m.id, m.epoch, g.consumer().targetEpoch,
				m.state, m.classic(), m.assigned, m.revoking, g.consumer().target[m.id])
		}
		c.t.Fatalf("the consumer group does not become stable: %v", g.consumer().stateName())
	}
}

func (c *chaos) run(kinds []string) {
	for range rapid.IntRange(1, 40).Draw(c.t, "steps") {
		c.act(kinds)
		c.check()
	}
	c.calm()
}

func TestConsumerGroupInChaos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		newChaos(t).run([]string{"new", "beat", "beat", "beat", "lost", "leave", "topic", "time", "reload", "read", "read", "sleep"})
	})
}

func TestClassicGroupInChaos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		newChaos(t).run([]string{"old", "beat", "beat", "beat", "die", "topic", "time", "time", "reload", "read", "read", "sleep"})
	})
}

// Both protocols in one group: it is upgraded when a consumer with the new protocol joins, and
// downgraded when the last one leaves.
func TestMixedGroupInChaos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		newChaos(t).run([]string{"old", "new", "beat", "beat", "beat", "beat", "lost", "leave", "die", "topic", "time", "reload", "read",
			"read", "sleep"})
	})
}
