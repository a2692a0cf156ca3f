package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
)

// shareClient is a member of a share group that behaves like KafkaShareConsumer.
type shareClient struct {
	w      *world
	id     string
	topics []string
	epoch  int32
	has    assign.Assignment
	last   *kmsg.ShareGroupHeartbeatResponse
}

func shareBeatOf(id string, epoch int32, topics ...string) *kmsg.ShareGroupHeartbeatRequest {
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.Version, req.GroupID, req.MemberID, req.MemberEpoch, req.SubscribedTopicNames = 1, "g", id, epoch, topics
	return req
}

func (w *world) shareBeat(req *kmsg.ShareGroupHeartbeatRequest) *kmsg.ShareGroupHeartbeatResponse {
	w.t.Helper()
	return ask[*kmsg.ShareGroupHeartbeatResponse](w, request(req))
}

func (c *shareClient) join() int16 {
	c.has = nil
	return c.take(c.w.shareBeat(shareBeatOf(c.id, 0, c.topics...)))
}

func (c *shareClient) beat() int16 { return c.take(c.w.shareBeat(shareBeatOf(c.id, c.epoch))) }

func (c *shareClient) take(resp *kmsg.ShareGroupHeartbeatResponse) int16 {
	c.last = resp
	if resp.ErrorCode != 0 {
		return resp.ErrorCode
	}
	c.epoch = resp.MemberEpoch
	if resp.Assignment != nil {
		c.has = assign.Assignment{}
		for _, t := range resp.Assignment.TopicPartitions {
			c.has[t.TopicID] = t.Partitions
		}
	}
	return 0
}

// job is a request to share coordinators.
type job struct {
	request any
	from    *Shard
	done    bool
	errs    []*kerr.Error
}

func (j *job) partitions() []SharePartition {
	switch r := j.request.(type) {
	case InitializeShares:
		return r.Partitions
	case DeleteShares:
		return r.Partitions
	}
	return nil
}

// shareStore is the share coordinators of all partitions, and the sender of the requests to them.
type shareStore struct {
	w      *world
	states map[SharePartition]bool // of group g
	starts map[SharePartition]int64
	epochs map[SharePartition]int32 // of the states that were begun, also of those that are gone
	queue  []*job
}

func newShareStore(w *world) *shareStore {
	return &shareStore{w: w, states: map[SharePartition]bool{}, starts: map[SharePartition]int64{}, epochs: map[SharePartition]int32{}}
}

// begin carries out a part of an InitializeShares.
func (d *shareStore) begin(r InitializeShares, i int) {
	p := r.Partitions[i]
	switch {
	case r.Starts == nil && d.states[p]:
	case r.Starts == nil:
		d.states[p], d.starts[p], d.epochs[p] = true, -1, r.StateEpoch
		if r.Added {
			d.starts[p] = -2 // sharestate.FromFirst
		}
	case d.states[p] && r.StateEpoch <= d.epochs[p]:
		d.w.t.Fatalf("the state of %v has epoch %d, altered in %d", p, d.epochs[p], r.StateEpoch)
	default:
		d.states[p], d.starts[p], d.epochs[p] = true, r.Starts[i], r.StateEpoch
	}
}

// collect takes what the shard has sent, and checks that no Delete is sent while an Initialize of
// the same partition has no result, nor the other way round.
func (d *shareStore) collect() {
	for _, r := range d.w.sent {
		j := &job{request: r, from: d.w.shard}
		if _, deletes := r.(DeleteShares); deletes != d.recordedAsDeleting(j) {
			d.w.t.Fatalf("%+v is sent, recorded is %+v", r, d.w.shard.groups["g"].share().states)
		}
		for _, other := range d.queue {
			if other.from == j.from && fmt.Sprintf("%T", other.request) != fmt.Sprintf("%T", r) && overlap(other, j) {
				d.w.t.Fatalf("%+v is sent before the result of %+v", r, other.request)
			}
		}
		d.queue = append(d.queue, j)
	}
	d.w.sent = nil
}

func (d *shareStore) recordedAsDeleting(j *job) bool {
	x := d.w.shard.groups["g"].share().states
	for _, p := range j.partitions() {
		if _, deleting := x.deleting[p.Topic]; deleting {
			return true
		}
	}
	return false
}

func overlap(a, b *job) bool {
	return slices.ContainsFunc(a.partitions(), func(p SharePartition) bool { return slices.Contains(b.partitions(), p) })
}

// carryOut carries out the oldest request.
func (d *shareStore) carryOut() {
	if len(d.queue) == 0 || d.queue[0].done {
		return
	}
	j := d.queue[0]
	j.done, j.errs = true, make([]*kerr.Error, len(j.partitions()))
	_, deletes := j.request.(DeleteShares)
	for i, p := range j.partitions() {
		if t, exists := d.w.topics.ByID(p.Topic); !exists || p.Partition >= t.Partitions {
			if !deletes {
				j.errs[i] = kerr.UnknownTopicOrPartition
			}
		} else if deletes {
			delete(d.states, p)
		} else {
			d.begin(j.request.(InitializeShares), i)
		}
	}
}

// answer ends the oldest request. If it fails, that says nothing about what was carried out.
func (d *shareStore) answer(fails func() bool) {
	if len(d.queue) == 0 {
		return
	}
	j := d.queue[0]
	d.queue = d.queue[1:]
	errs := make([]*kerr.Error, len(j.partitions()))
	for i := range errs {
		if errs[i] = kerr.CoordinatorNotAvailable; j.done && !fails() {
			errs[i] = j.errs[i]
		}
	}
	if j.from != d.w.shard {
		return
	}
	switch r := j.request.(type) {
	case InitializeShares:
		d.w.event(SharesInitialized{r, errs})
	case DeleteShares:
		d.w.event(SharesDeleted{r, errs})
	}
	d.collect()
}

// rest carries out and answers everything.
func (d *shareStore) rest() {
	for d.collect(); len(d.queue) > 0; d.collect() {
		d.carryOut()
		d.answer(func() bool { return false })
	}
}

// forget removes the states of topics that do not exist.
func (d *shareStore) forget() {
	for p := range d.states {
		if _, exists := d.w.topics.ByID(p.Topic); !exists {
			delete(d.states, p)
		}
	}
}

// shareWalk is a share group whose members join, leave, die and lose responses, while topics come
// and go, the coordinator moves, and share coordinators are late.
type shareWalk struct {
	*world
	dice
	store   *shareStore
	created int
	clients []*shareClient
	epoch   int32
	// tickets are requests to delete the group without an answer, and asked those to alter or to
	// delete offsets, with what checks the answer.
	tickets []coordinator.Ticket
	asked   map[coordinator.Ticket]func(answer any)
}

func newShareWalk(d dice, broken Broken) *shareWalk {
	c := &shareWalk{dice: d, world: newWorld(panics{}, func(c *Config) { c.Broken = broken })}
	c.topics.again = map[string]byte{}
	c.store, c.asked = newShareStore(c.world), map[coordinator.Ticket]func(any){}
	c.topic("t", 3)
	return c
}

func (c *shareWalk) names() []string {
	return pick(c, []string{"t"}, []string{"t", "u"}, []string{"u"})
}

var shareActs = []string{"join", "join", "beat", "beat", "beat", "beat", "lost", "stale", "subscribe", "leave", "die", "topic", "time",
	"time", "reload", "rollback", "carry", "carry", "carry", "answer", "answer", "answer", "delete", "empty",
	"alter", "forget"}

func (c *shareWalk) act() {
	switch pick(c, shareActs...) {
	case "join":
		c.created++
		n := &shareClient{w: c.world, id: fmt.Sprint("m", c.created), topics: c.names()}
		is(c.t, n.join(), nil)
		c.clients = append(c.clients, n)
	case "beat":
		c.beat(func() bool { return c.roll(2) == 0 })
	case "lost": // the response is lost
		if n := c.one(); n != nil {
			had, epoch := n.has, n.epoch
			n.beat()
			n.has, n.epoch = had, epoch
		}
	case "stale":
		c.stale()
	case "subscribe":
		if n := c.one(); n != nil {
			n.topics = c.names()
			if n.take(c.shareBeat(shareBeatOf(n.id, n.epoch, n.topics...))) != 0 {
				is(c.t, n.join(), nil)
			}
		}
	case "leave":
		if n := c.one(); n != nil {
			c.shareBeat(shareBeatOf(n.id, -1))
			c.lose(n)
		}
	case "die":
		if n := c.one(); n != nil {
			c.lose(n)
		}
	case "empty": // all leave
		for _, n := range slices.Clone(c.clients) {
			c.shareBeat(shareBeatOf(n.id, -1))
			c.lose(n)
		}
	case "topic":
		name, n := pick(c, "t", "u"), int32(c.roll(5))
		if n > 0 {
			n = max(n, c.topics.list[name]) // it grows, or is deleted
		}
		c.answers(func() {
			c.topic(name, n)
			c.store.forget()
		})
	case "time":
		c.answers(func() { c.advance(time.Duration(pick(c, 0, 1, 5, 20, 50)) * time.Second) })
	case "reload":
		c.reload()
	case "rollback":
		c.rollback()
	case "carry":
		c.store.carryOut()
	case "answer":
		c.answers(func() { c.store.answer(func() bool { return c.roll(4) == 0 }) })
	case "delete":
		c.delete()
	case "alter":
		c.alter()
	case "forget":
		c.forget()
	}
	c.store.collect()
}

// alter alters offsets. Where it succeeds, the states begin there when it is answered.
func (c *shareWalk) alter() {
	req := alterOf("g", c.names(), []int32{0, int32(c.roll(3)) + 1}, int64(c.roll(100)))
	c.answers(func() {
		c.asked[c.send(request(req))] = func(answer any) {
			resp := answer.(*kmsg.AlterShareGroupOffsetsResponse)
			for i, t := range resp.Topics {
				for j, p := range t.Partitions {
					at := SharePartition{t.TopicID, p.Partition}
					if p.ErrorCode == 0 && c.store.starts[at] != req.Topics[i].Partitions[j].StartOffset {
						c.t.Fatalf("the offset of %v is answered, it is %d", at, c.store.starts[at])
					}
				}
			}
		}
	})
}

// forget deletes offsets. Where it succeeds, no state is left when it is answered.
func (c *shareWalk) forget() {
	req := forgetOf("g", c.names()...)
	c.answers(func() {
		c.asked[c.send(request(req))] = func(answer any) {
			for _, t := range answer.(*kmsg.DeleteShareGroupOffsetsResponse).Topics {
				for p := range c.store.states {
					if t.ErrorCode == 0 && p.Topic == t.TopicID {
						c.t.Fatalf("the deletion of the offsets of %s is answered, there is %v", t.Topic, p)
					}
				}
			}
		}
	})
}

func alterOf(id string, topics []string, partitions []int32, start int64) *kmsg.AlterShareGroupOffsetsRequest {
	req := kmsg.NewPtrAlterShareGroupOffsetsRequest()
	req.GroupID = id
	for _, name := range topics {
		t := kmsg.NewAlterShareGroupOffsetsRequestTopic()
		t.Topic = name
		for _, p := range partitions {
			t.Partitions = append(t.Partitions, kmsg.AlterShareGroupOffsetsRequestTopicPartition{Partition: p, StartOffset: start})
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func forgetOf(id string, topics ...string) *kmsg.DeleteShareGroupOffsetsRequest {
	req := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
	req.GroupID = id
	for _, name := range topics {
		req.Topics = append(req.Topics, kmsg.DeleteShareGroupOffsetsRequestTopic{Topic: name})
	}
	return req
}

func (c *shareWalk) one() *shareClient {
	if len(c.clients) == 0 {
		return nil
	}
	return c.clients[c.roll(len(c.clients))]
}

func (c *shareWalk) lose(n *shareClient) {
	c.clients = slices.DeleteFunc(c.clients, func(x *shareClient) bool { return x == n })
}

// beat lets clients send heartbeats. A refused one joins again.
func (c *shareWalk) beat(which func() bool) {
	for _, n := range c.clients {
		if which() && n.beat() != 0 {
			is(c.t, n.join(), nil)
		}
	}
}

// stale sends a heartbeat in an epoch that the member does not have.
func (c *shareWalk) stale() {
	n := c.one()
	if n == nil || c.shard.groups["g"] == nil {
		return
	}
	m := c.shard.groups["g"].share().members[n.id]
	if m == nil {
		return
	}
	epoch := m.epoch + 1 + int32(c.roll(2))
	if low := m.epoch - 1 - int32(c.roll(3)); c.roll(2) == 0 && low > 0 && low != m.previous {
		epoch = low
	}
	is(c.t, c.shareBeat(shareBeatOf(n.id, epoch)).ErrorCode, kerr.FencedMemberEpoch)
}

// reload loads the log again, which changes nothing that clients see. Requests without an answer
// are lost.
func (c *shareWalk) reload() {
	c.store.collect()
	before := c.seen()
	c.load()
	if after := c.seen(); after != before {
		c.t.Fatalf("a load changes\n%s\nto\n%s", before, after)
	}
}

func (c *shareWalk) load() {
	c.tickets, c.asked = nil, map[coordinator.Ticket]func(any){}
	c.start()
}

// seen returns what clients see of the groups.
func (c *shareWalk) seen() string {
	d := c.shareDescribed()
	d.ErrorMessage = nil // a pointer
	return fmt.Sprintf("%+v\n%+v", ask[[]kmsg.ListGroupsResponseGroup](c.world, List{}), d)
}

// rollback loses the records of an event, with what was to leave after they were committed.
func (c *shareWalk) rollback() {
	n := c.one()
	if n == nil {
		return
	}
	c.store.collect()
	had, epoch, length := n.has, n.epoch, len(c.log)
	n.beat()
	n.has, n.epoch = had, epoch
	c.log, c.sent = c.log[:length], nil
	c.load()
}

// delete asks for the deletion of the group. It must not be deleted with members.
func (c *shareWalk) delete() {
	c.answers(func() { c.tickets = append(c.tickets, c.send(Delete{Groups: []string{"g"}})) })
}

// answers runs an event that may end requests of administrators, and checks their answers.
func (c *shareWalk) answers(event func()) {
	members := 0
	if g := c.shard.groups["g"]; g != nil {
		members = len(g.share().members)
	}
	event()
	if g := c.shard.groups["g"]; g == nil && members > 0 {
		c.t.Fatalf("the group is deleted with %d members", members)
	}
	c.tickets = slices.DeleteFunc(c.tickets, func(ticket coordinator.Ticket) bool {
		_, answered := c.got[ticket]
		return answered
	})
	for ticket, check := range c.asked {
		if got, answered := c.got[ticket]; answered {
			check(got)
			delete(c.asked, ticket)
		}
	}
}

// check checks the invariants.
func (c *shareWalk) check() {
	c.replays()
	g := c.shard.groups["g"]
	if g == nil {
		c.epoch = 0
		if len(c.store.states) > 0 {
			c.t.Fatalf("the group is gone, its states are not: %v", c.store.states)
		}
		return
	}
	k := g.share()
	if k.epoch < c.epoch || k.targetEpoch > k.epoch {
		c.t.Fatalf("group epoch %d, was %d, target of %d", k.epoch, c.epoch, k.targetEpoch)
	}
	c.epoch = k.epoch
	for _, m := range k.list() {
		for _, a := range []assign.Assignment{m.assigned, k.target[m.id]} {
			c.stored(k, m.id, a)
		}
		if m.epoch > k.goal() || m.epoch == k.epoch && !m.assigned.Equal(k.target[m.id]) {
			c.t.Fatalf("%s has %v in epoch %d, its target is %v", m.id, m.assigned, m.epoch, k.target[m.id])
		}
	}
	for p := range c.store.states {
		_, deleting := k.states.deleting[p.Topic]
		if !deleting && !k.states.initializing[p.Topic].has(p.Partition) && !k.states.initialized[p.Topic].has(p.Partition) {
			c.t.Fatalf("%v has a state, recorded are %+v", p, k.states)
		}
	}
	for _, n := range c.clients {
		if m := k.members[n.id]; m != nil && n.epoch == m.epoch && n.epoch == k.epoch && !n.has.Equal(m.assigned) {
			c.t.Fatalf("%s has %v, recorded is %v", n.id, n.has, m.assigned)
		}
	}
}

// stored checks that all assigned partitions have a state, unless the topic is gone.
func (c *shareWalk) stored(k *share, id string, a assign.Assignment) {
	for topic, list := range a {
		for _, p := range list {
			if _, exists := c.topics.ByID(topic); !exists {
				continue
			}
			if !k.states.initialized[topic].has(p) || !c.store.states[SharePartition{topic, p}] {
				c.t.Fatalf("partition %d of %v is assigned to %s without a state", p, topic, id)
			}
		}
	}
}

// calm lets everything continue without faults: each partition of a subscribed topic must have a
// member, and nothing is left undone.
func (c *shareWalk) calm() {
	for _, name := range []string{"t", "u"} {
		c.topic(name, max(c.topics.list[name], 2))
	}
	c.store.forget()
	for range 30 {
		for c.store.collect(); len(c.store.queue) > 0; c.store.collect() {
			c.answers(func() {
				c.store.carryOut()
				c.store.answer(func() bool { return false })
			})
		}
		c.advance(4 * time.Second)
		c.beat(func() bool { return true })
	}
	c.epoch = 0 // it may have been deleted, and created by a member that joined again
	c.check()
	g := c.shard.groups["g"]
	if g == nil {
		if len(c.asked) > 0 {
			c.t.Fatalf("%d requests about offsets have no answer", len(c.asked))
		}
		if len(c.clients) > 0 {
			c.t.Fatalf("the group is gone, but has %d members", len(c.clients))
		}
		return
	}
	k := g.share()
	if len(k.members) != len(c.clients) || k.states.unfinished() || len(k.asked) > 0 ||
		len(c.tickets)+len(c.asked) > 0 {
		c.t.Fatalf("%d members of %d; states %+v, asked %v, deletions %v, other requests %d", len(k.members), len(c.clients), k.states,
			k.asked, c.tickets, len(c.asked))
	}
	for id := range k.states.initialized {
		if _, exists := c.topics.ByID(id); !exists {
			c.t.Fatalf("states of a deleted topic: %+v", k.states)
		}
	}
	c.everyPartition()
	c.deleted()
}

func (c *shareWalk) everyPartition() {
	owned, sizes := map[SharePartition]int{}, map[string][]int{}
	for _, n := range c.clients {
		sizes[strings.Join(n.topics, ",")] = append(sizes[strings.Join(n.topics, ",")], n.has.Count())
		for id, list := range n.has {
			for _, p := range list {
				owned[SharePartition{id, p}]++
			}
		}
	}
	for _, n := range c.clients {
		for _, name := range n.topics {
			t, _ := c.topics.ByName(name)
			for p := range t.Partitions {
				if owned[SharePartition{t.ID, p}] == 0 {
					c.t.Fatalf("no member has partition %d of %s", p, name)
				}
			}
		}
	}
	for _, list := range sizes {
		if len(sizes) == 1 && slices.Max(list)-slices.Min(list) > 1 {
			c.t.Fatalf("sizes of the members: %v", list)
		}
	}
}

// deleted lets all members leave and deletes the group: no state must be left.
func (c *shareWalk) deleted() {
	for _, n := range c.clients {
		is(c.t, c.shareBeat(shareBeatOf(n.id, -1)).ErrorCode, nil)
	}
	ticket := c.send(Delete{Groups: []string{"g"}})
	c.store.rest()
	is(c.t, answer[[]kmsg.DeleteGroupsResponseGroup](c.world, ticket)[0].ErrorCode, nil)
	if len(c.store.states) > 0 || c.shard.groups["g"] != nil {
		c.t.Fatalf("after the deletion: states %v, group %+v", c.store.states, c.shard.groups["g"])
	}
	c.replays()
}

// run returns what goes wrong, "" if nothing does.
func (c *shareWalk) run(steps int) (bad string) {
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
		c.act()
		c.check()
	}
	c.calm()
	return ""
}

func TestShareGroupInChaos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if bad := newShareWalk(drawn{t}, Broken{}).run(rapid.IntRange(1, 60).Draw(t, "steps")); bad != "" {
			t.Fatal(bad)
		}
	})
}

// Whatever part of the log a load finds, the group continues from there.
func TestShareGroupContinuesFromEveryRecord(t *testing.T) {
	for seed := range uint64(5) {
		walk := newShareWalk(seeded{rand.New(rand.NewPCG(seed, 2))}, Broken{})
		for range 60 {
			walk.act()
		}
		for i := range len(walk.log) + 1 {
			w, store := shareWorld(t)
			w.log = slices.Clone(walk.log[:i])
			w.topics.again = map[string]byte{"t": walk.topics.again["t"]}
			w.topics.list["t"], w.topics.list["u"] = 5, 5 // at least as many as in the walk
			w.start()
			c := w.newShareClient("c", "t")
			for range 20 {
				store.rest()
				w.advance(4 * time.Second)
				is(t, c.beat(), nil)
			}
			if c.has.Count() != 5 || w.shard.groups["g"].share().states.unfinished() {
				t.Fatalf("after %d records of walk %d: %v, %+v", i, seed, c.has, w.shard.groups["g"].share().states)
			}
			w.replays()
		}
	}
}
