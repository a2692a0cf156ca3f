package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// leave answers a LeaveGroup. Before version 3 it names one member, and its error is
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
	gone := false
	var removed []*member
	for _, m := range members {
		var f *failure
		r := kmsg.NewLeaveGroupResponseMember()
		switch r.MemberID, r.InstanceID = m.MemberID, m.InstanceID; {
		case g == nil:
			f = refuse(kerr.UnknownMemberID)
		case g.consumer != nil:
			var left *member
			if left, f = s.leaveConsumer(g, m); f == nil {
				r.MemberID = left.id
				removed = append(removed, left)
			}
		default:
			f = s.leaveClassic(g, m)
		}
		gone = gone || f == nil
		r.ErrorCode = f.errorCode()
		resp.Members = append(resp.Members, r)
	}
	if req.Version < 3 {
		resp.ErrorCode, resp.Members = resp.Members[0].ErrorCode, nil
	}
	s.out.Reply(to, resp)
	switch {
	case !gone:
	case g.consumer != nil:
		s.leftConsumer(g, removed)
	default:
		s.memberGone(g)
	}
}

// leaveClassic takes out one member. An administrator names the instance alone.
func (s *Shard) leaveClassic(g *group, m kmsg.LeaveGroupRequestMember) *failure {
	c, id := &g.classic, m.MemberID
	if _, pending := c.pending[id]; pending {
		s.drop(g, id)
		return nil
	}
	if id == "" && m.InstanceID != nil {
		id = c.static[*m.InstanceID]
	}
	if f := c.known(id, m.InstanceID); f != nil {
		return f
	}
	s.removeMember(g, c.members[id])
	return nil
}
