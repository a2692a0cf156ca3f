package assign

import (
	"cmp"
	"slices"
	"strings"
)

// Task is a task of a streams group (KIP-1071): a subtopology's work on one partition.
type Task struct {
	Subtopology string
	Partition   int32
}

// Compare orders tasks by subtopology and partition.
func (t Task) Compare(u Task) int {
	return cmp.Or(strings.Compare(t.Subtopology, u.Subtopology), cmp.Compare(t.Partition, u.Partition))
}

// byPartition orders tasks by partition first, so that the first tasks of a list belong to all
// subtopologies alike.
func byPartition(t, u Task) int {
	return cmp.Or(cmp.Compare(t.Partition, u.Partition), strings.Compare(t.Subtopology, u.Subtopology))
}

// Tasks are the tasks of a member, each list sorted by Task.Compare.
type Tasks struct{ Active, Standby []Task }

// Equal reports whether two members' tasks are equal.
func (t Tasks) Equal(u Tasks) bool {
	return slices.Equal(t.Active, u.Active) && slices.Equal(t.Standby, u.Standby)
}

// Count returns the number of tasks.
func (t Tasks) Count() int { return len(t.Active) + len(t.Standby) }

// Subtopology is a subtopology as an assignor sees it.
type Subtopology struct {
	ID       string
	Tasks    int32 // numbered from 0
	Stateful bool  // its tasks have standby tasks
}

// TaskMember is a member of a streams group. Members with the same Process share a state directory
// and fail together.
type TaskMember struct {
	ID, Process string
	Previous    Tasks
}

// TaskInput is the input of Sticky, which does not change it.
type TaskInput struct {
	Subtopologies []Subtopology
	Members       []TaskMember // in any order, ids are unique
	Standbys      int          // standby tasks for each task of a stateful subtopology
}

// Sticky assigns each task to one member as an active task, and to Standbys members of other
// processes as a standby task, fewer if there are fewer processes. The number of active tasks of
// two members differs by at most one. A member keeps the active tasks that it had, as far as the
// balance allows. A task that must move goes to a process that has its state, if one has room. It
// returns the tasks of all members, by id. Without members it returns nil.
func Sticky(in TaskInput) map[string]Tasks {
	if len(in.Members) == 0 {
		return nil
	}
	s := newSticky(in)
	s.assignActive()
	s.assignStandby(in.Standbys)
	result := make(map[string]Tasks, len(s.members))
	for _, m := range s.members {
		slices.SortFunc(m.tasks.Active, Task.Compare)
		slices.SortFunc(m.tasks.Standby, Task.Compare)
		result[m.ID] = m.tasks
	}
	return result
}

// TaskAssignor is the name of the assignor of streams groups, as Kafka names it (KIP-1357).
const TaskAssignor = "sticky"

// sticky is one computation.
type sticky struct {
	members []*candidate // by place: members of different processes alternate
	tasks   []Task       // sorted
	exists  map[Task]bool
	state   map[string]bool // stateful subtopologies
	copies  map[Task][]*process
	before  map[Task][]*candidate // members that had a task, active ones first
}

// candidate is a member to which tasks are being assigned.
type candidate struct {
	*TaskMember
	process *process
	tasks   Tasks
}

type process struct{ members []*candidate }

func newSticky(in TaskInput) *sticky {
	s := &sticky{exists: map[Task]bool{}, state: map[string]bool{}, copies: map[Task][]*process{}, before: map[Task][]*candidate{}}
	for _, sub := range in.Subtopologies {
		s.state[sub.ID] = sub.Stateful
		for p := range sub.Tasks {
			t := Task{sub.ID, p}
			s.tasks, s.exists[t] = append(s.tasks, t), true
		}
	}
	slices.SortFunc(s.tasks, Task.Compare)
	processes := map[string]*process{}
	var names []string
	sorted := slices.SortedFunc(slices.Values(in.Members), func(a, b TaskMember) int { return strings.Compare(a.ID, b.ID) })
	for i := range sorted {
		c := &candidate{TaskMember: &sorted[i]}
		if processes[c.Process] == nil {
			processes[c.Process] = &process{}
			names = append(names, c.Process)
		}
		c.process = processes[c.Process]
		c.process.members = append(c.process.members, c)
	}
	for i := 0; len(s.members) < len(sorted); i++ {
		for _, name := range names {
			if p := processes[name]; i < len(p.members) {
				s.members = append(s.members, p.members[i])
			}
		}
	}
	for _, list := range []func(*candidate) []Task{
		func(c *candidate) []Task { return c.Previous.Active }, func(c *candidate) []Task { return c.Previous.Standby },
	} {
		for _, c := range s.members {
			for _, t := range list(c) {
				s.before[t] = append(s.before[t], c)
			}
		}
	}
	return s
}

// assignActive assigns the active tasks in three steps: members keep theirs, processes with the
// state get what they have room for, and the members with the fewest tasks get the rest.
func (s *sticky) assignActive() {
	low, extra := len(s.tasks)/len(s.members), len(s.tasks)%len(s.members)
	taken := map[Task]bool{}
	give := func(c *candidate, t Task) {
		if len(c.tasks.Active) == low {
			extra--
		}
		c.tasks.Active, taken[t] = append(c.tasks.Active, t), true
		s.copies[t] = []*process{c.process}
	}
	room := func(c *candidate) bool { return len(c.tasks.Active) < low || len(c.tasks.Active) == low && extra > 0 }
	for _, most := range []int{low, low + 1} {
		for _, c := range s.members {
			for _, t := range slices.SortedFunc(slices.Values(c.Previous.Active), byPartition) {
				if s.exists[t] && !taken[t] && len(c.tasks.Active) < most && room(c) {
					give(c, t)
				}
			}
		}
	}
	var rest []Task
	for _, t := range s.tasks {
		if taken[t] {
			continue
		}
		if c := s.withState(t, room); c != nil {
			give(c, t)
			continue
		}
		rest = append(rest, t)
	}
	load := func(c *candidate) int { return len(c.tasks.Active) }
	h := newLoads(s.members, load)
	for _, t := range rest {
		c := h.least(func(*candidate) bool { return true })
		give(c, t)
		h.changed(c)
	}
}

// withState returns the member with room and the fewest tasks among the processes that had a
// stateful task; nil if there is none.
func (s *sticky) withState(t Task, room func(*candidate) bool) (best *candidate) {
	if !s.state[t.Subtopology] {
		return nil
	}
	for _, had := range s.before[t] {
		for _, c := range had.process.members {
			if room(c) && (best == nil || len(c.tasks.Active) < len(best.tasks.Active)) {
				best = c
			}
		}
	}
	return best
}

// assignStandby assigns standby tasks: to a member that had the task, unless that has its share of
// all tasks already, otherwise to the member with the fewest tasks.
func (s *sticky) assignStandby(n int) {
	total := len(s.tasks)
	for _, t := range s.tasks {
		if s.state[t.Subtopology] {
			total += n
		}
	}
	share := (total + len(s.members) - 1) / len(s.members)
	load := func(c *candidate) int { return c.tasks.Count() }
	h := newLoads(s.members, load)
	for range n {
		for _, t := range s.tasks {
			if !s.state[t.Subtopology] {
				continue
			}
			free := func(c *candidate) bool { return !slices.Contains(s.copies[t], c.process) }
			var best *candidate
			for _, c := range s.before[t] {
				if free(c) && load(c) < share {
					best = c
					break
				}
			}
			if best == nil {
				best = h.least(free)
			}
			if best == nil {
				continue // every process has the task
			}
			best.tasks.Standby = append(best.tasks.Standby, t)
			s.copies[t] = append(s.copies[t], best.process)
			h.changed(best)
		}
	}
}

// loads finds members with few tasks. Members are in a bucket by their number of tasks; the number
// never falls.
type loads struct {
	load    func(*candidate) int
	buckets [][]*candidate // may still contain members that have more tasks by now
	lowest  int            // the buckets below are empty
}

func newLoads(members []*candidate, load func(*candidate) int) *loads {
	h := &loads{load: load}
	for _, c := range members {
		h.changed(c)
	}
	return h
}

// changed notes the new number of a member's tasks.
func (h *loads) changed(c *candidate) {
	n := h.load(c)
	for len(h.buckets) <= n {
		h.buckets = append(h.buckets, nil)
	}
	h.buckets[n] = append(h.buckets[n], c)
}

// least returns the first accepted member with the fewest tasks, nil if no member is accepted.
func (h *loads) least(accept func(*candidate) bool) *candidate {
	for n := h.lowest; n < len(h.buckets); n++ {
		for len(h.buckets[n]) > 0 && h.load(h.buckets[n][0]) != n {
			h.buckets[n] = h.buckets[n][1:]
		}
		if len(h.buckets[n]) == 0 && n == h.lowest {
			h.lowest++
		}
		for _, c := range h.buckets[n] {
			if h.load(c) == n && accept(c) {
				return c
			}
		}
	}
	return nil
}
