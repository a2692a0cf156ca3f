package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// The methods of kind on classic groups, other than requests.

func (c *classic) listed() (name, protocol, state string) {
	return "classic", c.protocolType, c.state.String()
}
func (c *classic) empty() bool   { return c.state == empty }
func (c *classic) expires() bool { return c.empty() && len(c.pending) == 0 }

// forgettable reports whether nothing is known about the group, so that it can be removed if it
// also has no offsets. Groups of other kinds have records.
func (c *classic) forgettable() bool {
	return !c.recorded && len(c.members) == 0 && len(c.pending) == 0
}

// writes implements classicProtocol. Heartbeats only extend sessions; a SyncGroup of the leader
// records the assignment.
func (c *classic) writes(req kmsg.Request) bool {
	switch req := req.(type) {
	case *kmsg.HeartbeatRequest:
		return false
	case *kmsg.SyncGroupRequest:
		return c.state == completing && c.leader == req.MemberID
	}
	return true
}

// subscriptions implements offsetKeeper. If a subscription of a consumer can't be read, the group
// may subscribe to any topic.
func (c *classic) subscriptions() (subscribes func(topic string) bool, known bool) {
	if topics, readable := c.subscribed(); readable {
		return contains(topics), true
	}
	consumers := c.protocolType == consumerProtocol
	return func(string) bool { return consumers }, consumers || c.state == empty
}

// readTopics implements offsetKeeper. It includes every topic during a rebalance, and for members
// that are not consumers.
func (c *classic) readTopics() func(topic string) bool {
	switch {
	case c.protocolType == "" || c.state == empty:
		return func(string) bool { return false }
	case c.state != stable || c.protocolType != consumerProtocol:
		return func(string) bool { return true }
	}
	subscribes, _ := c.subscriptions()
	return subscribes
}

// emptySince returns when the last member left, in ms since 1970. It returns false if the retention
// of offsets starts at the commit.
func (c *classic) emptySince() (ms int64, counts bool) {
	return c.since, c.protocolType != "" && c.state == empty && c.since >= 0
}

func (c *classic) loaded(s *Shard, g *group) {
	for _, m := range c.members {
		s.expectHeartbeat(g, m)
	}
	if c.state == preparing {
		s.prepare(g)
	}
}

func (c *classic) fire(s *Shard, g *group, key coordinator.TimerKey) {
	switch key.Kind {
	case timerJoin:
		s.joinTimeout(g)
	case timerSync:
		s.syncTimeout(g)
	case timerSession:
		s.sessionTimeout(g, key.Part)
	}
}

func (c *classic) removeRecords(s *Shard, g *group) {
	s.forgetPending(g)
	if c.recorded {
		s.emit(format.Key{Type: format.TypeClassicGroup, Group: g.id}, nil)
	}
}

// contains returns a function that reports whether a string is in the set.
func contains(set map[string]struct{}) func(string) bool {
	return func(e string) bool {
		_, is := set[e]
		return is
	}
}
