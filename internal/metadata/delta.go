package metadata

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/sorts"
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
	ACLsAdded, ACLsRemoved []acl.Binding
	// Users lists the users that were added, changed or removed, sorted.
	Users []string
	// Logins is set if Image.Logins changed.
	Logins bool
	// Quotas is set if a quota was added, changed or removed.
	Quotas bool
	// Snapshots is set if a snapshot was added, changed or removed, or a collection began.
	Snapshots bool
	// Tiers lists the partitions whose Tier was added, changed or removed, sorted.
	Tiers []TopicPartition
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
		len(d.ACLsAdded) == 0 && len(d.ACLsRemoved) == 0 && len(d.Users) == 0 && !d.Logins && !d.Quotas && !d.Snapshots &&
		len(d.Tiers) == 0 && !d.Brokers && !d.Cluster
}

// sort puts the lists that the builder filled in the order of events into their own order. Topics
// are sorted already.
func (d *Delta) sort() {
	byID := func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) }
	sorts.Sort(d.Tombstones, func(a, b *Deleting) int { return byID(a.ID, b.ID) })
	sorts.Sort(d.Forgotten, byID)
	slices.Sort(d.BrokerConfigs)
	slices.Sort(d.GroupConfigs)
	slices.Sort(d.Liveness)
	slices.Sort(d.Users)
	sorts.Sort(d.Placements, compareBrokerTopics)
	d.sortTiers()
	d.sortACLs()
}

// Diff compares two complete images, by the revisions of their parts. It is for an applier that has
// missed part of the history.
func Diff(prev, next *Image) *Delta {
	d := &Delta{Cluster: prev.cluster != next.cluster, Brokers: !slices.EqualFunc(prev.brokers, next.brokers, sameRegistration)}
	for _, id := range sortIDs(changed(prev.byID, next.byID, func(p, n *Topic) bool { return p == n })) {
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
	for _, id := range sortIDs(changed(prev.deleting, next.deleting, func(_, _ *Deleting) bool { return true })) {
		p, n := prev.Deleting(id), next.Deleting(id)
		if p == nil {
			d.Tombstones = append(d.Tombstones, n)
		} else if n == nil {
			d.Forgotten = append(d.Forgotten, id)
		}
	}
	sameConfig := func(p, n brokerConfig) bool { return p.revision == n.revision }
	d.BrokerConfigs = changedIn(prev.configs, next.configs, sameConfig)
	d.GroupConfigs = slices.Sorted(changed(prev.groups, next.groups, sameConfig))
	d.Subscriptions = some(changed(prev.subscriptions, next.subscriptions, sameConfig))
	d.Liveness = changedIn(prev.liveness, next.liveness, func(p, n stateAt) bool { return p.revision == n.revision })
	samePlaces := func(p, n *Placement) bool { return p.rev == n.rev }
	d.Placements = sorts.Sorted(changed(prev.placed, next.placed, samePlaces), compareBrokerTopics)
	d.diffACLs(prev, next)
	d.Users = slices.Sorted(changed(prev.users, next.users, func(p, n *User) bool { return p.Revision == n.Revision }))
	d.Logins = !prev.logins.Salt.Equal(next.logins.Salt) || prev.logins.Bootstrapped != next.logins.Bootstrapped
	d.Tiers = sorts.Sorted(changed(prev.tiers, next.tiers, sameTier), compareTopicPartitions)
	d.Quotas = some(changed(prev.quotas, next.quotas, sameQuota))
	d.Snapshots = prev.collection != next.collection || !slices.EqualFunc(prev.snapshots, next.snapshots, sameSnapshot)
	return d
}

// changedIn returns the keys whose values differ, sorted. A missing value is a zero one.
func changedIn[V any](prev, next map[int32]V, same func(a, b V) bool) (ids []int32) {
	for _, m := range []map[int32]V{prev, next} {
		for id := range m {
			if !same(prev[id], next[id]) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

func sameRegistration(a, b Broker) bool { return a.ID == b.ID && a.Epoch == b.Epoch }

func compareBrokerTopics(a, b BrokerTopic) int {
	return cmp.Or(cmp.Compare(a.Broker, b.Broker), bytes.Compare(a.Topic[:], b.Topic[:]))
}

// change adds a topic that exists before and after, if it differs.
func (d *Delta) change(p, n *Topic) {
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

func sortIDs[T ~[16]byte](ids iter.Seq[T]) []T {
	return sorts.Sorted(ids, func(a, b T) int { return bytes.Compare(a[:], b[:]) })
}
