package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/text"
)

// joining is a JoinGroup request that is being handled.
type joining struct {
	Request
	to  coordinator.Ticket
	req *kmsg.JoinGroupRequest
}

func (j joining) parked() parked { return parked{j.to, j.req.Version} }

// refuseJoin answers with an error. memberID is the id with which the client must join next.
func (s *Shard) refuseJoin(p parked, memberID string, code *kerr.Error) {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version = p.version
	resp.ErrorCode, resp.Generation, resp.MemberID = code.Code, -1, memberID
	s.out.Reply(p.to, resp)
}

// join answers a JoinGroup, at once or when the join phase ends.
func (s *Shard) join(to coordinator.Ticket, e Request, req *kmsg.JoinGroupRequest) {
	j := joining{e, to, req}
	if code := s.checkJoin(j); code != nil {
		s.refuseJoin(j.parked(), req.MemberID, code)
		return
	}
	g := s.groups[req.Group]
	if !s.hasMemory(joinWeight(j) - g.memoryOf(req.MemberID)) {
		s.refuseJoin(j.parked(), req.MemberID, kerr.CoordinatorLoadInProgress) // all clients back off on this error
		return
	}
	switch {
	case g != nil && !g.becomesClassic():
		if c, uses := g.kind.(classicProtocol); uses {
			c.join(s, g, j)
		} else {
			s.refuseJoin(j.parked(), req.MemberID, kerr.InconsistentGroupProtocol)
		}
	case req.MemberID != "":
		s.refuseJoin(j.parked(), req.MemberID, kerr.UnknownMemberID)
	default:
		if g != nil {
			g.kind.removeRecords(s, g)
		}
		g = s.group(req.Group)
		g.classic().join(s, g, j)
	}
}

// becomesClassic reports whether a JoinGroup makes a classic group of one of another kind: it has
// no members. A share group stays one.
func (g *group) becomesClassic() bool {
	return g.classic() == nil && g.share() == nil && g.kind.empty()
}

// join adds a member, or lets an existing one take part in a rebalance.
func (c *classic) join(s *Shard, g *group, j joining) {
	switch id := j.req.MemberID; {
	case !s.accepts(c, id):
		s.dropMember(g, id)
		s.refuseJoin(j.parked(), "", kerr.GroupMaxSizeReached)
	case id == "":
		s.joinNew(g, j)
	default:
		s.joinKnown(g, j)
	}
}

func (s *Shard) checkJoin(j joining) *kerr.Error {
	session := millis(j.req.SessionTimeoutMillis)
	switch {
	case j.req.Group == "":
		return kerr.InvalidGroupID
	case session < s.cfg.MinSession || session > s.cfg.MaxSession:
		return kerr.InvalidSessionTimeout
	}
	size := 0
	for _, p := range j.req.Protocols {
		if size += len(p.Name) + len(p.Metadata); size > s.cfg.MaxRequest {
			return kerr.InvalidRequest
		}
	}
	return nil
}

// maxPrefix bounds the part of a generated member id that names its client or instance: a member id
// has the bound of all names.
const maxPrefix = 256

// newID returns a new member id of a client or an instance.
func (s *Shard) newID(of string) string {
	return text.Cut(of, maxPrefix) + "-" + s.cfg.NewID()
}

// accepts reports whether the group has space for a member. During a join phase only members that
// have joined count, so the last ones to join are rejected.
func (s *Shard) accepts(c *classic, id string) bool {
	m := c.members[id]
	switch c.state {
	case preparing:
		return m != nil && m.join.to != 0 || c.awaiting < s.cfg.MaxSize
	case completing, stable:
		return m != nil || len(c.members) < s.cfg.MaxSize
	}
	return true
}

// joinNew handles a JoinGroup without a member id.
func (s *Shard) joinNew(g *group, j joining) {
	c, instance := g.classic(), j.req.InstanceID
	if !c.supports(j.req.ProtocolType, j.req.Protocols) {
		s.refuseJoin(j.parked(), "", kerr.InconsistentGroupProtocol)
		return
	}
	switch {
	case instance != nil:
		id := s.newID(*instance)
		if old, ok := c.static[*instance]; ok {
			s.replaceStatic(g, c.members[old], id, j)
			return
		}
		s.addMember(g, id, j)
	case j.req.Version >= 4: // KIP-394: a client that loses its id must leave no member behind
		id := s.newID(j.ClientID)
		s.notePending(g, id, j.Connection)
		s.setTimer(timerSession, g.id, id, millis(j.req.SessionTimeoutMillis))
		s.refuseJoin(j.parked(), id, kerr.MemberIDRequired)
	default:
		s.addMember(g, s.newID(j.ClientID), j)
	}
}

// joinKnown handles a JoinGroup with a member id.
func (s *Shard) joinKnown(g *group, j joining) {
	c, id := g.classic(), j.req.MemberID
	if !c.supports(j.req.ProtocolType, j.req.Protocols) {
		s.refuseJoin(j.parked(), id, kerr.InconsistentGroupProtocol)
		return
	}
	if _, pending := c.pending[id]; pending && j.req.InstanceID == nil {
		s.addMember(g, id, j)
		return
	}
	if f := c.checkMember(id, j.req.InstanceID); f != nil {
		s.refuseJoin(j.parked(), id, f.code)
		return
	}
	m := c.members[id]
	switch {
	case c.state == preparing,
		c.state == completing && !m.sameProtocols(j.req.Protocols),
		// The leader may want a rebalance for a reason that only it sees, such as new partitions.
		c.state == stable && (c.leader == id || !m.sameProtocols(j.req.Protocols)):
		s.rejoin(g, m, j)
		s.rebalance(g)
	case c.state == empty:
		s.refuseJoin(j.parked(), id, kerr.UnknownMemberID)
	default: // the last response was lost, or nothing has changed
		s.answerJoin(g, m, j.parked(), c.state == completing)
	}
}

// addMember adds a new member. The member can't send heartbeats while its join waits, so its first
// session is longer. If it does not return, it is removed.
func (s *Shard) addMember(g *group, id string, j joining) {
	c := g.classic()
	m := newMember(id, j.Request, j.req)
	s.removePending(g, id)
	c.newMember = c.newMember || c.state == preparing && c.initial
	c.add(m)
	s.park(c, m, j.parked())
	s.setTimer(timerSession, g.id, id, s.cfg.NewMemberJoin)
	s.rebalance(g)
}

// rejoin updates a member and parks its join.
func (s *Shard) rejoin(g *group, m *classicMember, j joining) {
	m.update(j.req)
	g.classic().stale = true
	s.park(g.classic(), m, j.parked())
}

// park makes a member's join wait. If an older one waits already, its connection is gone.
func (s *Shard) park(c *classic, m *classicMember, p parked) {
	if m.join.to != 0 {
		s.refuseJoin(m.join, m.id, kerr.RebalanceInProgress)
		c.awaiting--
	}
	m.join = p
	c.awaiting++
}

// answerJoin answers a join with the group's current state. The leader gets the member list if
// assigns is true.
func (s *Shard) answerJoin(g *group, m *classicMember, p parked, assigns bool) {
	c := g.classic()
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version = p.version
	resp.Generation, resp.MemberID, resp.LeaderID = c.generation, m.id, c.leader
	resp.ProtocolType, resp.Protocol = ptr(c.protocolType), ptr(c.protocol)
	if assigns && c.leader == m.id {
		resp.Members = c.describeToLeader()
	}
	s.out.Reply(p.to, resp)
}

func (c *classic) describeToLeader() []kmsg.JoinGroupResponseMember {
	var list []kmsg.JoinGroupResponseMember
	for _, m := range c.list() {
		r := kmsg.NewJoinGroupResponseMember()
		r.MemberID, r.InstanceID, r.ProtocolMetadata = m.id, ptr(m.instance), m.metadata(c.protocol)
		list = append(list, r)
	}
	return list
}

// replaceStatic gives a static member that returns a new member id. If the group is stable and its
// protocol does not change, no rebalance is needed, unless its predecessor had to start one, or its
// subscription has changed.
func (s *Shard) replaceStatic(g *group, m *classicMember, id string, j joining) {
	c, leader := g.classic(), g.classic().leader
	keeps := c.state == stable && (s.assignmentFits(c, m, j.req.Protocols) || s.cfg.Broken.Has(ReturnQuietly))
	s.fenceDuplicate(c, m)
	c.rename(m, id)
	s.cancelTimer(timerSession, g.id, m.id)
	m.id = id
	m.update(j.req)
	m.clientID, m.clientHost = j.ClientID, j.ClientHost
	m.fresh = false // its JoinGroup counts as a heartbeat while it waits
	s.expectHeartbeat(g, m)
	switch {
	case keeps && c.elect() == c.protocol && c.size() <= s.cfg.MaxRecord:
		s.emitClassic(g)
		s.answerReplaced(g, g.classic().members[id], j, leader)
	case c.state == preparing:
		s.park(c, m, j.parked())
		s.completeIfAllJoined(g)
	default:
		// The leader may have received the old id; its assignment would then miss the new one.
		s.park(c, m, j.parked())
		s.prepare(g)
	}
}

// assignmentFits reports whether the assignment of a member of a stable group also fits its
// successor. It does not if the member has a cooperative assignor and reported more than it was
// assigned: it had to join again when it had revoked the rest, and the others wait for that.
func (s *Shard) assignmentFits(c *classic, m *classicMember, next []kmsg.JoinGroupRequestProtocol) bool {
	if c.protocolType != consumerProtocol {
		return true
	}
	was, err := protocol.DecodeSubscription(m.metadata(c.protocol))
	a, failed := s.decodeAssignment(m.assignment)
	is, changed := protocol.DecodeSubscription((&classicMember{protocols: protocolsOf(next)}).metadata(c.protocol))
	if err != nil || failed != nil || changed != nil {
		return true // not the embedded protocol of consumers
	}
	return slices.Equal(sortedSet(was.Topics), sortedSet(is.Topics)) &&
		!slices.ContainsFunc(s.reported(was), func(t kmsg.ConsumerGroupHeartbeatRequestTopic) bool {
			return slices.ContainsFunc(t.Partitions, func(p int32) bool {
				_, stays := slices.BinarySearch(a[t.TopicID], p)
				return !stays
			})
		})
}

// answerReplaced answers a static member that keeps its assignment. From version 9 on, the response
// tells a leader to skip the assignment (KIP-814). Older clients get their former member id as the
// leader, so that they do not assign.
func (s *Shard) answerReplaced(g *group, m *classicMember, j joining, oldLeader string) {
	c := g.classic()
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version = j.req.Version
	resp.Generation, resp.MemberID, resp.LeaderID = c.generation, m.id, oldLeader
	resp.ProtocolType, resp.Protocol = ptr(c.protocolType), ptr(c.protocol)
	if j.req.Version >= 9 {
		leads := c.leader == m.id
		resp.LeaderID, resp.SkipAssignment = c.leader, leads
		if leads {
			resp.Members = c.describeToLeader()
		}
	}
	s.out.Reply(j.to, resp)
}

// fenceDuplicate fails the waiting requests of a member that is replaced.
func (s *Shard) fenceDuplicate(c *classic, m *classicMember) {
	if m.join.to != 0 {
		s.refuseJoin(m.join, m.id, kerr.FencedInstanceID)
		m.join = parked{}
		c.awaiting--
	}
	if m.sync.to != 0 {
		s.answerSync(m.sync, nil, kerr.FencedInstanceID, nil)
		m.sync = parked{}
	}
}

// rename changes a member's id.
func (c *classic) rename(m *classicMember, id string) {
	c.stale = true
	delete(c.members, m.id)
	c.members[id] = m
	c.static[m.instance] = id
	if _, ok := c.pendingSync[m.id]; ok {
		delete(c.pendingSync, m.id)
		c.pendingSync[id] = struct{}{}
	}
	if c.leader == m.id {
		c.leader = id
	}
}

// expectHeartbeat restarts a member's session.
func (s *Shard) expectHeartbeat(g *group, m *classicMember) {
	s.setTimer(timerSession, g.id, m.id, time.Duration(m.session)*time.Millisecond)
}
