package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/protocol"
)

// upgradable returns why a classic group with members can't become a consumer group, nil if it can.
// Its members must be consumers whose subscriptions and assignments can be decoded.
func (s *Shard) upgradable(g *group) *failure {
	c := g.classic()
	if !s.cfg.Upgrade || c.protocolType != consumerProtocol || len(c.members) >= s.cfg.ConsumerMaxSize {
		return fail(kerr.GroupIDNotFound, "Group %s is not a consumer group.", g.id)
	}
	malformed := fail(kerr.GroupIDNotFound,
		"Cannot upgrade classic group %s to consumer group because the embedded consumer protocol is malformed.",
		g.id)
	for _, m := range c.members {
		if len(m.protocols) == 0 {
			return malformed
		}
		if _, err := protocol.DecodeSubscription(m.metadata(c.protocol)); err != nil {
			return malformed
		}
		if _, err := s.decodeAssignment(m.assignment); err != nil {
			return malformed
		}
	}
	return nil
}

// upgrade makes a classic group a consumer group. The generation becomes the epoch, and the current
// assignments become the target. Members that wait in the current rebalance must rejoin.
func (s *Shard) upgrade(g *group) {
	c := g.classic()
	for _, m := range c.members {
		if m.join.to != 0 {
			s.refuseJoin(m.join, m.id, kerr.RebalanceInProgress)
		}
		if m.sync.to != 0 {
			s.answerSync(m.sync, nil, kerr.RebalanceInProgress, nil)
		}
	}
	s.cancelTimer(timerJoin, g.id, "")
	s.cancelTimer(timerSync, g.id, "")
	s.forgetPending(g)
	members, generation, chosen := c.list(), c.generation, c.protocol
	s.emit(format.Key{Type: format.TypeClassicGroup, Group: g.id}, nil)
	taken := map[assign.TopicID]map[int32]bool{}
	for _, m := range members {
		s.upgradeMember(g, m, generation, chosen, taken)
	}
	s.emit(format.Key{Type: format.TypeTargetEpoch, Group: g.id}, format.TargetEpoch{Epoch: generation, Time: s.nowMillis()})
	hash := hashTopics(s.topics, g.consumer().subscribed())
	s.emit(format.Key{Type: format.TypeGroup, Group: g.id}, format.Group{Epoch: generation, Hash: hash})
}

// upgradeMember converts one member. taken has the partitions of the members before it, because a
// leader may have assigned a partition twice.
func (s *Shard) upgradeMember(g *group, m *classicMember, generation int32, chosen string, taken map[assign.TopicID]map[int32]bool) {
	sub, _ := protocol.DecodeSubscription(m.metadata(chosen)) // upgradable has checked it
	a, _ := s.decodeAssignment(m.assignment)
	for id, list := range a {
		if taken[id] == nil {
			taken[id] = map[int32]bool{}
		}
		a[id] = slices.DeleteFunc(list, func(p int32) bool { return taken[id][p] })
		if len(a[id]) == 0 {
			delete(a, id)
		}
		for _, p := range a[id] {
			taken[id][p] = true
		}
	}
	key := format.Key{Type: format.TypeMember, Group: g.id, Item: m.id}
	s.emit(key, format.Member{Instance: ptr(m.instance), Rack: sub.Rack, ClientID: m.clientID, ClientHost: m.clientHost,
		Topics:           sortedSet(sub.Topics),
		RebalanceTimeout: m.rebalance, Classic: &format.Classic{SessionTimeout: m.session, Protocols: m.protocolsFrom(chosen)}})
	target := targetRecord(a)
	key.Type = format.TypeTarget
	s.emit(key, target)
	key.Type = format.TypeCurrent
	s.emit(key, format.Current{Epoch: generation, Previous: generation, Assigned: target})
	s.setTimer(timerSession, g.id, m.id, millis(m.session))
}

// protocolsFrom returns the member's protocols with the one in use first: responses to the member
// name the first.
func (m *classicMember) protocolsFrom(protocol string) []format.Protocol {
	list := slices.Clone(m.protocols)
	if i := slices.IndexFunc(list, func(p format.Protocol) bool { return p.Name == protocol }); i > 0 {
		list[0], list[i] = list[i], list[0]
	}
	return list
}

// downgradable reports whether all members, except the one named, use the classic protocol.
func (s *Shard) downgradable(g *group, without string) bool {
	c := g.consumer()
	if c == nil || !s.cfg.Downgrade {
		return false
	}
	left := 0
	for _, m := range c.members {
		if m.id == without {
			continue
		}
		if !m.classic() {
			return false
		}
		left++
	}
	return left > 0 && left <= s.cfg.MaxSize
}

// downgrade makes a consumer group a classic one, without the named member. If there is one, the
// remaining members must rejoin.
func (s *Shard) downgrade(g *group, without string) {
	c := g.consumer()
	v := format.ClassicGroup{ProtocolType: consumerProtocol, Generation: c.epoch, Since: s.nowMillis()}
	protocols := map[string][]format.Protocol{}
	for _, m := range c.list() {
		if m.id == without {
			continue
		}
		protocols[m.id] = m.meta.Classic.Protocols
		v.Members = append(v.Members, format.ClassicMember{ID: m.id, Instance: m.meta.Instance, ClientID: m.meta.ClientID,
			ClientHost:       m.meta.ClientHost,
			RebalanceTimeout: m.meta.RebalanceTimeout, SessionTimeout: m.meta.Classic.SessionTimeout,
			Assignment: s.encodeAssignment(m.assigned.assignment(), s.visible(Viewer{}), m.meta.Classic.Protocols[0].Metadata)})
	}
	v.Leader, v.Protocol = ptr(v.Members[0].ID), ptr(electAmong(protocols))
	for i := range v.Members {
		m := &v.Members[i]
		m.Subscription = (&classicMember{protocols: protocols[m.ID]}).metadata(deref(v.Protocol))
	}
	c.removeRecords(s, g)
	s.emit(format.Key{Type: format.TypeClassicGroup, Group: g.id}, v)
	for _, m := range g.classic().members {
		m.protocols, m.groupType = protocols[m.id], consumerProtocol
		g.classic().stale = true
		s.expectHeartbeat(g, m)
	}
	if without != "" {
		s.prepare(g)
	}
}

// electAmong chooses a protocol for members that are not in a group yet.
func electAmong(protocols map[string][]format.Protocol) string {
	c := newClassic()
	for id, list := range protocols {
		c.members[id] = &classicMember{id: id, protocols: list}
	}
	return c.elect()
}
