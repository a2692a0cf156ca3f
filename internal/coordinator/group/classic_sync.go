package group

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// sync answers a SyncGroup when the leader's assignment has arrived.
func (s *Shard) sync(to coordinator.Ticket, v Viewer, req *kmsg.SyncGroupRequest) {
	p, g := parked{to, req.Version}, s.groups[req.Group]
	switch {
	case req.Group == "":
		s.answerSync(p, nil, kerr.InvalidGroupID, nil)
	case req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil): // KIP-559
		s.answerSync(p, nil, kerr.InconsistentGroupProtocol, nil)
	case g == nil || g.kind.empty():
		s.answerSync(p, nil, kerr.UnknownMemberID, nil)
	default:
		if c, uses := g.kind.(classicProtocol); uses {
			c.sync(s, g, p, v, req)
		} else {
			s.answerSync(p, nil, kerr.InconsistentGroupProtocol, nil)
		}
	}
}

func (c *classic) sync(s *Shard, g *group, p parked, _ Viewer, req *kmsg.SyncGroupRequest) {
	if f := c.checkSync(req); f != nil {
		s.answerSync(p, nil, f.code, nil)
		return
	}
	m := c.members[req.MemberID]
	switch c.state {
	case preparing:
		s.answerSync(p, nil, kerr.RebalanceInProgress, nil)
	case completing:
		if m.sync.to != 0 { // its connection is gone
			s.answerSync(m.sync, nil, kerr.RebalanceInProgress, nil)
		}
		m.sync = p
		s.synced(g, m.id)
		if c.leader == m.id {
			s.assign(g, req)
		}
	case stable:
		s.synced(g, m.id)
		s.answerSync(p, g, nil, m.assignment)
	}
}

func (c *classic) checkSync(req *kmsg.SyncGroupRequest) *failure {
	if f := c.checkMember(req.MemberID, req.InstanceID); f != nil {
		return f
	}
	switch {
	case req.Generation != c.generation:
		return refuse(kerr.IllegalGeneration)
	case differ(req.ProtocolType, c.protocolType), differ(req.Protocol, c.protocol):
		return refuse(kerr.InconsistentGroupProtocol)
	}
	return nil
}

// differ reports whether got and want are both set and different.
func differ(got *string, want string) bool { return got != nil && want != "" && *got != want }

// synced notes that a member has synced.
func (s *Shard) synced(g *group, id string) {
	delete(g.classic().pendingSync, id)
	if len(g.classic().pendingSync) == 0 {
		s.cancelTimer(timerSync, g.id, "")
	}
}

// assign records the leader's assignment and answers the waiting members. If the group is too large
// for a record or for the memory budget, it can't become stable.
func (s *Shard) assign(g *group, req *kmsg.SyncGroupRequest) {
	c := g.classic()
	held := c.count()
	c.stale = true
	for _, m := range c.members {
		m.assignment = nil
	}
	for _, a := range req.GroupAssignment {
		if m := c.members[a.MemberID]; m != nil {
			m.assignment = bytes.Clone(a.MemberAssignment)
		}
	}
	var code *kerr.Error
	switch {
	case c.size() > s.cfg.MaxRecord:
		code = kerr.UnknownServerError
	case !s.hasMemory(c.count() - held):
		code = kerr.CoordinatorNotAvailable // clients back off on this error
	}
	if code != nil {
		for _, m := range c.members {
			m.assignment = nil
		}
		s.answerSyncs(g, code)
		s.prepare(g)
		return
	}
	c.since = s.nowMillis()
	s.emitClassic(g)
	s.answerSyncs(g, nil)
}

// size returns the approximate size of the record.
func (c *classic) size() int {
	n := 0
	for _, m := range c.members {
		n += 64 + len(m.id) + len(m.instance) + len(m.clientID) + len(m.clientHost) + len(m.metadata(c.protocol)) + len(m.assignment)
	}
	return n
}

// answerSyncs answers all members that wait for the assignment.
func (s *Shard) answerSyncs(g *group, code *kerr.Error) {
	for _, m := range g.classic().list() {
		if m.sync.to == 0 {
			continue
		}
		if code == nil {
			s.answerSync(m.sync, g, nil, m.assignment)
		} else {
			s.answerSync(m.sync, nil, code, nil)
		}
		m.sync = parked{}
		// It sent no heartbeats while it waited.
		s.expectHeartbeat(g, m)
	}
}

// answerSync answers one SyncGroup. The response names the protocol of the group of, if that is not
// nil.
func (s *Shard) answerSync(p parked, of *group, code *kerr.Error, assignment []byte) {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.Version = p.version
	if code != nil {
		resp.ErrorCode = code.Code
	}
	if of != nil {
		resp.ProtocolType, resp.Protocol = ptr(of.classic().protocolType), ptr(of.classic().protocol)
	}
	if resp.MemberAssignment = assignment; assignment == nil {
		resp.MemberAssignment = []byte{}
	}
	s.out.Reply(p.to, resp)
}

// heartbeat answers a Heartbeat.
func (s *Shard) heartbeat(to coordinator.Ticket, req *kmsg.HeartbeatRequest) {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.Version = req.Version
	g := s.groups[req.Group]
	var f *failure
	switch {
	case req.Group == "":
		f = refuse(kerr.InvalidGroupID)
	case g == nil:
		f = refuse(kerr.UnknownMemberID)
	default:
		f = refuse(kerr.UnknownMemberID)
		if c, uses := g.kind.(classicProtocol); uses {
			f = c.heartbeat(s, g, req)
		}
	}
	resp.ErrorCode = f.errorCode()
	s.out.Reply(to, resp)
}

func (c *classic) heartbeat(s *Shard, g *group, req *kmsg.HeartbeatRequest) *failure {
	if f := c.checkMember(req.MemberID, req.InstanceID); f != nil {
		return f
	}
	if req.Generation != c.generation {
		return refuse(kerr.IllegalGeneration)
	}
	s.expectHeartbeat(g, c.members[req.MemberID])
	if c.state == preparing {
		return refuse(kerr.RebalanceInProgress)
	}
	return nil
}
