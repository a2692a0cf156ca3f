package group

import (
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// group is one group. It is a consumer group where consumer is set, else a classic
// one; one without protocol type and members only holds offsets.
type group struct {
	id       string
	offsets  map[string]map[int32]format.Offset // by topic and partition
	classic  classic
	consumer *consumer
	held     int64 // bytes that were counted, see weigh
}

// empty: no members.
func (g *group) empty() bool {
	if g.consumer != nil {
		return len(g.consumer.members) == 0
	}
	return g.classic.state == empty
}

// group returns a group, which it makes where there is none.
func (s *Shard) group(id string) *group {
	g := s.groups[id]
	if g == nil {
		g = &group{id: id, classic: newClassic()}
		s.groups[id] = g
	}
	return g
}

// tidy ends an event about a group: what it holds is counted, and one of which nothing
// is left is forgotten.
func (s *Shard) tidy(id string) {
	g := s.groups[id]
	if g == nil {
		return
	}
	s.weigh(g)
	if g.consumer != nil || len(g.offsets) > 0 {
		return
	}
	if c := &g.classic; !c.recorded && len(c.members) == 0 && len(c.pending) == 0 {
		delete(s.groups, id)
	}
}

// tombstones emits what removes the group's own records; its offsets have theirs.
func (s *Shard) tombstones(g *group) {
	if g.consumer != nil {
		s.dropConsumer(g)
	}
	if g.classic.recorded {
		s.emit(format.Key{Type: format.TypeClassicGroup, Group: g.id}, nil)
	}
}

// subscriptions says of topics whether the group's members subscribe to them, as of
// now. A group of consumers whose subscriptions can't be read may subscribe to
// anything.
func (g *group) subscriptions() func(topic string) bool {
	var topics map[string]struct{}
	if g.consumer != nil {
		topics = g.consumer.subscribed()
	} else if list, known := g.classic.subscribed(); known {
		topics = list
	} else {
		return func(string) bool { return g.classic.protocolType == consumerProtocol }
	}
	return func(topic string) bool {
		_, ok := topics[topic]
		return ok
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
