package metadata

import (
	"bytes"
	"maps"
	"slices"
)

// Delta is what differs between two Images. Lists of topics are sorted by id.
type Delta struct {
	Created []*Topic
	Deleted []*Topic // as they were last
	Changed []TopicChange
	// Tombstones are new, Forgotten are gone: no disk has the topic's logs any
	// more.
	Tombstones []*Deleting
	Forgotten  [][16]byte
	// BrokerConfigs names the brokers whose dynamic configs changed,
	// DefaultBroker among them where the common ones did; sorted.
	BrokerConfigs []int32
	// GroupConfigs names the groups whose configs changed; sorted.
	GroupConfigs []string
	// Brokers: a broker registered, changed or left.
	Brokers bool
	// Cluster: the cluster's own facts changed.
	Cluster bool
}

// TopicChange is a topic that exists before and after.
type TopicChange struct {
	Prev, Next *Topic
	// Partitions that are new or differ, ascending. The new ones are those not
	// below Prev.Partitions.Len().
	Partitions []int32
	// Config: the topic's own configs differ.
	Config bool
}

// Empty reports whether nothing differs. A transaction may raise the version
// without changing what an Image shows.
func (d *Delta) Empty() bool {
	return len(d.Created) == 0 && len(d.Deleted) == 0 && len(d.Changed) == 0 && len(d.Tombstones) == 0 &&
		len(d.Forgotten) == 0 && len(d.BrokerConfigs) == 0 && len(d.GroupConfigs) == 0 && !d.Brokers && !d.Cluster
}

// Diff compares two images in full, by the revisions of their parts. It is for
// an applier that lost its place in the history.
func Diff(prev, next *Image) *Delta {
	d := &Delta{Cluster: prev.cluster != next.cluster, Brokers: !slices.Equal(prev.brokers, next.brokers)}
	for _, id := range sortedIDs(prev.byID.all(), next.byID.all()) {
		p, n := prev.TopicByID(id), next.TopicByID(id)
		switch {
		case p == nil:
			d.Created = append(d.Created, n)
		case n == nil:
			d.Deleted = append(d.Deleted, p)
		default:
			d.change(p, n)
		}
	}
	for _, id := range sortedIDs(prev.deleting.all(), next.deleting.all()) {
		p, n := prev.Deleting(id), next.Deleting(id)
		if p == nil {
			d.Tombstones = append(d.Tombstones, n)
		} else if n == nil {
			d.Forgotten = append(d.Forgotten, id)
		}
	}
	ids := map[int32]bool{}
	for _, configs := range []map[int32]brokerConfig{prev.configs, next.configs} {
		for id := range configs {
			if prev.configs[id].revision != next.configs[id].revision {
				ids[id] = true
			}
		}
	}
	d.BrokerConfigs = slices.Sorted(maps.Keys(ids))
	groups := map[string]bool{}
	for _, all := range []func(func(string, brokerConfig) bool){prev.groups.all(), next.groups.all()} {
		for name := range all {
			p, _ := prev.groups.get(name)
			if n, _ := next.groups.get(name); p.revision != n.revision {
				groups[name] = true
			}
		}
	}
	d.GroupConfigs = slices.Sorted(maps.Keys(groups))
	return d
}

// change adds a topic that exists before and after, if it differs.
func (d *Delta) change(p, n *Topic) {
	if p == n {
		return
	}
	c := TopicChange{Prev: p, Next: n, Config: p.ConfigRevision != n.ConfigRevision}
	for i, part := range n.Partitions.All() {
		if old := p.Partitions.At(i); old == nil || old.Revision != part.Revision {
			c.Partitions = append(c.Partitions, i)
		}
	}
	if c.Config || len(c.Partitions) > 0 || p.Revision != n.Revision {
		d.Changed = append(d.Changed, c)
	}
}

// sortedIDs are the keys of two maps together.
func sortedIDs[V any](a, b func(func([16]byte, V) bool)) [][16]byte {
	seen := map[[16]byte]bool{}
	for _, all := range []func(func([16]byte, V) bool){a, b} {
		for id := range all {
			seen[id] = true
		}
	}
	return sortIDs(maps.Keys(seen))
}

func sortIDs(ids func(func([16]byte) bool)) [][16]byte {
	return slices.SortedFunc(ids, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
}
