package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/coordinator/group/topology"
)

// The methods of kind on streams groups, other than heartbeats.

const streamsProtocol = "streams" // the protocol type of streams groups

func (c *streams) listed() (name, protocol, state string) {
	return "streams", streamsProtocol, c.stateName()
}
func (c *streams) empty() bool   { return len(c.members) == 0 }
func (c *streams) expires() bool { return c.empty() }
func (c *streams) weight() int   { return c.bytes }

func (c *streams) weightOf(id string) int {
	if m := c.members[id]; m != nil {
		return m.bytes
	}
	return 0
}

func (c *streams) stateName() string {
	switch {
	case c.empty():
		return "Empty"
	case !c.ready():
		return "NotReady"
	case c.epoch > c.targetEpoch:
		return "Assigning"
	}
	for _, m := range c.members {
		if m.state != tasksStable || m.epoch != c.targetEpoch {
			return "Reconciling"
		}
	}
	return "Stable"
}

func (c *streams) subscriptions() (subscribes func(topic string) bool, known bool) {
	return c.readTopics(), true
}

// readTopics returns the source topics of the topology, none if nothing reads them.
func (c *streams) readTopics() func(topic string) bool {
	read := map[string]struct{}{}
	if c.topology != nil && !c.empty() {
		for i := range c.topology.Subtopologies {
			for _, name := range topology.Sources(&c.topology.Subtopologies[i]) {
				read[name] = struct{}{}
			}
		}
	}
	return contains(read)
}

// checkCommit lets a member commit in an earlier epoch than its own for partitions whose task it
// has owned since then.
func (c *streams) checkCommit(by committer) (partitionCheck, *failure) {
	if by.generation < 0 && c.empty() || by.transactional && by.anonymous() {
		return nil, nil
	}
	m := c.members[by.member]
	stale := refuse(kerr.StaleMemberEpoch)
	if !by.knowsEpochs { // a transaction of an older client
		stale = refuse(kerr.IllegalGeneration)
	}
	switch {
	case m == nil:
		return nil, refuse(kerr.UnknownMemberID)
	case !by.transactional && !by.knowsEpochs:
		return nil, refuse(kerr.UnsupportedVersion)
	case by.generation == m.epoch:
		return nil, nil
	case by.generation > m.epoch || by.generation < 0:
		return nil, stale
	}
	return func(topic [16]byte, partition int32) *failure {
		if t, ok := by.topics.ByID(topic); ok && c.ownedSince(m, t.Name, partition, by.generation) {
			return nil
		}
		return stale
	}, nil
}

// ownedSince reports whether a member got a task that reads a partition in an epoch or earlier, and
// still owns it or is revoking it.
func (c *streams) ownedSince(m *streamsMember, topic string, partition, epoch int32) bool {
	if c.topology == nil {
		return false
	}
	for i := range c.topology.Subtopologies {
		sub := &c.topology.Subtopologies[i]
		if !slices.Contains(topology.Sources(sub), topic) {
			continue
		}
		for _, h := range []held{m.assigned, m.revoking} {
			if since, ok := h.active[assign.Task{Subtopology: sub.ID, Partition: partition}]; ok && since <= epoch {
				return true
			}
		}
	}
	return false
}

func (c *streams) checkFetch(req *kmsg.OffsetFetchRequestGroup) *failure {
	if req.MemberID == nil && req.MemberEpoch < 0 {
		return nil // an administrator, or a client that does not name a member
	}
	m := c.members[deref(req.MemberID)]
	switch {
	case m == nil:
		return refuse(kerr.UnknownMemberID)
	case m.epoch != req.MemberEpoch:
		return refuse(kerr.StaleMemberEpoch)
	}
	return nil
}

// loaded implements kind: it starts the members' sessions. The wait for members of a new group is
// over, and every member asks for the endpoints again: their epoch starts at the time of the load,
// so that it differs from the one that members know.
func (c *streams) loaded(s *Shard, g *group) {
	for _, m := range c.members {
		s.setTimer(timerSession, g.id, m.id, s.timesOf(g).Streams.Session)
		s.timeTasks(g, m)
	}
	c.endpoints = int32(s.nowMillis() / 1000)
}

// fire implements kind: it removes a member whose time is over, or computes a pending target.
func (c *streams) fire(s *Shard, g *group, key coordinator.TimerKey) {
	if key.Kind == timerTarget {
		c.waiting = false
		s.updateTasks(g)
		return
	}
	if m := c.members[key.Part]; m != nil {
		s.removeStreamsMember(g, m)
	}
}

func (c *streams) topicsChanged(TopicsChanged) { c.configured = nil }

func (c *streams) removeRecords(s *Shard, g *group) {
	s.cancelTimer(timerTarget, g.id, "")
	for _, m := range c.list() {
		s.dropStreamsMember(g, m)
	}
	for _, t := range []format.Type{format.TypeTopology, format.TypeStreamsEpoch, format.TypeStreams} {
		s.emit(format.Key{Type: t, Group: g.id}, nil)
	}
}

// Overheads that are counted in addition to the data: a task in a target.
const taskWeight = 24

func streamsWeight(id string, m *format.StreamsMember) int {
	n := memberWeight + len(m.ClientID) + len(m.ClientHost) + 4*len(id) + len(deref(m.Instance)) + len(deref(m.Rack)) + len(m.Process) +
		keyValuesWeight(m.Tags)
	if m.Endpoint != nil {
		n += entryWeight + len(m.Endpoint.Host)
	}
	return n
}

func keyValuesWeight(list []format.KeyValue) (n int) {
	for _, e := range list {
		n += entryWeight + len(e.Key) + len(e.Value)
	}
	return n
}

// topologyWeight returns the memory of a topology, which may be nil, and of its configured form.
func topologyWeight(t *format.Topology) (n int) {
	if t == nil {
		return 0
	}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		n += 4*entryWeight + 2*len(s.ID) + 2*(listWeight(s.SourceTopics)+listWeight(s.SourceRegexes)+listWeight(s.RepartitionSinks))
		for _, list := range [][]format.InternalTopic{s.Changelogs, s.RepartitionSources} {
			for _, x := range list {
				n += 2 * (entryWeight + len(x.Name) + keyValuesWeight(x.Configs))
			}
		}
		for _, g := range s.Copartitioned {
			n += entryWeight + 2*(len(g.SourceTopics)+len(g.SourceRegexes)+len(g.RepartitionSources))
		}
	}
	return n
}
