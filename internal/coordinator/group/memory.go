package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// Members occupy memory with their metadata, their assignments, and pending ids. Offsets are not
// counted: a group has at most one for each partition, and they are on disk.

// hasMemory reports whether the shard may use n more bytes. Zero or fewer are always allowed.
func (s *Shard) hasMemory(n int) bool { return s.cfg.MemberMemory.Allows(s.memory, n) }

// weigh updates the accounting of a group's memory.
func (s *Shard) weigh(g *group) {
	n := int64(g.kind.weight())
	s.countMemory(n - g.memory)
	g.memory = n
}

func (s *Shard) countMemory(n int64) {
	s.memory += n
	s.cfg.MemberMemory.Count(n)
}

// Overheads that are counted in addition to the data: a member with its maps and timers, an entry
// of a list or map, a partition that a member owns, and a partition in its target.
const (
	memberWeight    = 512
	entryWeight     = 48
	partitionWeight = 128
	targetWeight    = 8
)

// weight returns the memory of the group's members and pending ids.
func (c *classic) weight() int {
	if c.stale {
		c.stale, c.bytes = false, c.count()
	}
	return c.bytes
}

func (c *consumer) weight() int { return c.bytes }

func (c *classic) weightOf(id string) int {
	if m := c.members[id]; m != nil {
		return m.weight()
	}
	return 0
}

func (c *consumer) weightOf(id string) int {
	if m := c.members[id]; m != nil {
		return m.bytes
	}
	return 0
}

// count computes the weight.
func (c *classic) count() int {
	n := 0
	for _, m := range c.members {
		n += m.weight()
	}
	for id := range c.pending {
		n += pendingWeight(id)
	}
	return n
}

func pendingWeight(id string) int { return memberWeight/2 + len(id) }

func (m *classicMember) weight() int {
	n := memberWeight + 2*len(m.id) + 2*len(m.instance) + len(m.clientID) + len(m.clientHost) + len(m.assignment)
	for _, p := range m.protocols {
		n += entryWeight + len(p.Name) + len(p.Metadata)
	}
	return n
}

// joinWeight returns the memory that the member of a JoinGroup will occupy.
func joinWeight(j joining) int {
	n := memberWeight + 3*len(j.ClientID) + len(j.ClientHost) + 2*len(j.req.MemberID) + 4*len(deref(j.req.InstanceID))
	for _, p := range j.req.Protocols {
		n += entryWeight + len(p.Name) + len(p.Metadata)
	}
	return n
}

// memoryOf returns the memory that a member of a group, which may be nil, occupies already.
func (g *group) memoryOf(id string) int {
	if g == nil {
		return 0
	}
	return g.kind.weightOf(id)
}

// heartbeatWeight returns the memory that the member of a heartbeat will occupy, as far as the
// heartbeat determines it.
func heartbeatWeight(e Request, req *kmsg.ConsumerGroupHeartbeatRequest) int {
	return memberWeight + len(e.ClientID) + len(e.ClientHost) + 4*len(req.MemberID) + 2*len(deref(req.InstanceID)) +
		len(deref(req.RackID)) + 3*len(bind(deref(req.SubscribedTopicRegex), e.Viewer)) + listWeight(req.SubscribedTopicNames)
}

func metaWeight(id string, m format.Member) int {
	n := memberWeight + len(m.ClientID) + len(m.ClientHost) + 4*len(id) + 2*len(deref(m.Instance)) + len(deref(m.Rack)) +
		len(deref(m.Regex)) + listWeight(m.Topics)
	if m.Classic != nil {
		for _, p := range m.Classic.Protocols {
			n += entryWeight + len(p.Name) + len(p.Metadata)
		}
	}
	return n
}

func listWeight(list []string) int {
	n := 0
	for _, e := range list {
		n += entryWeight + len(e)
	}
	return n
}

func regexWeight(expression string, r format.Regex) int {
	return entryWeight + 2*len(expression) + listWeight(r.Topics)
}
