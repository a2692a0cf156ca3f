package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// leaveByHeartbeat removes a member that leaves. A static member that will return keeps its
// partitions until its session ends.
func (s *Shard) leaveByHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest, resp *kmsg.ConsumerGroupHeartbeatResponse) *failure {
	g := s.groups[req.Group]
	switch {
	case g == nil:
		return unknownGroup(req.Group)
	case g.consumer() == nil:
		return fail(kerr.GroupIDNotFound, "Group %s is not a consumer group.", req.Group)
	}
	id, f := s.admit(g, req.MemberID, req.InstanceID, false, false)
	if f != nil {
		return f
	}
	m := g.consumer().members[id]
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

// leave removes a member by a LeaveGroup: one that uses the classic protocol leaves, or an
// administrator removes any member and may name only the instance.
func (c *consumer) leave(s *Shard, g *group, req kmsg.LeaveGroupRequestMember) (string, *failure) {
	id := req.MemberID
	if req.InstanceID != nil {
		owner, known := c.static[*req.InstanceID]
		switch {
		case !known:
			return "", refuse(kerr.UnknownMemberID)
		case id != "" && id != owner:
			return "", refuse(kerr.FencedInstanceID)
		}
		id = owner
	}
	m := c.members[id]
	if m == nil {
		return "", refuse(kerr.UnknownMemberID)
	}
	s.removeConsumer(g, m)
	return id, nil
}

func (c *consumer) afterLeave(s *Shard, g *group) { s.afterConsumerRemoval(g) }
