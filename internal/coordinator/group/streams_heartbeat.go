package group

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/coordinator/group/topology"
)

// StreamsHeartbeat is the response to a StreamsGroupHeartbeat.
type StreamsHeartbeat struct {
	Response *kmsg.StreamsGroupHeartbeatResponse
	// Create are internal topics of the application that do not exist. The broker creates them if
	// the member may; members get their tasks when all exist.
	Create []InternalTopic
}

// InternalTopic is a topic that the broker creates for an application.
type InternalTopic = format.InternalTopic

// MissingBecause adds to the status that internal topics are missing why they were not created.
func (b *StreamsHeartbeat) MissingBecause(why string) {
	for i := range b.Response.Status {
		if s := &b.Response.Status[i]; s.StatusCode == topology.MissingInternal {
			s.StatusDetail += "; " + why
		}
	}
}

// The status codes of StreamsGroupHeartbeat that topology.Problem does not have.
const (
	statusStale    int8 = 0
	statusShutdown int8 = 4
	statusDelayed  int8 = 5
)

// taskOffsetInterval is how often members send the offsets of their tasks, in milliseconds, as in
// Kafka 4.4. Only warm-up tasks need them, which this coordinator does not assign, so it ignores
// them: its answer has no lag at which a task counts as warmed up.
const taskOffsetInterval = 60_000

// streamsHeartbeat answers a StreamsGroupHeartbeat: a member joins, stays, or leaves.
func (s *Shard) streamsHeartbeat(to coordinator.Ticket, e Request, req *kmsg.StreamsGroupHeartbeatRequest) {
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.Version, resp.Status = req.Version, []kmsg.StreamsGroupHeartbeatResponseStatus{}
	answer := &StreamsHeartbeat{Response: resp}
	f := s.checkStreams(req)
	switch {
	case f != nil:
	case s.topicsUnknown():
		f = refuse(kerr.CoordinatorLoadInProgress)
	case req.MemberEpoch < 0:
		f = s.leaveStreams(req, resp)
	default:
		f = s.acceptStreams(e, req, answer)
	}
	if f != nil {
		resp.ErrorCode, resp.ErrorMessage = f.errorCode(), f.message()
	}
	s.out.Reply(to, answer)
}

func (s *Shard) checkStreams(req *kmsg.StreamsGroupHeartbeatRequest) *failure {
	invalid := func(msg string) *failure { return fail(kerr.InvalidRequest, "%s", msg) }
	none := func(list []kmsg.TaskIDs) bool { return len(list) == 0 }
	switch {
	case strings.TrimSpace(req.MemberID) == "":
		return invalid("MemberId can't be empty.")
	case strings.TrimSpace(req.Group) == "":
		return invalid("GroupId can't be empty.")
	case req.InstanceID != nil:
		return invalid("Static membership is not yet supported.") // nor in Kafka 4.4
	case req.RackID != nil && strings.TrimSpace(*req.RackID) == "":
		return invalid("RackId can't be empty.")
	case req.MemberEpoch == epochStaticLeave:
		return invalid("InstanceId can't be null.")
	case req.MemberEpoch < epochStaticLeave:
		return fail(kerr.InvalidRequest, "MemberEpoch is %d, but must be greater than or equal to -2.", req.MemberEpoch)
	case !none(req.WarmupTasks):
		return invalid("WarmupTasks are not supported yet.")
	case streamsSize(req) > s.cfg.MaxRequest:
		return fail(kerr.InvalidRequest, "The topology and the tags have more than %d bytes in all.", s.cfg.MaxRequest)
	case req.MemberEpoch == epochJoin:
		return checkFirstStreams(req)
	case req.Topology != nil:
		return invalid("Topology can only be provided when (re-)joining.")
	case req.ActiveTasks != nil && (req.StandbyTasks == nil || req.WarmupTasks == nil),
		req.ActiveTasks == nil && (req.StandbyTasks != nil || req.WarmupTasks != nil):
		return invalid("If one task-type is non-null, all must be non-null.")
	}
	return nil
}

// checkFirstStreams checks the fields that are required when a member joins.
func checkFirstStreams(req *kmsg.StreamsGroupHeartbeatRequest) *failure {
	invalid := func(msg string) *failure { return fail(kerr.InvalidRequest, "%s", msg) }
	joins := func(list []kmsg.TaskIDs) bool { return list != nil && len(list) == 0 }
	switch {
	case req.RebalanceTimeoutMillis == -1:
		return invalid("RebalanceTimeoutMs must be provided in first request.")
	case !joins(req.ActiveTasks):
		return invalid("ActiveTasks must be empty when (re-)joining.")
	case !joins(req.StandbyTasks):
		return invalid("StandbyTasks must be empty when (re-)joining.")
	case !joins(req.WarmupTasks):
		return invalid("WarmupTasks must be empty when (re-)joining.")
	case req.Topology == nil:
		return invalid("Topology must be non-null when (re-)joining.")
	}
	for i := range req.Topology.Subtopologies {
		if len(req.Topology.Subtopologies[i].SourceTopicRegex) > 0 {
			return invalid("Regular expressions for source topics are not supported yet.")
		}
	}
	return nil
}

// streamsSize returns the approximate size of what a member sends and the coordinator keeps.
func streamsSize(req *kmsg.StreamsGroupHeartbeatRequest) int {
	n := 0
	for _, t := range req.ClientTags {
		n += len(t.Key) + len(t.Value)
	}
	if req.UserEndpoint != nil {
		n += len(req.UserEndpoint.Host)
	}
	if req.Topology != nil {
		t := recordedTopology(req.Topology)
		n += len(t.Encode())
	}
	return n
}

// acceptStreams handles a heartbeat of a member that joins or stays.
func (s *Shard) acceptStreams(e Request, req *kmsg.StreamsGroupHeartbeatRequest, answer *StreamsHeartbeat) *failure {
	joins := req.MemberEpoch == epochJoin
	if joins && !s.hasMemory(s.joinStreamsWeight(e, req)) {
		return fail(kerr.CoordinatorLoadInProgress, "The memory limit for group members is reached; try again later.")
	}
	g, f := s.streamsFor(req)
	if f != nil {
		return f
	}
	c := g.streams()
	was := streamsMember{}
	if m := c.members[req.MemberID]; m != nil {
		was = *m
		if f := m.checkTasksEpoch(req); f != nil && !joins {
			return f
		}
	} else if !joins {
		return fail(kerr.UnknownMemberID, "Member %s is not a member of group %s.", req.MemberID, req.Group)
	}
	if c.topology == nil && req.Topology == nil { // its record is missing; the member joins again and sends it
		return fail(kerr.UnknownMemberID, "The topology of group %s is not known.", req.Group)
	}
	if f := s.checkTasks(c, &was, req); f != nil {
		return f
	}
	s.initTopology(g, req)
	if c.empty() && s.timesOf(g).Streams.InitialDelay > 0 {
		c.waiting = true
		s.setTimer(timerTarget, g.id, "", s.timesOf(g).Streams.InitialDelay)
	}
	s.bumpStreams(g, s.updateStreamsMember(g, e, req))
	delayed := s.updateTasks(g)
	m := c.members[req.MemberID]
	s.reconcileTasks(g, m, req)
	s.setTimer(timerSession, g.id, m.id, s.timesOf(g).Streams.Session)
	if req.ShutdownApplication {
		c.shutdown = m.id
	}
	s.respondStreams(g, m, e, req, answer.Response, joins || !was.assigned.equal(m.assigned) || m.mayNotKnow(req))
	problem := s.configure(c).Problem
	if answer.Create = s.configure(c).Create; problem != nil && !c.namesOnly(s.visible(e.Viewer)) {
		problem, answer.Create = &topology.Problem{Code: problem.Code, Detail: hiddenProblem}, nil
	}
	answer.Response.Status = append(answer.Response.Status, c.statuses(m, delayed, problem)...)
	return nil
}

// joinStreamsWeight returns the memory that a member that joins will occupy in addition.
func (s *Shard) joinStreamsWeight(e Request, req *kmsg.StreamsGroupHeartbeatRequest) int {
	meta := joinedMeta(format.StreamsMember{}, e, req)
	n := streamsWeight(req.MemberID, &meta)
	g := s.groups[req.Group]
	if g == nil || g.streams() == nil || g.streams().topology == nil {
		t := recordedTopology(req.Topology)
		n += topologyWeight(&t)
	}
	return n - g.memoryOf(req.MemberID)
}

// streamsFor returns the streams group of a heartbeat. If the member joins and there is no such
// group, streamsFor creates one, or converts a classic group without members.
func (s *Shard) streamsFor(req *kmsg.StreamsGroupHeartbeatRequest) (*group, *failure) {
	g, joins := s.groups[req.Group], req.MemberEpoch == epochJoin
	full := fail(kerr.GroupMaxSizeReached, "The streams group has reached its maximum capacity of %d members.", s.cfg.StreamsMaxSize)
	var c *streams
	if g != nil {
		c = g.streams()
	}
	switch {
	case g == nil && !joins:
		return nil, fail(kerr.GroupIDNotFound, "Streams group %s not found.", req.Group)
	case g != nil && c == nil && (!joins || g.classic() == nil || !g.kind.empty()):
		return nil, fail(kerr.GroupIDNotFound, "Group %s is not a streams group.", req.Group)
	case !joins:
		return g, nil
	case c == nil && s.cfg.StreamsMaxSize <= 0:
		return nil, full
	case c != nil && c.members[req.MemberID] == nil && len(c.members) >= s.cfg.StreamsMaxSize:
		return nil, full
	}
	if f := c.checkTopology(req.Topology); f != nil || c != nil {
		return g, f
	}
	if g != nil {
		s.forgetPending(g)
		if g.classic().recorded {
			s.emit(format.Key{Type: format.TypeClassicGroup, Group: g.id}, nil)
		}
	}
	g = s.group(req.Group)
	g.kind = newStreams()
	return g, nil
}

// checkTasks checks that the tasks that a member reports exist. Those that it was given may have
// gone with a topic that was deleted and created with fewer partitions.
func (s *Shard) checkTasks(c *streams, m *streamsMember, req *kmsg.StreamsGroupHeartbeatRequest) *failure {
	if c.topology == nil || s.configure(c).Problem != nil {
		return nil
	}
	tasks := map[string]int32{}
	for _, sub := range s.configure(c).Subtopologies {
		tasks[sub.ID] = sub.Tasks
	}
	for _, list := range [][]kmsg.TaskIDs{req.ActiveTasks, req.StandbyTasks} {
		for _, t := range list {
			n, known := tasks[t.SubtopologyID]
			if !known {
				return fail(kerr.InvalidRequest, "Subtopology %s does not exist in the topology.", t.SubtopologyID)
			}
			for _, p := range t.Partitions {
				if (p < 0 || p >= n) && !m.given(assign.Task{Subtopology: t.SubtopologyID, Partition: p}) {
					return fail(kerr.InvalidRequest, "Task %d for subtopology %s is invalid. Number of tasks for this subtopology: %d",
						p, t.SubtopologyID, n)
				}
			}
		}
	}
	return nil
}

// checkTasksEpoch fences a member with the wrong epoch. The previous epoch is accepted if the
// member's tasks match, because the response with the new epoch may have been lost.
func (m *streamsMember) checkTasksEpoch(req *kmsg.StreamsGroupHeartbeatRequest) *failure {
	var size string
	switch {
	case req.MemberEpoch > m.epoch:
		size = "greater"
	case req.MemberEpoch < m.epoch && (req.MemberEpoch != m.previous || !m.has(req)):
		size = "smaller"
	default:
		return nil
	}
	return fail(kerr.FencedMemberEpoch, "The streams group member has a %s member epoch (%d) "+
		"than the one known by the group coordinator (%d). "+
		"The member must abandon all its partitions and rejoin.", size, req.MemberEpoch, m.epoch)
}

// updateStreamsMember records a member's metadata, and reports whether its tasks may have to
// change.
func (s *Shard) updateStreamsMember(g *group, e Request, req *kmsg.StreamsGroupHeartbeatRequest) (bump bool) {
	c := g.streams()
	m := c.members[req.MemberID]
	old := format.StreamsMember{RebalanceTimeout: -1}
	if m != nil {
		old = m.meta
	}
	meta := joinedMeta(old, e, req)
	if m != nil && sameStreamsMember(&old, &meta) {
		return false
	}
	s.emit(format.Key{Type: format.TypeStreamsMember, Group: g.id, Item: req.MemberID}, meta)
	if meta.Endpoint != nil && (old.Endpoint == nil || *old.Endpoint != *meta.Endpoint) {
		c.endpoints++
	}
	return m == nil || old.Process != meta.Process || old.TopologyEpoch != meta.TopologyEpoch
}

// respondStreams fills in what a member must know, its tasks only if it may not know them.
func (s *Shard) respondStreams(g *group, m *streamsMember, e Request, req *kmsg.StreamsGroupHeartbeatRequest,
	resp *kmsg.StreamsGroupHeartbeatResponse, withTasks bool) {
	c := g.streams()
	resp.MemberID, resp.MemberEpoch = m.id, m.epoch
	resp.HeartbeatIntervalMillis = int32(s.timesOf(g).Streams.Heartbeat / time.Millisecond)
	resp.TaskOffsetIntervalMillis = taskOffsetInterval
	if withTasks {
		t := m.assigned.tasks()
		resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = taskIDs(t.Active), taskIDs(t.Standby), []kmsg.TaskIDs{}
		if m.meta.Endpoint != nil {
			c.endpoints++
		}
	}
	resp.EndpointInformationEpoch = c.endpoints
	if req.EndpointInformationEpoch != c.endpoints {
		resp.PartitionsByUserEndpoint = s.endpointsOf(c, s.visible(e.Viewer))
	}
}

// leaveStreams removes a member that leaves.
func (s *Shard) leaveStreams(req *kmsg.StreamsGroupHeartbeatRequest, resp *kmsg.StreamsGroupHeartbeatResponse) *failure {
	g := s.groups[req.Group]
	switch {
	case g == nil:
		return fail(kerr.GroupIDNotFound, "Streams group %s not found.", req.Group)
	case g.streams() == nil:
		return fail(kerr.GroupIDNotFound, "Group %s is not a streams group.", req.Group)
	}
	m := g.streams().members[req.MemberID]
	if m == nil {
		return fail(kerr.UnknownMemberID, "Member %s is not a member of group %s.", req.MemberID, req.Group)
	}
	resp.MemberID, resp.MemberEpoch = m.id, req.MemberEpoch
	if req.ShutdownApplication {
		g.streams().shutdown = m.id
	}
	s.removeStreamsMember(g, m)
	return nil
}
