package metadata

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
)

// Delta is the difference between two Images. Lists of topics are sorted by id.
type Delta struct {
	Created []*Topic
	Deleted []*Topic // in their last state
	Changed []TopicChange
	// Tombstones are new tombstones. Forgotten are removed ones: no disk has the topic's logs
	// anymore.
	Tombstones []*Deleting
	Forgotten  [][16]byte
	// Placements lists the brokers and topics whose placements changed, sorted. The images have the
	// placements of deleted topics until the broker has removed its logs.
	Placements []BrokerTopic
	// Liveness lists the brokers whose liveness was written, sorted. The revision changes even if
	// the state does not.
	Liveness []int32
	// BrokerConfigs lists the brokers whose dynamic configs changed, sorted. DefaultBroker stands
	// for the configs common to all.
	BrokerConfigs []int32
	// GroupConfigs lists the groups whose configs changed, sorted.
	GroupConfigs []string
	// Subscriptions is set if a subscription to metrics of clients was added, changed or removed.
	Subscriptions bool
	// ACLsAdded and ACLsRemoved are the access rules that only one of the images has, sorted by id.
	ACLsAdded, ACLsRemoved []ACL
	// Users lists the users that were added, changed or removed, sorted.
	Users []string
	// Logins is set if Image.Logins changed.
	Logins bool
	// Quotas is set if a quota was added, changed or removed.
	Quotas bool
	// Brokers is set if a broker registered, changed or left.
	Brokers bool
	// Cluster is set if the cluster's own data changed.
	Cluster bool
}

// TopicChange is a topic that exists before and after the change.
type TopicChange struct {
	Prev, Next *Topic
	// Partitions are the new and changed partitions, ascending. New ones are not below
	// Prev.Partitions.Len().
	Partitions []int32
	// Config is set if the topic's own configs changed.
	Config bool
}

// Empty reports whether there is no difference. A transaction may raise the version without a
// visible change.
func (d *Delta) Empty() bool {
	return len(d.Created) == 0 && len(d.Deleted) == 0 && len(d.Changed) == 0 && len(d.Tombstones) == 0 &&
		len(d.Forgotten) == 0 && len(d.BrokerConfigs) == 0 && len(d.GroupConfigs) == 0 && !d.Subscriptions &&
		len(d.Placements) == 0 && len(d.Liveness) == 0 &&
		len(d.ACLsAdded) == 0 && len(d.ACLsRemoved) == 0 && len(d.Users) == 0 && !d.Logins && !d.Quotas && !d.Brokers && !d.Cluster
}

// sort puts the lists that the builder filled in the order of events into their own order. Topics
// are sorted already.
func (d *Delta) sort() {
	byID := func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) }
	slices.SortFunc(d.Tombstones, func(a, b *Deleting) int { return byID(a.ID, b.ID) })
	slices.SortFunc(d.Forgotten, byID)
	slices.Sort(d.BrokerConfigs)
	slices.Sort(d.GroupConfigs)
	slices.Sort(d.Liveness)
	slices.Sort(d.Users)
	slices.SortFunc(d.Placements, compareBrokerTopics)
	d.sortACLs()
}

// Diff compares two complete images, by the revisions of their parts. It is for an applier that has
// missed part of the history.
func Diff(prev, next *Image) *Delta {
	d := &Delta{Cluster: prev.cluster != next.cluster, Brokers: !slices.EqualFunc(prev.brokers, next.brokers, sameRegistration)}
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
	d.GroupConfigs = changedConfigs(prev.groups, next.groups)
	d.Subscriptions = len(changedConfigs(prev.subscriptions, next.subscriptions)) > 0
	d.diffBrokers(prev, next)
	d.diffACLs(prev, next)
	d.diffUsers(prev, next)
	d.Quotas = !sameQuotas(prev, next)
	return d
}

// changedConfigs returns the names whose configs differ, sorted.
func changedConfigs(prev, next shards[string, brokerConfig]) []string {
	names := map[string]bool{}
	for _, all := range []func(func(string, brokerConfig) bool){prev.all(), next.all()} {
		for name := range all {
			p, _ := prev.get(name)
			if n, _ := next.get(name); p.revision != n.revision {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// diffBrokers adds the differences of liveness and placements.
func (d *Delta) diffBrokers(prev, next *Image) {
	brokers := map[int32]bool{}
	for _, all := range []map[int32]stateAt{prev.liveness, next.liveness} {
		for id := range all {
			if prev.liveness[id].revision != next.liveness[id].revision {
				brokers[id] = true
			}
		}
	}
	d.Liveness = slices.Sorted(maps.Keys(brokers))
	placed := map[BrokerTopic]bool{}
	for _, all := range []func(func(BrokerTopic, *Placement) bool){prev.placed.all(), next.placed.all()} {
		for at := range all {
			p, _ := prev.placed.get(at)
			n, _ := next.placed.get(at)
			if p == nil || n == nil || p.rev != n.rev {
				placed[at] = true
			}
		}
	}
	d.Placements = slices.SortedFunc(maps.Keys(placed), compareBrokerTopics)
}

func sameRegistration(a, b Broker) bool { return a.ID == b.ID && a.Epoch == b.Epoch }

func compareBrokerTopics(a, b BrokerTopic) int {
	return cmp.Or(cmp.Compare(a.Broker, b.Broker), bytes.Compare(a.Topic[:], b.Topic[:]))
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

// sortedIDs returns the keys of both maps, sorted.
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
