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
	if c.upgradedSize(g.id) > s.cfg.MaxRecord {
		return fail(kerr.GroupMaxSizeReached, "Cannot upgrade classic group %s: its records would have more than %d bytes.", g.id,
			s.cfg.MaxRecord)
	}
	return nil
}

// upgradedSize returns about the bytes of the records of an upgrade. They are one event.
func (c *classic) upgradedSize(group string) int {
	n := 0
	for _, m := range c.members {
		n += 3*(recordWeight+len(group)+len(m.id)) + len(m.instance) + len(m.clientID) + len(m.clientHost) + 2*len(m.assignment)
		for _, p := range m.protocols {
			n += 2 * (len(p.Name) + len(p.Metadata)) // the topics of a subscription have a place of their own
		}
	}
	return n
}

// upgrade makes a classic group a consumer group. The generation becomes the epoch, and what the
// members own becomes the target. Members that wait in the current rebalance must rejoin.
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
	owned := s.ownedBy(members, chosen)
	for _, m := range members {
		s.upgradeMember(g, m, generation, chosen, owned[m.id])
	}
	s.emit(format.Key{Type: format.TypeTargetEpoch, Group: g.id}, format.TargetEpoch{Epoch: generation, Time: s.nowMillis()})
	// The target is for no known topics: a rebalance may have been under way. The epoch grows with
	// the next request, even if the new member only replaces a static one.
	s.emit(format.Key{Type: format.TypeGroup, Group: g.id}, format.Group{Epoch: generation})
	g.consumer().dirty = !s.cfg.Broken.Has(KeepTarget)
}

// ownedBy returns the partitions that each member of a classic group may be reading: those of its
// last assignment, and those that it reported when it last joined. A member with a cooperative
// assignor keeps what it reported until it has received an assignment without it. A partition has
// one owner, although a leader may have assigned it twice; an assignment counts for more than a
// report.
func (s *Shard) ownedBy(members []*classicMember, chosen string) map[string]assign.Assignment {
	owned, taken := make(map[string]assign.Assignment, len(members)), map[assign.TopicID]map[int32]bool{}
	claim := func(m *classicMember, id assign.TopicID, list []int32) {
		topic, _ := s.topics.ByID(id)
		if taken[id] == nil {
			taken[id] = map[int32]bool{}
		}
		for _, p := range list {
			if p >= 0 && p < topic.Partitions && !taken[id][p] {
				taken[id][p] = true
				owned[m.id][id] = append(owned[m.id][id], p)
			}
		}
	}
	for _, m := range members {
		owned[m.id] = assign.Assignment{}
		a, _ := s.decodeAssignment(m.assignment) // upgradable has checked it, and the subscription
		for id, list := range a {
			claim(m, id, list)
		}
	}
	for _, m := range members {
		sub, _ := protocol.DecodeSubscription(m.metadata(chosen))
		for _, t := range s.reported(sub) {
			if s.cfg.Broken.Has(OwnAssigned) {
				break
			}
			claim(m, t.TopicID, t.Partitions)
		}
		for _, list := range owned[m.id] {
			slices.Sort(list)
		}
	}
	return owned
}

// upgradeMember converts one member.
func (s *Shard) upgradeMember(g *group, m *classicMember, generation int32, chosen string, owned assign.Assignment) {
	sub, _ := protocol.DecodeSubscription(m.metadata(chosen))
	key := format.Key{Type: format.TypeMember, Group: g.id, Item: m.id}
	s.emit(key, format.Member{Instance: ptr(m.instance), Rack: sub.Rack, ClientID: m.clientID, ClientHost: m.clientHost,
		Topics:           sortedSet(sub.Topics),
		RebalanceTimeout: m.rebalance, Classic: &format.Classic{SessionTimeout: m.session, Protocols: m.protocolsFrom(chosen)}})
	target := targetRecord(owned)
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
	left, size := 0, 0
	for _, m := range c.members {
		if m.id == without {
			continue
		}
		if !m.classic() {
			return false
		}
		left++
		size += m.downgradedSize()
	}
	return left > 0 && left <= s.cfg.MaxSize && size <= s.cfg.MaxRecord
}

// downgradedSize returns about the bytes of a member in the record of a classic group.
func (m *member) downgradedSize() int {
	n, most := recordWeight+len(m.id)+len(deref(m.meta.Instance))+len(m.meta.ClientID)+len(m.meta.ClientHost), 0
	for _, p := range m.meta.Classic.Protocols {
		most = max(most, len(p.Metadata))
	}
	return n + most
}

// downgrade makes a consumer group a classic one, without the named member. Its record has no
// leader, because the partitions are not assigned yet: the members must rejoin, as after a load
// of it.
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
	v.Protocol = ptr(electAmong(protocols))
	if s.cfg.Broken.Has(FinishDowngrade) {
		v.Leader = ptr(v.Members[0].ID)
	}
	for i := range v.Members {
		m := &v.Members[i]
		m.Subscription = (&classicMember{protocols: protocols[m.ID]}).metadata(deref(v.Protocol))
	}
	c.removeRecords(s, g)
	s.emit(format.Key{Type: format.TypeClassicGroup, Group: g.id}, v)
	for _, m := range g.classic().members {
		m.protocols, m.groupType = protocols[m.id], consumerProtocol
	}
	g.classic().stale = true
	g.kind.loaded(s, g)
}

// electAmong chooses a protocol for members that are not in a group yet.
func electAmong(protocols map[string][]format.Protocol) string {
	c := newClassic()
	for id, list := range protocols {
		c.members[id] = &classicMember{id: id, protocols: list}
	}
	return c.elect()
}
