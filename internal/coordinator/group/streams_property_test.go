package group

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
)

// streamsChaos is an application whose instances join, leave, die and lose responses, while its
// topics come and go and the coordinator moves.
type streamsChaos struct {
	*world
	t       *rapid.T
	created int
	clients []*streamsClient
	epoch   int32
}

func (c *streamsChaos) act() {
	acts := []string{"join", "beat", "beat", "beat", "beat", "lost", "leave", "die", "topic", "time", "reload"}
	switch rapid.SampledFrom(acts).Draw(c.t, "act") {
	case "join":
		c.created++
		n := &streamsClient{w: c.world, id: fmt.Sprint("m", c.created)}
		process := kmsg.StringPtr(rapid.SampledFrom([]string{"one", "two", "three"}).Draw(c.t, "process"))
		n.request = func(req *kmsg.StreamsGroupHeartbeatRequest) { req.Topology, req.ProcessID = wordCount(), process }
		if n.join() == 0 {
			c.clients = append(c.clients, n)
		}
	case "beat":
		c.beat(func() bool { return rapid.Bool().Draw(c.t, "beats") })
	case "lost": // the response is lost
		if n := c.one(); n != nil {
			had, epoch := n.has, n.epoch
			n.beat()
			n.has, n.epoch = had, epoch
		}
	case "leave":
		if n := c.one(); n != nil {
			c.streamsBeat(streamsBeatOf(n.id, -1))
			c.clients = slices.DeleteFunc(c.clients, func(x *streamsClient) bool { return x == n })
		}
	case "die":
		if n := c.one(); n != nil {
			c.clients = slices.DeleteFunc(c.clients, func(x *streamsClient) bool { return x == n })
		}
	case "topic":
		c.topic(rapid.SampledFrom([]string{"in", "r", "c"}).Draw(c.t, "name"), rapid.Int32Range(0, 4).Draw(c.t, "partitions"))
	case "time":
		c.advance(time.Duration(rapid.SampledFrom([]int{0, 1, 5, 20, 50}).Draw(c.t, "seconds")) * time.Second)
	case "reload":
		c.start()
	}
}

func (c *streamsChaos) one() *streamsClient {
	if len(c.clients) == 0 {
		return nil
	}
	return rapid.SampledFrom(c.clients).Draw(c.t, "who")
}

// beat lets clients send heartbeats. A refused one drops its tasks and joins again.
func (c *streamsChaos) beat(which func() bool) {
	for _, n := range c.clients {
		if which() && n.beat() != 0 {
			if n.join() != 0 {
				c.t.Fatalf("%s can't join again: %+v", n.id, n.last.Response)
			}
		}
	}
}

// check checks the invariants: no task is active twice or twice in a process, neither by the
// coordinator's records nor at the members, and a load restores the same state.
func (c *streamsChaos) check() {
	c.replays()
	g := c.shard.groups["g"]
	if g == nil {
		c.epoch = 0
		return
	}
	k := g.streams()
	if k.epoch < c.epoch || k.targetEpoch > k.epoch {
		c.t.Fatalf("group epoch %d, was %d, target of %d", k.epoch, c.epoch, k.targetEpoch)
	}
	c.epoch = k.epoch
	held, targets := newHolders(c.t), newHolders(c.t)
	for _, m := range k.list() {
		held.take(m, m.assigned.tasks())
		held.take(m, m.revoking.tasks())
		targets.take(m, k.target[m.id])
		if m.state == tasksStable && m.epoch == k.targetEpoch && !m.assigned.tasks().Equal(k.target[m.id]) {
			c.t.Fatalf("%s is stable in epoch %d with %v, its target is %v", m.id, m.epoch, m.assigned.tasks(), k.target[m.id])
		}
	}
	for _, n := range c.clients {
		m := k.members[n.id]
		if m == nil || n.epoch < m.previous {
			continue
		}
		for _, t := range n.has.Active {
			if !m.assigned.hasActive(t) && !m.revoking.hasActive(t) {
				c.t.Fatalf("%s runs %v; the coordinator has %v and %v", n.id, t, m.assigned, m.revoking)
			}
		}
	}
}

// holders are the owners of tasks.
type holders struct {
	t         *rapid.T
	active    map[assign.Task]string
	processes map[string]string // by process and task
}

func newHolders(t *rapid.T) *holders {
	return &holders{t: t, active: map[assign.Task]string{}, processes: map[string]string{}}
}

func (h *holders) take(m *streamsMember, tasks assign.Tasks) {
	for _, t := range tasks.Active {
		if owner, taken := h.active[t]; taken {
			h.t.Fatalf("%v is active at %s and %s", t, owner, m.id)
		}
		h.active[t] = m.id
	}
	for _, t := range slices.Concat(tasks.Active, tasks.Standby) {
		key := fmt.Sprint(m.meta.Process, t)
		if owner, taken := h.processes[key]; taken {
			h.t.Fatalf("process %s has %v at %s and %s", m.meta.Process, t, owner, m.id)
		}
		h.processes[key] = m.id
	}
}

// calm lets the live members continue without faults: the group must become stable, and every task
// must run once.
func (c *streamsChaos) calm() {
	for _, name := range []string{"in", "r", "c"} {
		c.topic(name, 3)
	}
	for range 60 {
		c.advance(2 * time.Second)
		c.beat(func() bool { return true })
	}
	c.check()
	if len(c.clients) == 0 {
		return
	}
	if s := c.state("g"); s != "Stable" {
		c.t.Fatalf("the group does not become stable: %s", s)
	}
	running := map[assign.Task]int{}
	for _, n := range c.clients {
		for _, t := range n.has.Active {
			running[t]++
		}
	}
	if len(running) != 6 || slices.Max(slices.Collect(maps.Values(running))) != 1 {
		c.t.Fatalf("running: %v", running)
	}
}

func TestStreamsGroupInChaos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		standbys := rapid.IntRange(0, 2).Draw(t, "standbys")
		c := &streamsChaos{t: t, world: newWorld(t, func(cfg *Config) { cfg.Streams.Standbys = standbys })}
		for _, name := range []string{"in", "r", "c"} {
			c.topic(name, rapid.Int32Range(0, 2).Draw(t, "partitions"))
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			c.act()
			c.check()
		}
		c.calm()
	})
}
