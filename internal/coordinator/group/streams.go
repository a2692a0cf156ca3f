package group

import (
	"maps"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/coordinator/group/topology"
	"github.com/chronik-io/chronik/internal/sorts"
)

// streams is a streams group (KIP-1071): its members run the tasks of a topology. Epochs are those
// of a consumer group.
//
// A member gets an active task only when no other member owns it, and no task that another member
// of its process owns, because both would use the same state directory. The fields before active
// are replicated; the others are derived from them or volatile.
type streams struct {
	epoch       int32
	hash        int64 // of the topology's topics
	validated   int32 // epoch of the topology that was ready, -1: none
	configs     []format.KeyValue
	members     map[string]*streamsMember
	topology    *format.Topology
	targetEpoch int32
	targetTime  int64 // ms since 1970 when the target was computed
	target      map[string]assign.Tasks

	// active has the member that owns or is revoking each active task, standby the members that own
	// or are revoking each standby task. They are derived from the members.
	active  map[assign.Task]string
	standby map[assign.Task][]string

	bytes int // memory for members, targets and the topology
	// configured is the topology applied to the topics; nil: topics or the topology may have
	// changed. topicsHash is the hash of these topics.
	configured *topology.Configured
	topicsHash int64
	// waiting: the group was empty, and waits for more members before it computes a target.
	waiting bool
	// shutdown is the member that asked to shut the application down, "" if none did.
	shutdown string
	// endpoints grows when the tasks of a member with an endpoint change.
	endpoints int32
}

func newStreams() *streams {
	return &streams{validated: -1, members: map[string]*streamsMember{}, target: map[string]assign.Tasks{},
		active: map[assign.Task]string{}, standby: map[assign.Task][]string{}}
}

// The recorded states of members of streams groups, as Kafka numbers them.
const (
	tasksStable     int8 = 1 // has the target of its epoch
	tasksUnrevoked  int8 = 2 // must revoke tasks first, and stays in its epoch
	tasksUnreleased int8 = 3 // waits for tasks that other members must revoke
)

// streamsMember is a member of a streams group. Its held tasks are replaced, never modified.
type streamsMember struct {
	id              string
	meta            format.StreamsMember
	epoch, previous int32
	state           int8
	assigned        held
	revoking        held

	bytes int // memory for meta
}

// held are tasks of a member. Active tasks have the member epoch in which the member got them.
type held struct {
	active  map[assign.Task]int32
	standby map[assign.Task]struct{}
}

func (h held) equal(g held) bool {
	return maps.Equal(h.active, g.active) && maps.Equal(h.standby, g.standby)
}

func (h held) count() int { return len(h.active) + len(h.standby) }

// tasks returns the tasks without their epochs.
func (h held) tasks() assign.Tasks {
	return assign.Tasks{Active: sorts.Sorted(maps.Keys(h.active), assign.Task.Compare),
		Standby: sorts.Sorted(maps.Keys(h.standby), assign.Task.Compare)}
}

func heldOf(l format.TaskLists, epoch int32) held {
	h := held{active: map[assign.Task]int32{}, standby: map[assign.Task]struct{}{}}
	for _, t := range l.Active {
		for i, p := range t.Partitions {
			since := epoch
			if t.Epochs != nil {
				since = t.Epochs[i]
			}
			h.active[assign.Task{Subtopology: t.Subtopology, Partition: p}] = since
		}
	}
	for _, t := range l.Standby {
		for _, p := range t.Partitions {
			h.standby[assign.Task{Subtopology: t.Subtopology, Partition: p}] = struct{}{}
		}
	}
	return h
}

// recorded encodes the tasks for a record, sorted.
func (h held) recorded() format.TaskLists {
	t := h.tasks()
	l := format.TaskLists{Active: bySubtopology(t.Active), Standby: bySubtopology(t.Standby)}
	for i := range l.Active {
		s := &l.Active[i]
		for _, p := range s.Partitions {
			s.Epochs = append(s.Epochs, h.active[assign.Task{Subtopology: s.Subtopology, Partition: p}])
		}
	}
	return l
}

// bySubtopology groups sorted tasks.
func bySubtopology(list []assign.Task) (groups []format.Tasks) {
	for _, t := range list {
		if n := len(groups); n == 0 || groups[n-1].Subtopology != t.Subtopology {
			groups = append(groups, format.Tasks{Subtopology: t.Subtopology})
		}
		last := &groups[len(groups)-1]
		last.Partitions = append(last.Partitions, t.Partition)
	}
	return groups
}

func tasksOf(groups []format.Tasks) (list []assign.Task) {
	for _, g := range groups {
		for _, p := range g.Partitions {
			list = append(list, assign.Task{Subtopology: g.Subtopology, Partition: p})
		}
	}
	sorts.Sort(list, assign.Task.Compare)
	return list
}

// apply applies a record that is not a tombstone. item is the part of the key after the group.
func (c *streams) apply(item string, v value) {
	switch v := v.(type) {
	case format.Streams:
		c.epoch, c.hash, c.validated, c.configs = v.Epoch, v.Hash, v.Validated, v.Configs
	case format.Topology:
		c.bytes += topologyWeight(&v) - topologyWeight(c.topology)
		c.topology, c.configured = &v, nil
	case format.TargetEpoch:
		c.targetEpoch, c.targetTime = v.Epoch, v.Time
	case format.StreamsMember:
		m := c.member(item)
		m.meta = v
		n := streamsWeight(item, &v)
		c.bytes += n - m.bytes
		m.bytes = n
	case format.StreamsTarget:
		t := assign.Tasks{Active: tasksOf(v.Active), Standby: tasksOf(v.Standby)}
		c.bytes += taskWeight * (t.Count() - c.target[item].Count())
		c.target[item] = t
	case format.StreamsCurrent:
		m := c.member(item)
		c.release(m)
		m.epoch, m.previous, m.state = v.Epoch, v.Previous, v.State
		m.assigned, m.revoking = heldOf(v.Assigned, v.Epoch), heldOf(v.Revoking, v.Epoch)
		c.claim(m)
	}
}

func (c *streams) applyTombstone(k format.Key) {
	switch k.Type {
	case format.TypeTopology:
		c.bytes -= topologyWeight(c.topology)
		c.topology, c.configured = nil, nil
	case format.TypeStreamsEpoch:
		c.targetEpoch, c.targetTime = 0, 0
	case format.TypeStreamsTarget:
		c.bytes -= taskWeight * c.target[k.Item].Count()
		delete(c.target, k.Item)
	case format.TypeStreamsMember:
		if m := c.members[k.Item]; m != nil {
			c.release(m)
			delete(c.members, k.Item)
			c.bytes -= m.bytes
		}
	case format.TypeStreamsCurrent:
		if m := c.members[k.Item]; m != nil {
			c.release(m)
			m.epoch, m.previous, m.state, m.assigned, m.revoking = epochLeave, epochLeave, tasksStable, held{}, held{}
		}
	}
}

// member returns a member, creating it if needed.
func (c *streams) member(id string) *streamsMember {
	m := c.members[id]
	if m == nil {
		m = &streamsMember{id: id, state: tasksStable}
		c.members[id] = m
	}
	return m
}

// claim makes a member an owner of its tasks; release undoes that.
func (c *streams) claim(m *streamsMember) {
	c.bytes += partitionWeight * (m.assigned.count() + m.revoking.count())
	for _, h := range []held{m.assigned, m.revoking} {
		for t := range h.active {
			c.active[t] = m.id
		}
		for t := range h.standby {
			c.standby[t] = append(c.standby[t], m.id)
		}
	}
}

func (c *streams) release(m *streamsMember) {
	c.bytes -= partitionWeight * (m.assigned.count() + m.revoking.count())
	for _, h := range []held{m.assigned, m.revoking} {
		for t := range h.active {
			if c.active[t] == m.id {
				delete(c.active, t)
			}
		}
		for t := range h.standby {
			c.standby[t] = slices.DeleteFunc(c.standby[t], func(id string) bool { return id == m.id })
			if len(c.standby[t]) == 0 {
				delete(c.standby, t)
			}
		}
	}
}

// free reports whether a member may get a task: no other member has the active task, and no other
// member of its process has any. What the member itself owns counts as revoked.
func (c *streams) free(m *streamsMember, t assign.Task, active bool) bool {
	sameProcess := func(id string) bool {
		o := c.members[id]
		return o != m && o != nil && o.meta.Process == m.meta.Process
	}
	if owner, owned := c.active[t]; owned && owner != m.id && (active || sameProcess(owner)) {
		return false
	}
	return !slices.ContainsFunc(c.standby[t], sameProcess)
}

// list returns the members, sorted by id.
func (c *streams) list() []*streamsMember {
	return sorts.Sorted(maps.Values(c.members), func(a, b *streamsMember) int { return strings.Compare(a.id, b.id) })
}

// goal returns the epoch that members reach. Before the first target it is 1, as in Kafka: the
// members have joined, and have no tasks.
func (c *streams) goal() int32 { return max(c.targetEpoch, 1) }

// ready reports whether the recorded topology had all its topics.
func (c *streams) ready() bool { return c.topology != nil && c.validated == c.topology.Epoch }
