package group

import (
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// group is one group: committed offsets, and a kind. A group that only holds offsets is a
// classic one without members.
type group struct {
	id      string
	offsets map[string]map[int32]format.Offset // by topic and partition
	kind    kind
	held    int64 // bytes that were counted, see weigh
}

// classic is the group's kind where it is a classic group, else nil.
func (g *group) classic() *classic {
	c, _ := g.kind.(*classic)
	return c
}

// consumer is the group's kind where it is a consumer group, else nil.
func (g *group) consumer() *consumer {
	c, _ := g.kind.(*consumer)
	return c
}

// group returns a group, which it makes where there is none.
func (s *Shard) group(id string) *group {
	g := s.groups[id]
	if g == nil {
		g = &group{id: id, kind: newClassic()}
		s.groups[id] = g
	}
	return g
}

// finishEvent ends an event about a group: what it holds is counted, and one of which nothing
// is left is forgotten.
func (s *Shard) finishEvent(id string) {
	g := s.groups[id]
	if g == nil {
		return
	}
	s.weigh(g)
	if len(g.offsets) == 0 && g.kind.blank() {
		delete(s.groups, id)
	}
}

const (
	consumerProtocol = "consumer" // the protocol type of consumers
	maxString        = format.MaxString
)

// fits says whether strings are short enough to be recorded.
func fits(list ...string) bool {
	for _, s := range list {
		if len(s) > maxString {
			return false
		}
	}
	return true
}

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
