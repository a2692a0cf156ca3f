package metadata

import (
	"cmp"
	"iter"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// Image is the metadata of the cluster at one revision. It never changes. The zero value is not
// usable; Empty returns the image of an empty store.
type Image struct {
	version int64
	cluster Cluster
	topics  shards[string, *Topic]
	byID    shards[[16]byte, *Topic]
	brokers []Broker // sorted by id
	configs map[int32]brokerConfig
	groups  shards[string, brokerConfig]
	// gone are the members that were unregistered, with the broker that each was.
	gone map[uint64]int32
	// subscriptions are those to metrics of clients.
	subscriptions shards[string, brokerConfig]
	deleting      shards[[16]byte, *Deleting]
	liveness      map[int32]stateAt
	placed        shards[BrokerTopic, *Placement]
	acls          shards[[16]byte, acl.Binding]
	users         shards[string, *User]
	logins        Logins
	quotas        shards[quota.Entity, Quota]
	snapshots     []Snapshot // sorted by number
	collection    int64      // revision of CollectionKey
	objectStore   ObjectStore
	tiers         shards[TopicPartition, *Tier]
	// sorted is built on first use, and shared by images between which no topic was created or
	// deleted.
	sorted *sortedNames
}

// brokerConfig has the dynamic configs of one broker, of all brokers, or of a group.
type brokerConfig struct {
	set      map[string]string
	revision int64
}

// stateAt is a broker's state and the revision that last wrote it.
type stateAt struct {
	state    BrokerState
	revision int64
}

// BrokerTopic names a broker's replicas of one incarnation of a topic.
type BrokerTopic struct {
	Broker int32
	Topic  [16]byte
}

type sortedNames struct {
	once  sync.Once
	names []string
}

// Empty returns the image of an empty store, with version 0.
func Empty() *Image { return &Image{sorted: new(sortedNames)} }

// Version returns the store's revision that the image shows.
func (m *Image) Version() int64 { return m.version }

// ClusterID returns the permanent id of the cluster, empty before a broker has registered.
func (m *Image) ClusterID() string { return m.cluster.ID }

// FeatureLevel returns the agreed feature level of the metadata.
func (m *Image) FeatureLevel() int32 { return m.cluster.FeatureLevel }

// TransactionVersion returns the level of transaction.version.
func (m *Image) TransactionVersion() int16 { return m.cluster.TransactionVersion }

// ShareVersion returns the level of share.version.
func (m *Image) ShareVersion() int16 { return m.cluster.ShareVersion }

// Generation returns the generation of the cluster's metadata; see Cluster.
func (m *Image) Generation() [16]byte { return m.cluster.Generation }

// Recovered returns Cluster.Recovered.
func (m *Image) Recovered() time.Time { return time.UnixMilli(m.cluster.Recovered) }

// Topic returns the topic with a name, or nil.
func (m *Image) Topic(name string) *Topic {
	t, _ := m.topics.get(name)
	return t
}

// TopicByID returns the topic with an id, or nil.
func (m *Image) TopicByID(id [16]byte) *Topic {
	t, _ := m.byID.get(id)
	return t
}

// Partition returns one partition, or nil.
func (m *Image) Partition(tp TopicPartition) *Partition {
	t := m.TopicByID(tp.Topic)
	if t == nil {
		return nil
	}
	return t.Partitions.At(tp.Partition)
}

// NumTopics returns the number of topics.
func (m *Image) NumTopics() int { return m.topics.len() }

// Topics iterates over all topics, sorted by name.
func (m *Image) Topics() iter.Seq[*Topic] { return m.TopicsFrom("") }

// TopicsFrom iterates over the topics whose names are not below the given name, sorted. A paged
// listing continues with it, whether or not that topic still exists.
func (m *Image) TopicsFrom(name string) iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		names := m.names()
		for _, n := range names[sort.SearchStrings(names, name):] {
			if t := m.Topic(n); !yield(t) {
				return
			}
		}
	}
}

func (m *Image) names() []string {
	m.sorted.once.Do(func() {
		names := make([]string, 0, m.topics.len())
		for n := range m.topics.all() {
			names = append(names, n)
		}
		slices.Sort(names)
		m.sorted.names = names
	})
	return m.sorted.names
}

// Brokers returns the registered brokers, sorted by id. The slice must not be modified.
func (m *Image) Brokers() []Broker { return m.brokers }

// Broker returns a registered broker, false if there is none with this id.
func (m *Image) Broker(id int32) (Broker, bool) {
	i, ok := slices.BinarySearchFunc(m.brokers, id, func(b Broker, id int32) int { return cmp.Compare(b.ID, id) })
	if !ok {
		return Broker{}, false
	}
	return m.brokers[i], true
}

// Liveness returns a broker's liveness and the revision that last wrote it. A broker without any is
// fenced, at revision 0.
func (m *Image) Liveness(id int32) (Liveness, int64) {
	l := m.liveness[id]
	return l.state.Liveness, l.revision
}

// State returns a broker's state and the revision that last wrote it. Its slices must not be
// modified. A broker without any is fenced, at revision 0.
func (m *Image) State(id int32) (BrokerState, int64) {
	l := m.liveness[id]
	return l.state, l.revision
}

// Placement returns the log directory of a broker's replica of a partition, false if the broker has
// not recorded one. A replica that was removed, or whose topic was deleted, may still have one.
func (m *Image) Placement(broker int32, tp TopicPartition) ([16]byte, bool) {
	p, _ := m.placed.get(BrokerTopic{broker, tp.Topic})
	return p.Dir(tp.Partition)
}

// Moved iterates over the partitions of a topic, ascending, of which this image has another log
// directory for a broker's replica than an earlier image. It is what an entry of Delta.Placements
// changes, which names a whole topic.
func (m *Image) Moved(from *Image, at BrokerTopic) iter.Seq[int32] {
	before, _ := from.placed.get(at)
	now, _ := m.placed.get(at)
	return func(yield func(int32) bool) {
		for i := range int32(max(before.count(), now.count())) {
			was, _ := before.Dir(i)
			if is, _ := now.Dir(i); is != was && !yield(i) {
				return
			}
		}
	}
}

// Compared reports whether a broker's replica of a partition has lost nothing unnoticed, as far as
// its state says; see BrokerState.Uncompared. One that has no directory has no record that counts.
func (m *Image) Compared(broker int32, tp TopicPartition) bool {
	_, placed := m.Placement(broker, tp)
	state, _ := m.State(broker)
	return !placed || !state.Uncompared && !slices.Contains(state.UncomparedLogs, tp)
}

// Placements iterates over the topics of which a broker has recorded replicas, in no order.
func (m *Image) Placements(broker int32) iter.Seq[[16]byte] {
	return func(yield func([16]byte) bool) {
		for at := range m.placed.all() {
			if at.Broker == broker && !yield(at.Topic) {
				return
			}
		}
	}
}

// BrokerConfig returns the dynamic configs of one broker, or with DefaultBroker those common to
// all. The map may be nil and must not be modified.
func (m *Image) BrokerConfig(id int32) map[string]string { return m.configs[id].set }

// BrokerConfigRevision returns the revision that last changed BrokerConfig(id), 0 if it was never
// set.
func (m *Image) BrokerConfigRevision(id int32) int64 { return m.configs[id].revision }

// GroupConfig returns the configs of one consumer group. The map may be nil and must not be
// modified.
func (m *Image) GroupConfig(group string) map[string]string {
	c, _ := m.groups.get(group)
	return c.set
}

// GroupConfigs iterates over the groups that have configs, in no order.
func (m *Image) GroupConfigs() iter.Seq[string] { return m.groups.keys() }

// Subscription returns the configs of a subscription to metrics of clients (KIP-714), and whether
// it exists. The map must not be modified.
func (m *Image) Subscription(name string) (map[string]string, bool) {
	c, ok := m.subscriptions.get(name)
	return c.set, ok
}

// Subscriptions iterates over the names of the subscriptions to metrics of clients, in no order.
func (m *Image) Subscriptions() iter.Seq[string] { return m.subscriptions.keys() }

// NumSubscriptions returns the number of subscriptions to metrics of clients.
func (m *Image) NumSubscriptions() int { return m.subscriptions.len() }

// Gone returns the broker that a member was before it was unregistered, and false if it was not.
func (m *Image) Gone(member uint64) (broker int32, ok bool) {
	broker, ok = m.gone[member]
	return broker, ok
}

// Deleting returns the tombstone of a deleted topic whose logs may still exist, or nil.
func (m *Image) Deleting(id [16]byte) *Deleting {
	d, _ := m.deleting.get(id)
	return d
}

// Tombstones iterates over all tombstones in no order.
func (m *Image) Tombstones() iter.Seq[*Deleting] {
	return func(yield func(*Deleting) bool) {
		for _, d := range m.deleting.all() {
			if !yield(d) {
				return
			}
		}
	}
}
