package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

//	empty ──join──▶ preparing ──all joined, or timeout──▶ completing ──leader syncs──▶ stable
//	  ▲                 │  ▲                                  │                          │
//	  └────none left────┘  └── join, leave, death, no sync ───┴──────────────────────────┘
//
// Records are written on the way into stable and empty, and when a static member of a stable group
// gets a new id.

// rebalance starts a rebalance, or completes the join phase if all members have joined.
func (s *Shard) rebalance(g *group) {
	if g.classic().state == preparing {
		s.completeIfAllJoined(g)
		return
	}
	s.prepare(g)
}

// completeIfAllJoined ends the join phase if all members have joined. The first rebalance always
// waits for its delay.
func (s *Shard) completeIfAllJoined(g *group) {
	if c := g.classic(); c.state == preparing && !c.initial && c.allJoined() {
		s.completeJoin(g)
	}
}

// prepare starts a join phase: all members must join.
func (s *Shard) prepare(g *group) {
	c := g.classic()
	if c.state == completing {
		s.answerSyncs(g, kerr.RebalanceInProgress)
	}
	clear(c.pendingSync)
	s.cancelTimer(timerSync, g.id, "")
	c.initial = c.state == empty
	c.state, c.since = preparing, s.nowMillis()
	switch {
	case c.initial:
		// Many members usually start together. The delay makes one rebalance out of many.
		c.newMember = false
		c.delay, c.remains = s.cfg.InitialDelay, max(c.rebalanceTimeout()-s.cfg.InitialDelay, 0)
		s.setTimer(timerJoin, g.id, "", c.delay)
	case c.allJoined():
		s.completeJoin(g)
	default:
		s.setTimer(timerJoin, g.id, "", c.rebalanceTimeout())
	}
}

// joinTimeout ends the join phase. The initial one continues while members join.
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

// leastRetry is the shortest time after which a join phase that cannot end is checked again. What
// ends it, a JoinGroup or the end of a session, needs no timer.
const leastRetry = time.Second

// completeJoin ends the join phase and removes members that have not joined. Static members stay
// until their session ends.
func (s *Shard) completeJoin(g *group) {
	c := g.classic()
	s.cancelTimer(timerJoin, g.id, "")
	for _, m := range c.list() {
		if m.join.to == 0 && m.instance == "" {
			s.detach(g, m.id)
		}
	}
	c.replaceLeader()
	if len(c.members) > 0 && !c.electLeader() {
		// There is no member that could lead: only static ones, which have not joined. A timeout of
		// 0 is valid.
		s.setTimer(timerJoin, g.id, "", max(c.rebalanceTimeout(), leastRetry))
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

// electLeader makes sure that the leader is a member that has joined. It returns false if none has.
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

// dropMember removes a member or pending id without starting a rebalance.
func (s *Shard) dropMember(g *group, id string) {
	s.detach(g, id)
	g.classic().replaceLeader()
}

// detach removes one of several members or ids. Afterwards the group may have no leader.
func (s *Shard) detach(g *group, id string) {
	s.cancelTimer(timerSession, g.id, id)
	s.removePending(g, id)
	g.classic().remove(id)
}

// sessionTimeout ends a session. A member with a waiting request sends no heartbeats, so it stays;
// a new member is removed, because its client may be gone.
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
	s.afterRemoval(g)
}

// removeMember removes a member and fails its waiting requests. The caller must then call
// afterRemoval or prepare, once for any number of members.
func (s *Shard) removeMember(g *group, m *classicMember) {
	if m.join.to != 0 {
		s.refuseJoin(m.join, "", kerr.UnknownMemberID)
	}
	if m.sync.to != 0 {
		s.answerSync(m.sync, nil, kerr.UnknownMemberID, nil)
	}
	s.detach(g, m.id)
}

// afterRemoval starts or completes a rebalance after members were removed.
func (s *Shard) afterRemoval(g *group) {
	g.classic().replaceLeader()
	switch g.classic().state {
	case stable, completing:
		s.prepare(g)
	case preparing:
		s.completeIfAllJoined(g)
	}
}

// syncTimeout removes members that have not synced, and static ones that have not joined either.
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
	c.replaceLeader()
	s.prepare(g)
}
