package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// leave answers a LeaveGroup. Before version 3 the request names a single member, and its error is
// the response's.
func (s *Shard) leave(to coordinator.Ticket, req *kmsg.LeaveGroupRequest) {
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.Version = req.Version
	members := req.Members
	if req.Version < 3 {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = req.MemberID
		members = []kmsg.LeaveGroupRequestMember{m}
	}
	g := s.groups[req.Group]
	if req.Group == "" {
		resp.ErrorCode = kerr.InvalidGroupID.Code
		s.out.Reply(to, resp)
		return
	}
	var c classicProtocol
	if g != nil {
		c, _ = g.kind.(classicProtocol) // members of the other kinds do not leave this way
	}
	gone := false
	for _, m := range members {
		r := kmsg.NewLeaveGroupResponseMember()
		r.MemberID, r.InstanceID = m.MemberID, m.InstanceID
		f := refuse(kerr.UnknownMemberID)
		if c != nil {
			var id string
			if id, f = c.leave(s, g, m); f == nil {
				r.MemberID, gone = id, true
			}
		}
		r.ErrorCode = f.errorCode()
		resp.Members = append(resp.Members, r)
	}
	if req.Version < 3 {
		resp.ErrorCode, resp.Members = resp.Members[0].ErrorCode, nil
	}
	s.out.Reply(to, resp)
	if gone {
		c.afterLeave(s, g)
	}
}

// leave removes a member. Administrators name only the instance.
func (c *classic) leave(s *Shard, g *group, m kmsg.LeaveGroupRequestMember) (string, *failure) {
	id := m.MemberID
	if _, pending := c.pending[id]; pending {
		s.dropMember(g, id)
		return id, nil
	}
	if id == "" && m.InstanceID != nil {
		id = c.static[*m.InstanceID]
	}
	if f := c.checkMember(id, m.InstanceID); f != nil {
		return "", f
	}
	s.removeMember(g, c.members[id])
	return m.MemberID, nil
}

func (c *classic) afterLeave(s *Shard, g *group) { s.afterRemoval(g) }
