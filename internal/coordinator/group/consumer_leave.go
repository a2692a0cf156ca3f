package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// leaveByHeartbeat takes a member out that says goodbye. A static one that will be
// back keeps its partitions until its session ends.
func (s *Shard) leaveByHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest, resp *kmsg.ConsumerGroupHeartbeatResponse) *failure {
	g := s.groups[req.Group]
	switch {
	case g == nil:
		return unknownGroup(req.Group)
	case g.consumer == nil:
		return fail(kerr.GroupIDNotFound, "Group %s is not a consumer group.", req.Group)
	}
	id, f := s.admit(g, req.MemberID, req.InstanceID, false, false)
	if f != nil {
		return f
	}
	m := g.consumer.members[id]
	resp.MemberID, resp.MemberEpoch = kmsg.StringPtr(id), req.MemberEpoch
	if req.MemberEpoch == epochStaticLeave {
		s.emit(format.Key{Type: format.TypeCurrent, Group: g.id, Item: id}, format.Current{Epoch: epochStaticLeave, Previous: m.previous,
			State: int8(m.state), Assigned: m.assigned.recorded()})
		s.cancelTimer(timerRebalance, g.id, id)
		return nil
	}
	s.fence(g, m)
	return nil
}

// leaveConsumer takes out a member by LeaveGroup: one that speaks the classic protocol
// says goodbye, or an administrator removes any, who may name the instance alone.
func (s *Shard) leaveConsumer(g *group, req kmsg.LeaveGroupRequestMember) (*member, *failure) {
	c, id := g.consumer, req.MemberID
	if req.InstanceID != nil {
		owner, known := c.static[*req.InstanceID]
		switch {
		case !known:
			return nil, refuse(kerr.UnknownMemberID)
		case id != "" && id != owner:
			return nil, refuse(kerr.FencedInstanceID)
		}
		id = owner
	}
	m := c.members[id]
	if m == nil {
		return nil, refuse(kerr.UnknownMemberID)
	}
	s.removeConsumer(g, m)
	return m, nil
}

// leftConsumer goes on without members that have left by LeaveGroup.
func (s *Shard) leftConsumer(g *group, gone []*member) {
	if len(gone) > 0 {
		s.shrunk(g)
	}
}
