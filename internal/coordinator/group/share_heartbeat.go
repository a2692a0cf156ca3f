package group

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// maxShareMemberID bounds the id of a member of a share group, which the client makes, in
// characters: that of a UUID.
const maxShareMemberID = 36

// shareHeartbeat answers a ShareGroupHeartbeat: a member joins, stays, or leaves.
func (s *Shard) shareHeartbeat(to coordinator.Ticket, e Request, req *kmsg.ShareGroupHeartbeatRequest) {
	resp := kmsg.NewPtrShareGroupHeartbeatResponse()
	f := checkShare(req)
	switch {
	case f != nil:
	case namesSize(req.SubscribedTopicNames) > s.cfg.MaxRequest:
		f = fail(kerr.InvalidRequest, "SubscribedTopicNames have more than %d bytes in all.", s.cfg.MaxRequest)
	case s.topicsUnknown():
		f = refuse(kerr.CoordinatorLoadInProgress)
	case req.MemberEpoch < 0:
		f = s.leaveShare(req, resp)
	default:
		f = s.acceptShare(e, req, resp)
	}
	if f != nil {
		resp = kmsg.NewPtrShareGroupHeartbeatResponse()
		resp.ErrorCode, resp.ErrorMessage = f.errorCode(), f.message()
	}
	resp.Version = req.Version
	s.out.Reply(to, resp)
}

// ValidShare reports whether a heartbeat is well-formed. Otherwise its answer is INVALID_REQUEST.
func ValidShare(req *kmsg.ShareGroupHeartbeatRequest) bool { return checkShare(req) == nil }

func checkShare(req *kmsg.ShareGroupHeartbeatRequest) *failure {
	invalid := func(msg string) *failure { return fail(kerr.InvalidRequest, "%s", msg) }
	switch {
	case strings.TrimSpace(req.MemberID) == "":
		return invalid("MemberId can't be empty.")
	case utf8.RuneCountInString(req.MemberID) > maxShareMemberID:
		return fail(kerr.InvalidRequest, "MemberId has more than %d characters.", maxShareMemberID)
	case strings.TrimSpace(req.GroupID) == "":
		return invalid("GroupId can't be empty.")
	case req.RackID != nil && strings.TrimSpace(*req.RackID) == "":
		return invalid("RackId can't be empty.")
	case req.MemberEpoch == epochJoin && len(req.SubscribedTopicNames) == 0:
		return invalid("SubscribedTopicNames must be set in first request.")
	case req.MemberEpoch < epochLeave:
		return invalid("MemberEpoch is invalid.")
	}
	return nil
}

// acceptShare handles a heartbeat of a member that joins or stays.
func (s *Shard) acceptShare(e Request, req *kmsg.ShareGroupHeartbeatRequest, resp *kmsg.ShareGroupHeartbeatResponse) *failure {
	joins := req.MemberEpoch == epochJoin
	if joins || req.SubscribedTopicNames != nil {
		meta := updatedShare(format.ShareMember{}, e, req)
		if !s.hasMemory(shareWeight(req.MemberID, &meta) - s.groups[req.GroupID].memoryOf(req.MemberID)) {
			return fail(kerr.CoordinatorLoadInProgress, "The memory limit for group members is reached; try again later.")
		}
	}
	g, f := s.shareFor(req)
	if f != nil {
		return f
	}
	c := g.share()
	var was shareMember
	m := c.members[req.MemberID]
	switch {
	case m == nil && !joins:
		return fail(kerr.UnknownMemberID, "Member %s is not a member of group %s.", req.MemberID, req.GroupID)
	case m != nil:
		was = *m
		if f := m.checkShareEpoch(req.MemberEpoch); f != nil && !joins && !s.cfg.Broken.Has(AnyMemberEpoch) {
			return f
		}
	}
	meta := updatedShare(was.meta, e, req)
	changed := m == nil || !slices.Equal(was.meta.Topics, meta.Topics)
	if changed || !sameShareMember(&was.meta, &meta) {
		s.emit(format.Key{Type: format.TypeShareMember, Group: g.id, Item: req.MemberID}, meta)
	}
	s.bumpShare(g, changed)
	s.updateShareTarget(g)
	m = c.members[req.MemberID]
	s.takeShareTarget(g, m)
	s.continueStates(g)
	times := s.timesOf(g).Share
	s.setTimer(timerSession, g.id, m.id, times.Session)
	resp.MemberID, resp.MemberEpoch = kmsg.StringPtr(m.id), m.epoch
	interval := times.Heartbeat
	if s.awaitsPartitions(m) {
		interval = min(interval, max(times.Interval, soonestBeat))
	}
	resp.HeartbeatIntervalMillis = int32(interval / time.Millisecond)
	// A member that reports an earlier epoch has not got the answer with its assignment.
	if joins || req.SubscribedTopicNames != nil || req.MemberEpoch != was.epoch || !m.assigned.Equal(was.assigned) {
		resp.Assignment = shareAssignmentOf(m)
	}
	return nil
}

// soonestBeat is the shortest interval between heartbeats that a member is asked for.
const soonestBeat = 500 * time.Millisecond

// awaitsPartitions reports whether a member has no partition although a topic of its subscription
// exists: every subscriber gets one when the states exist and the next target may be computed. Such
// a member is asked for its next heartbeat soon, or its first records would wait for an interval.
func (s *Shard) awaitsPartitions(m *shareMember) bool {
	return len(m.assigned) == 0 && !s.topicsUnknown() && slices.ContainsFunc(m.meta.Topics, func(name string) bool {
		_, exists := s.topics.ByName(name)
		return exists
	})
}

func shareAssignmentOf(m *shareMember) *kmsg.ShareGroupHeartbeatResponseAssignment {
	a := kmsg.NewShareGroupHeartbeatResponseAssignment()
	a.TopicPartitions = []kmsg.ShareGroupHeartbeatResponseAssignmentTopicPartition{}
	for _, id := range m.assigned.Topics() {
		t := kmsg.NewShareGroupHeartbeatResponseAssignmentTopicPartition()
		t.TopicID, t.Partitions = id, slices.Clone(m.assigned[id])
		a.TopicPartitions = append(a.TopicPartitions, t)
	}
	return &a
}

// updatedShare returns a member's metadata after a heartbeat: null fields stay unchanged.
func updatedShare(m format.ShareMember, e Request, req *kmsg.ShareGroupHeartbeatRequest) format.ShareMember {
	m.ClientID, m.ClientHost = e.ClientID, e.ClientHost
	if req.RackID != nil {
		m.Rack = req.RackID
	}
	if req.SubscribedTopicNames != nil {
		m.Topics = sortedSet(req.SubscribedTopicNames)
	}
	return m
}

func sameShareMember(a, b *format.ShareMember) bool {
	return same(a.Rack, b.Rack) && a.ClientID == b.ClientID && a.ClientHost == b.ClientHost && slices.Equal(a.Topics, b.Topics)
}

// shareFor returns the share group of a heartbeat. If the member joins and there is no group of
// that id, shareFor creates it. As in Kafka, a group of another kind stays one, also without
// members.
func (s *Shard) shareFor(req *kmsg.ShareGroupHeartbeatRequest) (*group, *failure) {
	g, joins := s.groups[req.GroupID], req.MemberEpoch == epochJoin
	switch {
	case g == nil && !joins:
		return nil, fail(kerr.GroupIDNotFound, "Share group %s not found.", req.GroupID)
	case g == nil:
		if s.cfg.ShareMaxSize <= 0 {
			return nil, s.shareFull()
		}
		g = s.group(req.GroupID)
		g.kind = newShare()
		return g, nil
	case g.share() == nil:
		return nil, fail(kerr.GroupIDNotFound, "Group %s is not a share group.", req.GroupID)
	}
	if c := g.share(); c.members[req.MemberID] == nil && len(c.members) >= s.cfg.ShareMaxSize {
		return nil, s.shareFull()
	}
	return g, nil
}

func (s *Shard) shareFull() *failure {
	return fail(kerr.GroupMaxSizeReached, "The share group has reached its maximum capacity of %d members.", s.cfg.ShareMaxSize)
}

// checkShareEpoch fences a member with the wrong epoch. The previous epoch is accepted, because the
// response with the new one may have been lost.
func (m *shareMember) checkShareEpoch(epoch int32) *failure {
	switch {
	case epoch > m.epoch:
		return fail(kerr.FencedMemberEpoch, "The share group member has a greater member epoch (%d) "+
			"than the one known by the group coordinator (%d). "+
			"The member must abandon all its partitions and rejoin.", epoch, m.epoch)
	case epoch < m.epoch && epoch != m.previous:
		return fail(kerr.FencedMemberEpoch, "The share group member has a smaller member epoch (%d) "+
			"than the one known by the group coordinator (%d), and it does not match the previous member epoch (%d). "+
			"The member must abandon all its partitions and rejoin.", epoch, m.epoch, m.previous)
	}
	return nil
}

// leaveShare removes a member that leaves.
func (s *Shard) leaveShare(req *kmsg.ShareGroupHeartbeatRequest, resp *kmsg.ShareGroupHeartbeatResponse) *failure {
	g := s.groups[req.GroupID]
	switch {
	case g == nil:
		return fail(kerr.GroupIDNotFound, "Share group %s not found.", req.GroupID)
	case g.share() == nil:
		return fail(kerr.GroupIDNotFound, "Group %s is not a share group.", req.GroupID)
	}
	m := g.share().members[req.MemberID]
	if m == nil {
		return fail(kerr.UnknownMemberID, "Member %s is not a member of group %s.", req.MemberID, req.GroupID)
	}
	resp.MemberID, resp.MemberEpoch = kmsg.StringPtr(m.id), req.MemberEpoch
	s.removeShareMember(g, m)
	return nil
}
