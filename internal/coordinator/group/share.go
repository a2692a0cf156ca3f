package group

import (
	"maps"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/sorts"
)

// share is a share group (KIP-932). Epochs are those of a consumer group. Members may share a
// partition, so none waits for another one: a member takes its target at once.
//
// A partition is assigned only when a share coordinator stores a state for it, see states. The
// fields before asked are replicated; the others are derived from them or volatile.
type share struct {
	epoch       int32
	hash        int64 // of the subscribed topics' metadata
	members     map[string]*shareMember
	targetEpoch int32
	targetTime  int64 // ms since 1970 when the target was computed
	target      map[string]assign.Assignment
	states      states

	// asked are the partitions for which a request to a share coordinator has no result. deletes
	// has the topics for which that is a Delete, and whether a part of it has failed.
	asked   map[assign.TopicID]map[int32]struct{}
	deletes map[assign.TopicID]bool
	// added has the first partition that a topic has got since the group reads it: those at or
	// above it begin with their first record, whatever share.auto.offset.reset is. Without that,
	// what was produced to them before the first fetch would be skipped. A new coordinator knows
	// them from the states that are being initialized, and from partitions without a state.
	added map[assign.TopicID]int32
	// failures counts failed requests in a row. waits: the next ones follow when timerShares is
	// due.
	failures int
	waits    bool
	// deletions are the requests to delete the group, which wait for the Delete of the states.
	deletions []deletion
	// alterations and removals are the requests to alter and to delete offsets that wait for share
	// coordinators.
	alterations []*alteration
	removals    []*removal

	bytes    int                 // memory for members, targets and states
	dirty    bool                // topics or states may have changed
	topic    map[string]struct{} // cache of subscribed; nil: to be computed
	searched bool                // all partitions of subscribed topics are in states
}

func newShare() *share {
	return &share{members: map[string]*shareMember{}, target: map[string]assign.Assignment{}, states: newStates(),
		asked: map[assign.TopicID]map[int32]struct{}{}, deletes: map[assign.TopicID]bool{},
		added: map[assign.TopicID]int32{}}
}

// shareMember is a member of a share group. Its assignment is replaced, never modified.
type shareMember struct {
	id              string
	meta            format.ShareMember
	epoch, previous int32
	assigned        assign.Assignment

	bytes int // memory for meta
}

// states are the partitions for which a share coordinator stores a state of the group:
//
//	initializing  recorded before an Initialize is sent, so that it is repeated, and the state is not
//	              forgotten if the group is deleted
//	initialized   the state exists; the partition may be assigned
//	deleting      topics whose states are being deleted, recorded before a Delete is sent
type states struct {
	initializing, initialized map[assign.TopicID]*topicStates
	deleting                  map[assign.TopicID]string // names
}

// topicStates are partitions of a topic.
type topicStates struct {
	name       string
	partitions []int32 // sorted
	// added, of initializing: the partitions from first on were added, see share.added.
	added bool
	first int32
}

func newStates() states {
	return states{initializing: map[assign.TopicID]*topicStates{}, initialized: map[assign.TopicID]*topicStates{},
		deleting: map[assign.TopicID]string{}}
}

func (x *states) empty() bool { return len(x.initializing)+len(x.initialized)+len(x.deleting) == 0 }

// names reports whether a state of a topic exists or may exist, and is not being deleted.
func (x *states) names(id assign.TopicID) bool {
	return x.initializing[id] != nil || x.initialized[id] != nil
}

// unfinished reports whether a request to a share coordinator must be sent or has no result yet.
func (x *states) unfinished() bool { return len(x.initializing)+len(x.deleting) > 0 }

// has reports whether a partition is one of the topic's. The topic may be nil.
func (t *topicStates) has(p int32) bool {
	if t == nil {
		return false
	}
	_, found := slices.BinarySearch(t.partitions, p)
	return found
}

func statesOf(v format.ShareStates) states {
	x := newStates()
	decodeStates(x.initializing, v.Initializing)
	decodeStates(x.initialized, v.Initialized)
	for _, t := range v.Deleting {
		x.deleting[t.ID] = t.Name
	}
	return x
}

func decodeStates(all map[assign.TopicID]*topicStates, list []format.ShareTopic) {
	for _, t := range list {
		if len(t.Partitions) > 0 {
			all[t.ID] = &topicStates{t.Name, slices.Compact(slices.Sorted(slices.Values(t.Partitions))), t.Added, t.First}
		}
	}
}

// recorded encodes the states for a record, sorted.
func (x *states) recorded() (v format.ShareStates) {
	v.Initializing, v.Initialized = recordedStates(x.initializing), recordedStates(x.initialized)
	for id, name := range x.deleting {
		v.Deleting = append(v.Deleting, format.ShareTopic{ID: id, Name: name})
	}
	sorts.Sort(v.Deleting, compareShareTopics)
	return v
}

func recordedStates(all map[assign.TopicID]*topicStates) (list []format.ShareTopic) {
	for id, t := range all {
		list = append(list, format.ShareTopic{ID: id, Name: t.name, Partitions: t.partitions, Added: t.added, First: t.first})
	}
	sorts.Sort(list, compareShareTopics)
	return list
}

func compareShareTopics(a, b format.ShareTopic) int { return slices.Compare(a.ID[:], b.ID[:]) }

// clone returns a deep copy, which may be modified.
func (x *states) clone() states { return statesOf(x.recorded()) }

// put adds a partition to a list of states.
func put(all map[assign.TopicID]*topicStates, id assign.TopicID, name string, p int32) {
	t := all[id]
	if t == nil {
		t = &topicStates{name: name}
		all[id] = t
	}
	if i, found := slices.BinarySearch(t.partitions, p); !found {
		t.partitions = slices.Insert(t.partitions, i, p)
	}
}

// drop removes a partition from a list of states.
func drop(all map[assign.TopicID]*topicStates, id assign.TopicID, p int32) {
	t := all[id]
	if !t.has(p) {
		return
	}
	i, _ := slices.BinarySearch(t.partitions, p)
	if t.partitions = slices.Delete(t.partitions, i, i+1); len(t.partitions) == 0 {
		delete(all, id)
	}
}

// Overheads that are counted in addition to the data: a topic with states, and a partition with
// one.
const (
	stateTopicWeight = 256
	stateWeight      = 64 // also while a request for it is under way
)

func (x *states) weight() (n int) {
	for _, all := range []map[assign.TopicID]*topicStates{x.initializing, x.initialized} {
		for _, t := range all {
			n += stateTopicWeight + len(t.name) + stateWeight*len(t.partitions)
		}
	}
	for _, name := range x.deleting {
		n += stateTopicWeight + len(name)
	}
	return n
}

// apply applies a record that is not a tombstone. item is the part of the key after the group.
func (c *share) apply(item string, v value) {
	switch v := v.(type) {
	case format.Share:
		c.epoch, c.hash = v.Epoch, v.Hash
	case format.TargetEpoch:
		c.targetEpoch, c.targetTime = v.Epoch, v.Time
	case format.ShareMember:
		m := c.member(item)
		m.meta, c.topic, c.searched = v, nil, false
		n := shareWeight(item, &v)
		c.bytes += n - m.bytes
		m.bytes = n
	case format.Target:
		a := assignmentOfTopics(v)
		c.bytes += targetWeight * (a.Count() - c.target[item].Count())
		c.target[item] = a
	case format.ShareCurrent:
		m := c.member(item)
		a := assignmentOfTopics(v.Assigned)
		c.bytes += targetWeight * (a.Count() - m.assigned.Count())
		m.epoch, m.previous, m.assigned = v.Epoch, v.Previous, a
	case format.ShareStates:
		c.bytes -= c.states.weight()
		c.states, c.dirty, c.searched = statesOf(v), true, false
		c.bytes += c.states.weight()
	}
}

func (c *share) applyTombstone(k format.Key) {
	switch k.Type {
	case format.TypeShareEpoch:
		c.targetEpoch, c.targetTime = 0, 0
	case format.TypeShareTarget:
		c.bytes -= targetWeight * c.target[k.Item].Count()
		delete(c.target, k.Item)
	case format.TypeShareMember:
		if m := c.members[k.Item]; m != nil {
			c.bytes -= m.bytes + targetWeight*m.assigned.Count()
			delete(c.members, k.Item)
			c.topic = nil
		}
	case format.TypeShareCurrent:
		if m := c.members[k.Item]; m != nil {
			c.bytes -= targetWeight * m.assigned.Count()
			m.epoch, m.previous, m.assigned = epochLeave, epochLeave, nil
		}
	case format.TypeShareStates:
		c.bytes -= c.states.weight()
		c.states, c.dirty, c.searched = newStates(), true, false
	}
}

// member returns a member, creating it if needed.
func (c *share) member(id string) *shareMember {
	m := c.members[id]
	if m == nil {
		m = &shareMember{id: id}
		c.members[id] = m
	}
	return m
}

// list returns the members, sorted by id.
func (c *share) list() []*shareMember {
	return sorts.Sorted(maps.Values(c.members), func(a, b *shareMember) int { return strings.Compare(a.id, b.id) })
}

// subscribed returns the names of all topics to which members subscribe, whether or not they exist.
// The map must not be modified.
func (c *share) subscribed() map[string]struct{} {
	if c.topic == nil {
		c.topic = map[string]struct{}{}
		for _, m := range c.members {
			for _, t := range m.meta.Topics {
				c.topic[t] = struct{}{}
			}
		}
	}
	return c.topic
}

// goal returns the epoch that members reach. Before the first target it is 1: 0 would make a member
// join again.
func (c *share) goal() int32 { return max(c.targetEpoch, 1) }

func assignmentOfTopics(list []format.TopicPartitions) assign.Assignment {
	a := make(assign.Assignment, len(list))
	for _, t := range list {
		if len(t.Partitions) > 0 {
			a[t.ID] = slices.Sorted(slices.Values(t.Partitions))
		}
	}
	return a
}

func shareWeight(id string, m *format.ShareMember) int {
	return memberWeight + len(m.ClientID) + len(m.ClientHost) + 4*len(id) + len(deref(m.Rack)) + listWeight(m.Topics)
}
