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

// oldClient is a consumer with the classic protocol.
type oldClient struct {
	w          *world
	id         string
	instance   *string
	topics     []string
	generation int32 // of its assignment; -1: it must join
	has        assign.Assignment
	parked     coordinator.Ticket // its waiting request
	// cooperative: it keeps its partitions while it rejoins, and gives up only those that an
	// assignment lacks. Otherwise it revokes all partitions before it joins, as with the eager
	// assignors.
	cooperative bool
	rejoins     bool              // it must join again, and may keep its generation
	joined      []string          // topics of its last JoinGroup
	reported    assign.Assignment // the partitions that its last JoinGroup listed as its own
	watches     map[string]int32  // the topics that it watches as the leader, with their partitions
}

func (c *oldClient) protocol() string {
	if c.cooperative {
		return "cooperative-sticky"
	}
	return "range"
}

// step takes the next step of such a client.
func (c *oldClient) step() {
	for name, n := range c.watches {
		c.rejoins = c.rejoins || c.w.topics.list[name] != n
	}
	switch {
	case c.parked != 0:
		if got, ok := c.w.got[c.parked]; ok {
			c.parked = 0
			c.take(got)
		}
	case c.generation < 0 || c.rejoins:
		if !c.cooperative {
			c.generation, c.has = -1, nil
		}
		req := joinOf(c.id)
		req.InstanceID = c.instance
		req.Protocols[0].Name, req.Protocols[0].Metadata = c.protocol(), c.metadata()
		c.request(req)
	default:
		req := kmsg.NewPtrHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.Generation, req.InstanceID = 4, "g", c.id, c.generation, c.instance
		c.request(req)
	}
}

// metadata is the client's subscription, with the partitions that it still owns.
func (c *oldClient) metadata() []byte {
	v := kmsg.NewConsumerMemberMetadata()
	c.joined = c.topics
	v.Version, v.Topics, c.reported = 1, c.topics, c.has
	for _, id := range c.has.Topics() {
		if topic, ok := c.w.topics.ByID(id); ok {
			v.OwnedPartitions = append(v.OwnedPartitions,
				kmsg.ConsumerMemberMetadataOwnedPartition{Topic: topic.Name, Partitions: c.has[id]})
		}
	}
	return v.AppendTo(nil)
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
			c.id, c.rejoins, c.watches = r.MemberID, !slices.Equal(c.joined, c.topics), nil
			sync := syncOf(c.id, r.Generation)
			sync.Protocol, sync.InstanceID = kmsg.StringPtr(c.protocol()), c.instance
			if r.LeaderID == c.id {
				list := c.lead(r.Members)
				if r.SkipAssignment { // what changed while it was away concerns the assignment that stays
					c.watches = c.w.watched
				} else {
					sync.GroupAssignment, c.w.watched = list, c.watches
				}
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
		// What it reported and does not get back is free when it has joined again, even if the
		// topic was deleted and created again meanwhile: the leader knows topics by name.
		for id, list := range c.reported {
			for _, p := range list {
				c.rejoins = c.rejoins || !slices.Contains(a[id], p)
			}
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
	c.rejoins = true
	switch code {
	case kerr.RebalanceInProgress.Code:
		if c.cooperative {
			return
		}
	case kerr.IllegalGeneration.Code:
	default:
		c.id = ""
	}
	c.generation, c.has = -1, nil
}

// restart makes the client forget everything.
func (c *oldClient) restart() {
	c.id, c.generation, c.has, c.parked, c.rejoins, c.watches = "", -1, nil, 0, false, nil
}

// lead assigns every partition of each topic to one of its subscribers, except those that another
// one still owns: they are free in the next generation.
func (c *oldClient) lead(members []kmsg.JoinGroupResponseMember) (out []kmsg.SyncGroupRequestGroupAssignment) {
	in := assign.Input{Partitions: map[assign.TopicID]int32{}}
	owners := map[spot]string{}
	c.watches = map[string]int32{}
	for _, m := range members {
		sub := kmsg.NewConsumerMemberMetadata()
		if err := sub.ReadFrom(m.ProtocolMetadata); err != nil {
			c.w.t.Fatalf("metadata of a member: %v", err)
		}
		a := assign.Member{ID: m.MemberID}
		for _, name := range sub.Topics {
			t, ok := c.w.topics.ByName(name)
			if c.watches[name] = t.Partitions; ok {
				a.Topics = append(a.Topics, t.ID)
				in.Partitions[t.ID] = t.Partitions
			}
		}
		for _, t := range sub.OwnedPartitions {
			for _, p := range t.Partitions {
				owners[spot{idOf(t.Topic), p}] = m.MemberID
			}
		}
		in.Members = append(in.Members, a)
	}
	for id, a := range assign.Range(in) {
		for topic := range a {
			a[topic] = slices.DeleteFunc(a[topic], func(p int32) bool {
				owner := owners[spot{topic, p}]
				return owner != "" && owner != id
			})
		}
		out = append(out, kmsg.SyncGroupRequestGroupAssignment{MemberID: id,
			MemberAssignment: c.w.shard.encodeAssignment(a, c.w.shard.visible(Viewer{}), subscription())})
	}
	return out
}

// chaos is a group whose members join, leave, die and change, while topics change and the
// coordinator moves.
type chaos struct {
	*world
	dice
	created     int
	cooperative bool // the members with the classic protocol are
	new         []*client
	old         []*oldClient
	// The highest values seen, to check that none decreases.
	epoch      int32
	generation int32
	memberOf   map[string]int32
	work
}

func newChaos(d dice, broken Broken) *chaos {
	c := &chaos{world: newWorld(panics{}, func(c *Config) { c.Broken = broken }), dice: d, memberOf: map[string]int32{}, work: newWork()}
	c.cooperative = c.coin()
	c.topic("t", 4)
	return c
}

func pick[T any](d dice, list ...T) T { return list[d.roll(len(list))] }

func (c *chaos) coin() bool { return c.roll(2) == 0 }

func (c *chaos) names() []string {
	return pick(c, []string{"t"}, []string{"t", "u"}, []string{"u"}, []string{"t", "v"})
}

// instance returns nil, or an instance id that no live member has: two would fence each other
// forever.
func (c *chaos) instance() *string {
	i := ptr(pick(c, "", "", "", "i", "j", "k"))
	if slices.ContainsFunc(c.old, func(x *oldClient) bool { return same(x.instance, i) }) ||
		slices.ContainsFunc(c.new, func(x *client) bool { return same(x.instance, i) }) {
		return nil
	}
	return i
}

// subscribe gives a consumer with the new protocol a subscription.
func (c *chaos) subscribe(n *client) {
	topics, regex, instance := c.names(), c.coin(), n.instance
	n.topics = topics
	if regex {
		n.topics = []string{"t", "u"}
	}
	n.request = func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.SubscribedTopicNames, r.SubscribedTopicRegex = topics, kmsg.StringPtr("")
		if regex {
			r.SubscribedTopicNames, r.SubscribedTopicRegex = []string{}, kmsg.StringPtr("[tu]")
		}
		r.InstanceID = instance
	}
}

func (c *chaos) act(kinds []string) {
	switch pick(c, kinds...) {
	case "new":
		c.created++
		n := &client{w: c.world, id: fmt.Sprint("new", c.created), instance: c.instance()}
		if c.subscribe(n); n.join() == 0 {
			c.new = append(c.new, n)
		}
	case "old":
		c.old = append(c.old,
			&oldClient{w: c.world, topics: c.names(), generation: -1, cooperative: c.cooperative, instance: c.instance()})
	case "beat":
		for _, n := range slices.Clone(c.new) {
			if c.coin() {
				c.goOn(n)
			}
		}
		for _, o := range c.old {
			if c.coin() {
				o.step()
			}
		}
	case "lost": // the response is lost
		if len(c.new) > 0 {
			n := pick(c, c.new...)
			had, epoch := n.has, n.epoch
			n.beat()
			n.has, n.epoch, n.lost = had, epoch, true
		}
	case "subscribe":
		c.resubscribe()
	case "leave":
		c.leave()
	case "die":
		if len(c.old) > 0 {
			c.old = slices.Delete(c.old, 0, 1)
		}
	case "topic":
		c.changeTopic(pick(c, "t", "u", "v"), int32(c.roll(7)))
	case "time":
		c.advance(time.Duration(pick(c, 0, 1, 5, 20, 50)) * time.Second)
	case "reload":
		c.reload()
	case "read":
		if all := c.workers(); len(all) > 0 {
			c.readOn(pick(c, all...), int64(c.roll(10)))
		}
	case "sleep":
		c.sleep()
	}
}

// resubscribe changes the subscription of a member, or restarts a static one with the classic
// protocol.
func (c *chaos) resubscribe() {
	if len(c.old) > 0 && (len(c.new) == 0 || c.coin()) {
		o := pick(c, c.old...)
		if o.topics, o.rejoins = c.names(), true; o.instance != nil {
			o.restart()
		}
		return
	}
	if len(c.new) > 0 {
		n := pick(c, c.new...)
		c.subscribe(n)
		req := heartbeatOf(n.id, n.epoch)
		if n.request(req); n.take(c.consumerBeat(req)) != 0 {
			c.goOn(n)
		}
	}
}

func (c *chaos) leave() {
	if len(c.new) == 0 {
		return
	}
	n := pick(c, c.new...)
	req := heartbeatOf(n.id, -1)
	if req.InstanceID = n.instance; n.instance != nil && c.coin() {
		req.MemberEpoch = -2
	}
	c.consumerBeat(req)
	c.remove(n)
}

func (c *chaos) reload() {
	c.start()
	for _, o := range c.old {
		if o.parked != 0 { // its waiting request is answered with an error
			o.parked, o.rejoins = 0, true
		}
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

// within checks that a member owns nothing that the coordinator has not assigned to it. Members
// with the classic protocol get the assignment of their generation by names: it may have partitions
// that a new topic of the name lacks.
func (c *chaos) within(id string, has assign.Assignment, m *member) {
	for topic, list := range has {
		now, _ := c.topics.ByID(topic)
		for _, p := range list {
			if m.classic() && p >= now.Partitions {
				continue
			}
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
	if unled := k.leader == "" && k.state == preparing; len(k.members) > 0 && k.members[k.leader] == nil && k.state != empty && !unled {
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
	if g := c.shard.groups["g"]; g != nil && len(c.new)+len(c.old) > 0 {
		if _, _, state := g.kind.listed(); state != "Stable" {
			c.t.Fatalf("the group does not become stable: %v", state)
		}
	}
	wanted, owners := map[string]bool{}, map[string]string{}
	for _, n := range c.new {
		c.want(wanted, n.topics)
		c.claim(owners, n.id, n.has)
	}
	for _, o := range c.old {
		c.want(wanted, o.topics)
		c.claim(owners, o.id, o.has)
	}
	for p := range wanted {
		if owners[p] == "" {
			c.t.Fatalf("in the end no member owns %s: %v", p, owners)
		}
	}
}

// want adds all partitions of topics, in the words of claim.
func (c *chaos) want(wanted map[string]bool, topics []string) {
	for _, name := range topics {
		for p := range c.topics.list[name] {
			wanted[fmt.Sprint(idOf(name), p)] = true
		}
	}
}

// run returns what goes wrong, "" if nothing does.
func (c *chaos) run(steps int, kinds []string) (bad string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fault:
			bad = string(r)
		default:
			panic(r)
		}
	}()
	for range steps {
		c.act(kinds)
		c.check()
	}
	c.calm()
	return ""
}

var (
	newActs   = []string{"new", "beat", "beat", "beat", "lost", "subscribe", "leave", "topic", "time", "reload", "read", "read", "sleep"}
	oldActs   = []string{"old", "beat", "beat", "beat", "subscribe", "die", "topic", "time", "time", "reload", "read", "read", "sleep"}
	mixedActs = []string{"old", "new", "beat", "beat", "beat", "beat", "lost", "subscribe", "leave", "die", "topic", "time", "reload",
		"read", "read", "sleep"}
)

func chaosWith(kinds []string) func(*rapid.T) {
	return func(t *rapid.T) {
		if bad := newChaos(drawn{t}, Broken{}).run(rapid.IntRange(1, 40).Draw(t, "steps"), kinds); bad != "" {
			t.Fatal(bad)
		}
	}
}

func TestConsumerGroupInChaos(t *testing.T) { rapid.Check(t, chaosWith(newActs)) }

func TestClassicGroupInChaos(t *testing.T) { rapid.Check(t, chaosWith(oldActs)) }

// Both protocols in one group: it is upgraded when a consumer with the new protocol joins, and
// downgraded when the last one leaves.
func TestMixedGroupInChaos(t *testing.T) { rapid.Check(t, chaosWith(mixedActs)) }
