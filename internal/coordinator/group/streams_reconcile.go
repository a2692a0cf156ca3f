package group

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/coordinator/group/topology"
)

// reconcileTasks moves a member one step closer to its target.
func (s *Shard) reconcileTasks(g *group, m *streamsMember, req *kmsg.StreamsGroupHeartbeatRequest) {
	c := g.streams()
	if m.state == tasksStable && m.epoch == c.goal() {
		return
	}
	epoch := m.epoch
	if m.state == tasksUnrevoked {
		if stillRuns(req, m.revoking) {
			return
		}
		// The revocation is complete. It gets an epoch of its own, even if a newer target requires
		// further revocations.
		epoch++
	}
	next := c.step(m, epoch, req)
	if next.epoch == m.epoch && next.state == m.state && next.assigned.equal(m.assigned) && next.revoking.equal(m.revoking) {
		return
	}
	if next.epoch != m.epoch {
		next.previous = m.epoch
	}
	s.emit(format.Key{Type: format.TypeStreamsCurrent, Group: g.id, Item: m.id}, format.StreamsCurrent{Epoch: next.epoch,
		Previous: next.previous, State: next.state, Assigned: next.assigned.recorded(), Revoking: next.revoking.recorded()})
	s.timeTasks(g, m)
}

// timeTasks starts the rebalance timeout of a member that must revoke tasks.
func (s *Shard) timeTasks(g *group, m *streamsMember) {
	if m.state == tasksUnrevoked {
		s.setTimer(timerRebalance, g.id, m.id, millis(m.meta.RebalanceTimeout))
		return
	}
	s.cancelTimer(timerRebalance, g.id, m.id)
}

// step returns the next state of a member.
//
//	to revoke       = assigned − target: the member stays in its epoch until it has
//	to be assigned  = target − assigned, if the task is free: the member gets the target's epoch
//	not released    = target − assigned, owned by others: the member waits, in the target's epoch
func (c *streams) step(m *streamsMember, epoch int32, req *kmsg.StreamsGroupHeartbeatRequest) streamsMember {
	next, target := *m, c.target[m.id]
	next.epoch, next.assigned, next.revoking = epoch, newHeld(), newHeld()
	for t, since := range m.assigned.active {
		if contained(target.Active, t) {
			next.assigned.active[t] = since
		} else {
			next.revoking.active[t] = since
		}
	}
	for t := range m.assigned.standby {
		if contained(target.Standby, t) {
			next.assigned.standby[t] = struct{}{}
		} else {
			next.revoking.standby[t] = struct{}{}
		}
	}
	if next.revoking.count() > 0 && stillRuns(req, next.revoking) {
		next.state = tasksUnrevoked
		return next
	}
	next.revoking, next.epoch, next.state = newHeld(), c.goal(), tasksStable
	for _, t := range target.Active {
		if _, has := next.assigned.active[t]; has {
			continue
		}
		if !c.free(m, t, true) {
			next.state = tasksUnreleased
			continue
		}
		next.assigned.active[t] = c.goal()
	}
	for _, t := range target.Standby {
		if _, has := next.assigned.standby[t]; has {
			continue
		}
		if !c.free(m, t, false) {
			next.state = tasksUnreleased
			continue
		}
		next.assigned.standby[t] = struct{}{}
	}
	return next
}

func newHeld() held {
	return held{active: map[assign.Task]int32{}, standby: map[assign.Task]struct{}{}}
}

func contained(sorted []assign.Task, t assign.Task) bool {
	_, is := slices.BinarySearchFunc(sorted, t, assign.Task.Compare)
	return is
}

// stillRuns reports whether a member still runs any task in of, according to its request. A request
// without tasks does not tell, so the member may.
func stillRuns(req *kmsg.StreamsGroupHeartbeatRequest, of held) bool {
	if req.ActiveTasks == nil {
		return true
	}
	runs := func(list []kmsg.TaskIDs, has func(assign.Task) bool) bool {
		for _, g := range list {
			for _, p := range g.Partitions {
				if has(assign.Task{Subtopology: g.SubtopologyID, Partition: p}) {
					return true
				}
			}
		}
		return false
	}
	return runs(req.ActiveTasks, of.hasActive) || runs(req.StandbyTasks, of.hasStandby)
}

func (h held) hasActive(t assign.Task) bool {
	_, has := h.active[t]
	return has
}

func (h held) hasStandby(t assign.Task) bool {
	_, has := h.standby[t]
	return has
}

// has reports whether all tasks that a member reports are assigned to it. It returns false if the
// request has no tasks.
func (m *streamsMember) has(req *kmsg.StreamsGroupHeartbeatRequest) bool {
	if req.ActiveTasks == nil {
		return false
	}
	all := func(list []kmsg.TaskIDs, has func(assign.Task) bool) bool {
		for _, g := range list {
			for _, p := range g.Partitions {
				if !has(assign.Task{Subtopology: g.SubtopologyID, Partition: p}) {
					return false
				}
			}
		}
		return true
	}
	return all(req.ActiveTasks, m.assigned.hasActive) && all(req.StandbyTasks, m.assigned.hasStandby)
}

// mayNotKnow reports whether a member lacks tasks, according to its request: the response that had
// them may have been lost.
func (m *streamsMember) mayNotKnow(req *kmsg.StreamsGroupHeartbeatRequest) bool {
	if req.ActiveTasks == nil {
		return false
	}
	return !includes(req.ActiveTasks, m.assigned.active) || !includes(req.StandbyTasks, m.assigned.standby)
}

// includes reports whether a list of tasks has all tasks of a set.
func includes[V any](list []kmsg.TaskIDs, all map[assign.Task]V) bool {
	has := map[assign.Task]struct{}{}
	for _, g := range list {
		for _, p := range g.Partitions {
			t := assign.Task{Subtopology: g.SubtopologyID, Partition: p}
			if _, is := all[t]; is {
				has[t] = struct{}{}
			}
		}
	}
	return len(has) == len(all)
}

// given reports whether a member owns a task, or is revoking it, in whatever role.
func (m *streamsMember) given(t assign.Task) bool {
	return m.assigned.hasActive(t) || m.assigned.hasStandby(t) || m.revoking.hasActive(t) || m.revoking.hasStandby(t)
}

// joinedMeta returns a member's metadata after a heartbeat: null fields stay unchanged.
func joinedMeta(m format.StreamsMember, e Request, req *kmsg.StreamsGroupHeartbeatRequest) format.StreamsMember {
	m.ClientID, m.ClientHost = e.ClientID, e.ClientHost
	if req.RackID != nil {
		m.Rack = req.RackID
	}
	if req.RebalanceTimeoutMillis != -1 {
		m.RebalanceTimeout = req.RebalanceTimeoutMillis
	}
	if req.Topology != nil {
		m.TopologyEpoch = req.Topology.Epoch
	}
	if req.ProcessID != nil {
		m.Process = *req.ProcessID
	}
	if req.UserEndpoint != nil {
		m.Endpoint = &format.Endpoint{Host: req.UserEndpoint.Host, Port: req.UserEndpoint.Port}
	}
	if req.ClientTags != nil {
		m.Tags = nil
		for _, t := range req.ClientTags {
			m.Tags = append(m.Tags, format.KeyValue{Key: t.Key, Value: t.Value})
		}
	}
	return m
}

// sameStreamsMember reports whether two versions of a member's metadata are equal.
func sameStreamsMember(a, b *format.StreamsMember) bool {
	endpoint := a.Endpoint == b.Endpoint || a.Endpoint != nil && b.Endpoint != nil && *a.Endpoint == *b.Endpoint
	return endpoint && same(a.Instance, b.Instance) && same(a.Rack, b.Rack) && a.ClientID == b.ClientID &&
		a.ClientHost == b.ClientHost && a.RebalanceTimeout == b.RebalanceTimeout && a.TopologyEpoch == b.TopologyEpoch &&
		a.Process == b.Process && slices.Equal(a.Tags, b.Tags)
}

// statuses returns what a member should know about the group, in Kafka's order.
func (c *streams) statuses(m *streamsMember, delayed string, p *topology.Problem) (list []kmsg.StreamsGroupHeartbeatResponseStatus) {
	add := func(code int8, detail string) {
		list = append(list, kmsg.StreamsGroupHeartbeatResponseStatus{StatusCode: code, StatusDetail: detail})
	}
	if m.meta.TopologyEpoch < c.topology.Epoch {
		add(statusStale, fmt.Sprintf("The member's topology epoch %d is behind the group's topology epoch %d.",
			m.meta.TopologyEpoch, c.topology.Epoch))
	}
	if delayed != "" {
		add(statusDelayed, delayed)
	}
	if p != nil {
		add(p.Code, p.Detail)
	}
	if c.shutdown != "" {
		add(statusShutdown, fmt.Sprintf("Streams group member %s encountered a fatal error and requested a shutdown for the entire application.",
			c.shutdown))
	}
	return list
}

func taskIDs(list []assign.Task) []kmsg.TaskIDs {
	ids := []kmsg.TaskIDs{}
	for _, g := range bySubtopology(list) {
		t := kmsg.NewTaskIDs()
		t.SubtopologyID, t.Partitions = g.Subtopology, g.Partitions
		ids = append(ids, t)
	}
	return ids
}

// endpointsOf returns which partitions of visible topics the members with an endpoint for
// interactive queries have.
func (s *Shard) endpointsOf(c *streams, visible func(topic string) bool) []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint {
	list := []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint{}
	for _, m := range c.list() {
		if m.meta.Endpoint == nil {
			continue
		}
		e := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpoint()
		e.UserEndpoint.Host, e.UserEndpoint.Port = m.meta.Endpoint.Host, m.meta.Endpoint.Port
		t := m.assigned.tasks()
		active, standby := s.partitionsOf(c, t.Active), s.partitionsOf(c, t.Standby)
		for _, list := range []map[string][]int32{active, standby} {
			maps.DeleteFunc(list, func(topic string, _ []int32) bool { return !visible(topic) })
		}
		for _, topic := range slices.Sorted(maps.Keys(active)) {
			e.ActivePartitions = append(e.ActivePartitions,
				kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition{Topic: topic, Partitions: active[topic]})
		}
		for _, topic := range slices.Sorted(maps.Keys(standby)) {
			e.StandbyPartitions = append(e.StandbyPartitions,
				kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpointStandbyPartition{Topic: topic, Partitions: standby[topic]})
		}
		list = append(list, e)
	}
	return list
}

// partitionsOf returns the existing partitions that tasks read, by topic.
func (s *Shard) partitionsOf(c *streams, tasks []assign.Task) map[string][]int32 {
	sources := map[string][]string{}
	for _, sub := range s.configure(c).Subtopologies {
		sources[sub.ID] = sub.Sources
	}
	partitions := map[string][]int32{}
	for _, t := range tasks {
		for _, name := range sources[t.Subtopology] {
			if topic, exists := s.topics.ByName(name); exists && t.Partition < topic.Partitions {
				partitions[name] = append(partitions[name], t.Partition)
			}
		}
	}
	for name, list := range partitions {
		slices.Sort(list)
		partitions[name] = slices.Compact(list)
	}
	return partitions
}
