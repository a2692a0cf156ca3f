package group

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// consumerHeartbeat answers a ConsumerGroupHeartbeat: a member joins, stays, or leaves.
func (s *Shard) consumerHeartbeat(to coordinator.Ticket, e Request, req *kmsg.ConsumerGroupHeartbeatRequest) {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	f := s.checkHeartbeat(req)
	switch {
	case f != nil:
	case s.topicsUnknown():
		f = refuse(kerr.CoordinatorLoadInProgress)
	case req.MemberEpoch < 0:
		f = s.leaveByHeartbeat(req, resp)
	default:
		if re := s.expressionOf(e, req); s.needsMatch(re, req) {
			s.startMatch(to, e, re)
			return
		}
		f = s.acceptHeartbeat(e, req, resp)
	}
	if f != nil {
		s.refuseHeartbeat(to, req, f)
		return
	}
	resp.Version = req.Version
	s.out.Reply(to, resp)
}

func (s *Shard) refuseHeartbeat(to coordinator.Ticket, req *kmsg.ConsumerGroupHeartbeatRequest, f *failure) {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.Version, resp.ErrorCode, resp.ErrorMessage = req.Version, f.errorCode(), f.message()
	s.out.Reply(to, resp)
}

func (s *Shard) checkHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest) *failure {
	blank := func(p *string) bool { return p != nil && strings.TrimSpace(*p) == "" }
	invalid := func(msg string) *failure { return fail(kerr.InvalidRequest, "%s", msg) }
	switch {
	case strings.TrimSpace(req.Group) == "":
		return invalid("GroupId can't be empty.")
	case blank(req.InstanceID):
		return invalid("InstanceId can't be empty.")
	case blank(req.RackID):
		return invalid("RackId can't be empty.")
	case namesSize(req.SubscribedTopicNames) > s.cfg.MaxRequest:
		return fail(kerr.InvalidRequest, "SubscribedTopicNames have more than %d bytes in all; use a regular expression instead.",
			s.cfg.MaxRequest)
	case strings.Contains(deref(req.SubscribedTopicRegex), "\x00"):
		return fail(kerr.InvalidRegularExpression, "SubscribedTopicRegex has a NUL byte, which no name of a topic has.")
	case (req.MemberEpoch != epochJoin || req.Version >= 1) && strings.TrimSpace(req.MemberID) == "":
		return invalid("MemberId can't be empty.") // KIP-1082: from version 1 on, the member chooses it
	case req.MemberEpoch < epochStaticLeave:
		return invalid("MemberEpoch is invalid.")
	case req.MemberEpoch == epochStaticLeave && req.InstanceID == nil:
		return invalid("InstanceId can't be null.")
	case req.ServerAssignor != nil && !slices.Contains(s.cfg.Assignors, *req.ServerAssignor):
		return fail(kerr.UnsupportedAssignor, "ServerAssignor %s is not supported. Supported assignors: %s.",
			*req.ServerAssignor, strings.Join(s.cfg.Assignors, ", "))
	case req.MemberEpoch == epochJoin:
		return checkFirst(req)
	}
	return nil
}

func namesSize(names []string) int {
	n := 0
	for _, name := range names {
		n += 2 + len(name)
	}
	return n
}

// checkFirst checks the fields that are required when a member joins.
func checkFirst(req *kmsg.ConsumerGroupHeartbeatRequest) *failure {
	switch {
	case req.RebalanceTimeoutMillis == -1:
		return fail(kerr.InvalidRequest, "RebalanceTimeoutMs must be provided in first request.")
	case req.Topics == nil || len(req.Topics) > 0:
		return fail(kerr.InvalidRequest, "TopicPartitions must be empty when (re-)joining.")
	case req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil:
		return fail(kerr.InvalidRequest, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
	}
	return nil
}

// acceptHeartbeat handles a heartbeat of a member that joins or stays.
func (s *Shard) acceptHeartbeat(e Request, req *kmsg.ConsumerGroupHeartbeatRequest, resp *kmsg.ConsumerGroupHeartbeatResponse) *failure {
	if joins := req.MemberEpoch == epochJoin; joins || req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil {
		if !s.hasMemory(heartbeatWeight(e, req) - s.groups[req.Group].memoryOf(req.MemberID)) {
			return fail(kerr.CoordinatorLoadInProgress, "The memory limit for group members is reached; try again later.")
		}
	}
	if req.MemberID == "" {
		req.MemberID = s.cfg.NewID()
	}
	g, f := s.consumerFor(req)
	if f != nil {
		return f
	}
	id, f := s.admit(g, req.MemberID, req.InstanceID, req.MemberEpoch == epochJoin, false)
	if f != nil {
		return f
	}
	if m := g.consumer().members[id]; m != nil && req.MemberEpoch != epochJoin {
		if f := m.checkEpoch(req); f != nil {
			return f
		}
	}
	s.updateMember(g, id, updated(g.consumer().memberOrNew(id).meta, e, req))
	m := g.consumer().members[id]
	changed := s.reconcile(g, m, req.Topics)
	times := s.timesOf(g)
	s.setTimer(timerSession, g.id, id, times.Session)
	resp.MemberID, resp.MemberEpoch = kmsg.StringPtr(id), m.epoch
	resp.HeartbeatIntervalMillis = int32(times.Heartbeat / time.Millisecond)
	// A member that sends all fields does not know its assignment.
	full := req.MemberEpoch == epochJoin || req.RebalanceTimeoutMillis != -1 && req.Topics != nil &&
		(req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil)
	if full || changed {
		resp.Assignment = assignmentOf(m)
	}
	return nil
}

// memberOrNew returns a copy of a member, or a new one.
func (c *consumer) memberOrNew(id string) member {
	if m := c.members[id]; m != nil {
		return *m
	}
	return member{id: id, meta: format.Member{RebalanceTimeout: -1}}
}

func assignmentOf(m *member) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	a := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	a.Topics = []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{}
	list := m.assigned.assignment()
	for _, id := range list.Topics() {
		t := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		t.TopicID, t.Partitions = id, list[id]
		a.Topics = append(a.Topics, t)
	}
	return &a
}

// updated returns a member's metadata after a heartbeat: null fields stay unchanged.
func updated(m format.Member, e Request, req *kmsg.ConsumerGroupHeartbeatRequest) format.Member {
	m.ClientID, m.ClientHost, m.Classic = e.ClientID, e.ClientHost, nil
	if req.InstanceID != nil {
		m.Instance = req.InstanceID
	}
	if req.RackID != nil {
		m.Rack = req.RackID
	}
	if req.RebalanceTimeoutMillis != -1 {
		m.RebalanceTimeout = req.RebalanceTimeoutMillis
	}
	if req.ServerAssignor != nil {
		m.Assignor = req.ServerAssignor
	}
	if req.SubscribedTopicNames != nil {
		m.Topics = sortedSet(req.SubscribedTopicNames)
	}
	if now := expressionAfter(m.Regex, e, req); req.SubscribedTopicRegex != nil || now != deref(m.Regex) {
		m.Regex = &now
	}
	return m
}

func sortedSet(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// consumerFor returns the consumer group of a heartbeat. If the member joins and there is no such
// group, consumerFor creates one, or converts a classic group. Members of the classic group
// continue with the classic protocol (upgrade).
func (s *Shard) consumerFor(req *kmsg.ConsumerGroupHeartbeatRequest) (*group, *failure) {
	g, joins := s.groups[req.Group], req.MemberEpoch == epochJoin
	notFound := fail(kerr.GroupIDNotFound, "Group %s is not a consumer group.", req.Group)
	switch {
	case g == nil && !joins:
		return nil, fail(kerr.GroupIDNotFound, "Consumer group %s not found.", req.Group)
	case g == nil:
		if s.cfg.ConsumerMaxSize <= 0 {
			return nil, s.groupFull()
		}
		g = s.group(req.Group)
	case g.consumer() != nil:
		if _, member := g.consumer().members[req.MemberID]; !member && len(g.consumer().members) >= s.cfg.ConsumerMaxSize {
			return nil, s.groupFull()
		}
		return g, nil
	case !joins || g.classic() == nil:
		return nil, notFound
	case !g.kind.empty():
		if f := s.upgradable(g); f != nil {
			return nil, f
		}
		s.upgrade(g)
		return g, nil
	}
	s.forgetPending(g)
	if g.classic().recorded {
		s.emit(format.Key{Type: format.TypeClassicGroup, Group: g.id}, nil)
		g = s.group(g.id)
	}
	g.kind = newConsumer()
	return g, nil
}

func (s *Shard) groupFull() *failure {
	return fail(kerr.GroupMaxSizeReached, "The consumer group has reached its maximum capacity of %d members.", s.cfg.ConsumerMaxSize)
}

// forgetPending drops all pending member ids of a classic group.
func (s *Shard) forgetPending(g *group) {
	for id := range g.classic().pending {
		s.dropMember(g, id)
	}
}

// admit returns the id under which a member takes part. A static member that returns replaces its
// predecessor. If both use the consumer protocol, the predecessor must have left.
func (s *Shard) admit(g *group, id string, instance *string, joins, classic bool) (string, *failure) {
	c := g.consumer()
	if instance == nil {
		if c.members[id] == nil && !joins {
			return "", fail(kerr.UnknownMemberID, "Member %s is not a member of group %s.", id, g.id)
		}
		return id, nil
	}
	old, known := c.members[c.static[*instance]], c.static[*instance] != ""
	switch {
	case !known && !joins:
		return "", fail(kerr.UnknownMemberID, "Instance id %s is unknown.", *instance)
	case !known || old.id == id:
		return id, nil
	case !joins:
		return "", fail(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", id, *instance, old.id)
	case !classic && !old.classic() && old.epoch != epochStaticLeave:
		return "", fail(kerr.UnreleasedInstanceID,
			"Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.",
			id, *instance, old.id)
	}
	s.replaceMember(g, old, id)
	return id, nil
}

// replaceMember replaces a static member by its successor.
func (s *Shard) replaceMember(g *group, old *member, id string) {
	target := g.consumer().target[old.id]
	current := format.Current{State: int8(old.state), Assigned: old.assigned.recorded(), Revoking: old.revoking.recorded()}
	meta := old.meta
	s.removeConsumer(g, old)
	key := format.Key{Type: format.TypeMember, Group: g.id, Item: id}
	s.emit(key, meta)
	key.Type = format.TypeTarget
	s.emit(key, targetRecord(target))
	key.Type = format.TypeCurrent
	s.emit(key, current)
}

// checkEpoch fences a member with the wrong epoch. The previous epoch is accepted if the member's
// partitions match, because the response with the new epoch may have been lost.
func (m *member) checkEpoch(req *kmsg.ConsumerGroupHeartbeatRequest) *failure {
	switch {
	case req.MemberEpoch > m.epoch:
		return fail(kerr.FencedMemberEpoch, "The consumer group member has a greater member epoch (%d) "+
			"than the one known by the group coordinator (%d). "+
			"The member must abandon all its partitions and rejoin.", req.MemberEpoch, m.epoch)
	case req.MemberEpoch < m.epoch && (req.MemberEpoch != m.previous || !m.has(req.Topics)):
		return fail(kerr.FencedMemberEpoch, "The consumer group member has a smaller member epoch (%d) "+
			"than the one known by the group coordinator (%d). "+
			"The member must abandon all its partitions and rejoin.", req.MemberEpoch, m.epoch)
	}
	return nil
}

// has reports whether all of topics' partitions are assigned to the member. It returns false if
// topics is nil.
func (m *member) has(topics []kmsg.ConsumerGroupHeartbeatRequestTopic) bool {
	if topics == nil {
		return false
	}
	for _, t := range topics {
		for _, p := range t.Partitions {
			if _, ok := m.assigned[t.TopicID][p]; !ok {
				return false
			}
		}
	}
	return true
}
