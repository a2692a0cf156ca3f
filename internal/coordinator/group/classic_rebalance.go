package group

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

//	empty ──join──▶ preparing ──all joined, or timeout──▶ completing ──leader syncs──▶ stable
//	  ▲                 │  ▲                                  │                          │
//	  └───nobody left───┘  └── join, leave, death, no sync ───┴──────────────────────────┘
//
// Records are written on the way into stable and empty.

// rebalance starts a rebalance, or ends the join phase that everybody has joined.
func (s *Shard) rebalance(g *group) {
	if g.classic().state == preparing {
		s.completeIfAllJoined(g)
		return
	}
	s.prepare(g)
}

// completeIfAllJoined ends the join phase if nobody is waited for. The first
// rebalance waits for its delay in any case.
func (s *Shard) completeIfAllJoined(g *group) {
	if c := g.classic(); c.state == preparing && !c.initial && c.allJoined() {
		s.completeJoin(g)
	}
}

// prepare asks all members to join.
func (s *Shard) prepare(g *group) {
	c := g.classic()
	if c.state == completing {
		for _, m := range c.members {
			m.assignment = nil
		}
		s.answerSyncs(g, kerr.RebalanceInProgress)
	}
	clear(c.pendingSync)
	s.cancelTimer(timerSync, g.id, "")
	c.initial = c.state == empty
	c.state, c.since = preparing, s.nowMillis()
	switch {
	case c.initial:
		// Many members usually start together: they get some time, so that there is
		// one rebalance and not one for each.
		c.newMember = false
		c.delay, c.remains = s.cfg.InitialDelay, max(c.rebalanceTimeout()-s.cfg.InitialDelay, 0)
		s.setTimer(timerJoin, g.id, "", c.delay)
	case c.allJoined():
		s.completeJoin(g)
	default:
		s.setTimer(timerJoin, g.id, "", c.rebalanceTimeout())
	}
}

// joinTimeout ends the join phase; the initial one goes on while members come.
func (s *Shard) joinTimeout(g *group) {
	c := g.classic()
	if c.state != preparing {
		return
	}
	if c.initial && c.newMember && c.remains > 0 {
		c.newMember = false
		spent := c.delay
		c.delay = min(s.cfg.InitialDelay, c.remains)
		c.remains = max(c.remains-spent, 0)
		s.setTimer(timerJoin, g.id, "", c.delay)
		return
	}
	s.completeJoin(g)
}

// completeJoin ends the join phase: whoever has not joined is out, except static
// members, who have until their session ends.
func (s *Shard) completeJoin(g *group) {
	c := g.classic()
	s.cancelTimer(timerJoin, g.id, "")
	for _, m := range c.list() {
		if m.join.to == 0 && m.instance == "" {
			s.takeOut(g, m.id)
		}
	}
	c.succeed()
	if len(c.members) > 0 && !c.electLeader() {
		s.setTimer(timerJoin, g.id, "", c.rebalanceTimeout()) // nobody is there to lead
		return
	}
	c.initial = false
	c.generation++
	clear(c.pendingSync)
	if len(c.members) == 0 {
		c.protocol, c.leader, c.since = "", "", s.nowMillis()
		s.emitClassic(g)
		return
	}
	c.protocol, c.state, c.since = c.elect(), completing, s.nowMillis()
	for _, m := range c.list() {
		if m.join.to != 0 {
			s.answerJoin(g, m, m.join, true)
			m.join = parked{}
		}
		m.fresh = false
		s.expectHeartbeat(g, m)
		c.pendingSync[m.id] = struct{}{}
	}
	c.awaiting = 0
	s.setTimer(timerSync, g.id, "", c.rebalanceTimeout())
}

// electLeader sees to a leader that has joined; false where nobody has.
func (c *classic) electLeader() bool {
	if l := c.members[c.leader]; l != nil && l.join.to != 0 {
		return true
	}
	for _, m := range c.list() {
		if m.join.to != 0 {
			c.leader = m.id
			return true
		}
	}
	return false
}

// emitClassic records the group.
func (s *Shard) emitClassic(g *group) {
	s.emit(format.Key{Type: format.TypeClassicGroup, Group: g.id}, g.classic().record())
}

// drop takes a member or pending id out of the group, without more.
func (s *Shard) drop(g *group, id string) {
	s.takeOut(g, id)
	g.classic().succeed()
}

// takeOut is drop for one of several, after which the group may have no leader.
func (s *Shard) takeOut(g *group, id string) {
	s.cancelTimer(timerSession, g.id, id)
	s.removePending(g, id)
	g.classic().remove(id)
}

// sessionTimeout ends a session. Who waits for the group is not expected to be heard
// of, unless it is new and can't have been.
func (s *Shard) sessionTimeout(g *group, id string) {
	c := g.classic()
	if _, pending := c.pending[id]; pending {
		s.dropPending(g, id)
		return
	}
	m := c.members[id]
	if m == nil || !m.fresh && (m.join.to != 0 || m.sync.to != 0) {
		return
	}
	s.removeMember(g, m)
	s.memberGone(g)
}

// removeMember takes out a member; what it waits for ends. memberGone or prepare is to
// follow, once for any number of them.
func (s *Shard) removeMember(g *group, m *classicMember) {
	if m.join.to != 0 {
		s.refuseJoin(m.join, "", kerr.UnknownMemberID)
	}
	if m.sync.to != 0 {
		s.answerSync(m.sync, nil, kerr.UnknownMemberID, nil)
	}
	s.takeOut(g, m.id)
}

// memberGone goes on without members.
func (s *Shard) memberGone(g *group) {
	g.classic().succeed()
	switch g.classic().state {
	case stable, completing:
		s.prepare(g)
	case preparing:
		s.completeIfAllJoined(g)
	}
}

// syncTimeout takes out who has joined and then not synced.
func (s *Shard) syncTimeout(g *group) {
	c := g.classic()
	if c.state != completing && c.state != stable || len(c.pendingSync) == 0 {
		return
	}
	for _, m := range c.list() {
		if _, ok := c.pendingSync[m.id]; ok {
			s.removeMember(g, m)
		}
	}
	c.succeed()
	s.prepare(g)
}
