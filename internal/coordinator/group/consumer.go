package group

import (
	"maps"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// consumer is a consumer group (KIP-848).
//
//	group epoch     grows when subscriptions or topics change, or a member leaves
//	target          the assignment computed for a group epoch (targetEpoch)
//	member epoch    grows to targetEpoch once the member has revoked what it must
//
// A member gets a partition only when no other member owns it (owners). The fields before owners
// are replicated; the others are derived from them or volatile.
type consumer struct {
	epoch       int32
	hash        int64 // of the subscribed topics' metadata
	members     map[string]*member
	static      map[string]string // member ids by instance
	targetEpoch int32
	targetTime  int64 // ms since 1970 when the target was computed
	target      map[string]assign.Assignment
	regexes     map[string]format.Regex

	// owners has the member that owns or is revoking each partition. It is derived from the
	// members.
	owners map[assign.TopicID]map[int32]string

	bytes int // memory for members, targets and expressions
	// targetCost is the number of members and partitions of the last target, 0 if not known.
	targetCost int
	dirty      bool // topics may have changed
	// unresolved: members may have expressions without recorded matches.
	unresolved bool
	topic      map[string]struct{} // cache of subscribed; nil: to be computed
}

func newConsumer() *consumer {
	return &consumer{members: map[string]*member{}, static: map[string]string{}, target: map[string]assign.Assignment{},
		regexes: map[string]format.Regex{}, owners: map[assign.TopicID]map[int32]string{}}
}

// memberState is the recorded progress of a member towards its target.
type memberState int8

const (
	memberStable     memberState = 0 // has the target of its epoch
	memberUnrevoked  memberState = 1 // must revoke partitions first, and stays in its epoch
	memberUnreleased memberState = 2 // waits for partitions that other members must revoke
)

// Special epochs in members' requests.
const (
	epochJoin        int32 = 0
	epochLeave       int32 = -1
	epochStaticLeave int32 = -2 // a static member that will return
)

// member is a member of a consumer group. Its maps are replaced, never modified.
type member struct {
	id              string
	meta            format.Member
	epoch, previous int32
	state           memberState
	assigned        owned
	revoking        owned

	bytes  int       // memory for meta
	joinBy time.Time // volatile: deadline of a classic member that must rejoin
}

// owned maps partitions to the member epoch in which the member got them.
type owned map[assign.TopicID]map[int32]int32

func (m *member) instance() string { return deref(m.meta.Instance) }

// classic reports whether the member uses the classic protocol.
func (m *member) classic() bool { return m.meta.Classic != nil }

// reconciled reports whether the member has reached the target of an epoch.
func (m *member) reconciled(epoch int32) bool { return m.state == memberStable && m.epoch == epoch }

// apply applies a record that is not a tombstone. item is the part of the key after the group.
func (c *consumer) apply(item string, v value) {
	switch v := v.(type) {
	case format.Group:
		c.epoch, c.hash = v.Epoch, v.Hash
	case format.TargetEpoch:
		c.targetEpoch, c.targetTime = v.Epoch, v.Time
	case format.Member:
		m := c.member(item)
		c.forgetInstance(m)
		m.meta, c.topic = v, nil
		n := metaWeight(item, v)
		c.bytes += n - m.bytes
		m.bytes = n
		if i := m.instance(); i != "" {
			c.static[i] = item
		}
	case format.Target:
		a := make(assign.Assignment, len(v))
		for _, t := range v {
			a[t.ID] = slices.Sorted(slices.Values(t.Partitions))
		}
		c.bytes += targetWeight * (a.Count() - c.target[item].Count())
		c.target[item] = a
	case format.Current:
		m := c.member(item)
		c.release(m)
		m.epoch, m.previous, m.state = v.Epoch, v.Previous, memberState(v.State)
		m.assigned, m.revoking = ownedOf(v.Assigned, v.Epoch), ownedOf(v.Revoking, v.Epoch)
		c.claim(m)
	case format.Regex:
		c.forgetRegex(item)
		c.regexes[item], c.topic = v, nil
		c.bytes += regexWeight(item, v)
	}
}

func (c *consumer) applyTombstone(k format.Key) {
	switch k.Type {
	case format.TypeTargetEpoch:
		c.targetEpoch, c.targetTime = 0, 0
	case format.TypeTarget:
		c.bytes -= targetWeight * c.target[k.Item].Count()
		delete(c.target, k.Item)
	case format.TypeRegex:
		c.forgetRegex(k.Item)
	case format.TypeMember:
		if m := c.members[k.Item]; m != nil {
			c.release(m)
			c.forgetInstance(m)
			delete(c.members, k.Item)
			c.topic = nil
			c.bytes -= m.bytes
		}
	case format.TypeCurrent:
		if m := c.members[k.Item]; m != nil {
			c.release(m)
			m.epoch, m.previous, m.state, m.assigned, m.revoking = epochLeave, epochLeave, memberStable, nil, nil
		}
	}
}

// member returns a member, creating it if needed.
func (c *consumer) member(id string) *member {
	m := c.members[id]
	if m == nil {
		m = &member{id: id}
		c.members[id] = m
	}
	return m
}

func (c *consumer) forgetInstance(m *member) {
	if i := m.instance(); i != "" && c.static[i] == m.id {
		delete(c.static, i)
	}
}

// forgetRegex removes an expression, if it is known.
func (c *consumer) forgetRegex(expression string) {
	if old, known := c.regexes[expression]; known {
		c.bytes -= regexWeight(expression, old)
		delete(c.regexes, expression)
		c.topic = nil
	}
}

// claim makes a member the owner of its partitions; release undoes that.
func (c *consumer) claim(m *member) {
	c.bytes += partitionWeight * (m.assigned.count() + m.revoking.count())
	for _, o := range []owned{m.assigned, m.revoking} {
		for id, list := range o {
			if c.owners[id] == nil {
				c.owners[id] = map[int32]string{}
			}
			for p := range list {
				c.owners[id][p] = m.id
			}
		}
	}
}

func (c *consumer) release(m *member) {
	c.bytes -= partitionWeight * (m.assigned.count() + m.revoking.count())
	for _, o := range []owned{m.assigned, m.revoking} {
		for id, list := range o {
			for p := range list {
				if c.owners[id][p] == m.id {
					delete(c.owners[id], p)
				}
			}
			if len(c.owners[id]) == 0 {
				delete(c.owners, id)
			}
		}
	}
}

// subscribed returns the names of all topics to which members subscribe, whether or not they exist.
// The map must not be modified.
func (c *consumer) subscribed() map[string]struct{} {
	if c.topic == nil {
		c.topic = map[string]struct{}{}
		for _, m := range c.members {
			for _, t := range m.meta.Topics {
				c.topic[t] = struct{}{}
			}
			if m.meta.Regex != nil {
				for _, t := range c.regexes[*m.meta.Regex].Topics {
					c.topic[t] = struct{}{}
				}
			}
		}
	}
	return c.topic
}

// list returns the members, sorted by id.
func (c *consumer) list() []*member {
	list := make([]*member, 0, len(c.members))
	for _, id := range slices.Sorted(maps.Keys(c.members)) {
		list = append(list, c.members[id])
	}
	return list
}

// stateName returns the state that clients are shown.
func (c *consumer) stateName() string {
	switch {
	case len(c.members) == 0:
		return "Empty"
	case c.epoch > c.targetEpoch:
		return "Assigning"
	}
	for _, m := range c.members {
		if !m.reconciled(c.targetEpoch) {
			return "Reconciling"
		}
	}
	return "Stable"
}

// ownedOf decodes an assignment; epoch is used for partitions without a recorded one.
func ownedOf(list []format.TopicPartitions, epoch int32) owned {
	if len(list) == 0 {
		return nil
	}
	o := make(owned, len(list))
	for _, t := range list {
		if len(t.Partitions) == 0 {
			continue
		}
		by := make(map[int32]int32, len(t.Partitions))
		for i, p := range t.Partitions {
			by[p] = epoch
			if t.Epochs != nil {
				by[p] = t.Epochs[i]
			}
		}
		o[t.ID] = by
	}
	return o
}

// recorded encodes the partitions for a record, sorted.
func (o owned) recorded() []format.TopicPartitions {
	list := make([]format.TopicPartitions, 0, len(o))
	for _, id := range o.assignment().Topics() {
		t := format.TopicPartitions{ID: id, Partitions: slices.Sorted(maps.Keys(o[id]))}
		for _, p := range t.Partitions {
			t.Epochs = append(t.Epochs, o[id][p])
		}
		list = append(list, t)
	}
	return list
}

// assignment returns the partitions without their epochs.
func (o owned) assignment() assign.Assignment {
	a := make(assign.Assignment, len(o))
	for id, list := range o {
		if len(list) > 0 {
			a[id] = slices.Sorted(maps.Keys(list))
		}
	}
	return a
}

func (o owned) equal(p owned) bool {
	return maps.EqualFunc(o, p, maps.Equal[map[int32]int32, map[int32]int32])
}

// count returns the number of partitions.
func (o owned) count() int {
	n := 0
	for _, list := range o {
		n += len(list)
	}
	return n
}

func targetRecord(a assign.Assignment) format.Target {
	t := make(format.Target, 0, len(a))
	for _, id := range a.Topics() {
		t = append(t, format.TopicPartitions{ID: id, Partitions: a[id]})
	}
	return t
}
