package group

import (
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// group is one group: committed offsets, and a kind. A group with only offsets is a classic one
// without members.
type group struct {
	id      string
	offsets partitions[format.Offset]
	pending partitions[[]pendingOffset] // at most one of each producer
	kind    kind
	kept    int   // bytes of the offsets
	memory  int64 // bytes counted so far, see weigh
	// restored: the cluster was restored after a record of the group. Volatile.
	restored bool
}

// classic returns the group's kind if it is a classic group, otherwise nil.
func (g *group) classic() *classic {
	c, _ := g.kind.(*classic)
	return c
}

// consumer returns the group's kind if it is a consumer group, otherwise nil.
func (g *group) consumer() *consumer {
	c, _ := g.kind.(*consumer)
	return c
}

// streams returns the group's kind if it is a streams group, otherwise nil.
func (g *group) streams() *streams {
	c, _ := g.kind.(*streams)
	return c
}

// share returns the group's kind if it is a share group, otherwise nil.
func (g *group) share() *share {
	c, _ := g.kind.(*share)
	return c
}

// group returns a group, creating it if needed.
func (s *Shard) group(id string) *group {
	g := s.groups[id]
	if g == nil {
		g = &group{id: id, kind: newClassic()}
		s.groups[id] = g
	}
	return g
}

// finishEvent must be called after an event that concerns a group: it updates the memory accounting
// and removes the group if nothing of it is left.
func (s *Shard) finishEvent(id string) {
	g := s.groups[id]
	if g == nil {
		return
	}
	if c := g.classic(); c != nil && len(g.offsets) == 0 && len(g.pending) == 0 && c.forgettable() {
		s.countMemory(-g.memory)
		delete(s.groups, id)
		return
	}
	s.weigh(g)
}

const consumerProtocol = "consumer" // the protocol type of consumers

// deref and ptr convert Kafka's nullable strings, in which null is the same as empty.
func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func ptr(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
