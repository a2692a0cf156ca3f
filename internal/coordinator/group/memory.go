package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// hasMemory reports whether the shard may use n more bytes. Zero or fewer are always allowed.
func (s *Shard) hasMemory(n int) bool { return s.cfg.MemberMemory.Allows(s.memory, n) }

// weigh updates the accounting of a group's memory.
func (s *Shard) weigh(g *group) {
	n := int64(groupWeight + 2*len(g.id) + g.kind.weight() + g.kept)
	s.countMemory(n - g.memory)
	g.memory = n
}

func (s *Shard) countMemory(n int64) {
	s.memory += n
	s.cfg.MemberMemory.Count(n)
}

// Groups occupy memory with their members, metadata, assignments and pending ids, and with their
// offsets, which stay for days. These overheads are counted in addition to the data: a member with
// its maps and timers, an entry of a list or map, a partition that a member owns, and a partition
// in its target; a group, a topic of which it has offsets, and an offset.
//
// A factor in front of the length of a name is how often the name may be in memory at once: in the
// member, as a key of maps, in a response and in an encoded record. Strings that share their bytes
// count as if they did not.
const (
	memberWeight    = 512
	entryWeight     = 48
	partitionWeight = 128
	targetWeight    = 8
	groupWeight     = 512
	topicWeight     = 512
	offsetWeight    = 128
	// recordWeight is that of an encoded commit of an offset, without its names.
	recordWeight = 64
)

// commit is what a request to commit offsets makes of a group.
type commit struct {
	g       *group // nil: it is new
	group   string
	pending bool // in a transaction
	record  int  // about the bytes of the records, which contain the names of the group and the topics
	memory  int  // by how much the group grows
}

func (s *Shard) newCommit(group string, pending bool) commit {
	c := commit{g: s.groups[group], group: group, pending: pending}
	if c.g == nil {
		c.memory = groupWeight + 2*len(group)
	}
	return c
}

// add counts one offset.
func (c *commit) add(topic string, partition int32, metadata string) {
	c.record += recordWeight + len(c.group) + len(topic) + len(metadata)
	c.memory += offsetWeight + len(metadata)
	if c.pending {
		c.memory += len(topic)
		return
	}
	var all map[int32]format.Offset
	if c.g != nil {
		all = c.g.offsets[topic]
	}
	if old, replaced := all[partition]; replaced {
		c.memory -= offsetWeight + len(old.Metadata)
	} else if len(all) == 0 {
		c.memory += topicWeight + len(topic)
	}
}

// checkCommitSize returns why offsets are too much, nil if they are not. Offsets outside of a
// transaction that replace others without more metadata are never too much for the memory.
func (s *Shard) checkCommitSize(c commit) *failure {
	switch {
	case c.record > s.cfg.MaxRecord:
		return refuse(kerr.InvalidCommitOffsetSize)
	case !s.cfg.MemberMemory.AllowsKept(s.memory, c.memory):
		return refuse(kerr.CoordinatorLoadInProgress) // all clients back off on this error
	}
	return nil
}

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
