package metadata

import (
	"cmp"
	"iter"
	"slices"
	"sort"
	"sync"
)

// Image is the metadata of the cluster at one revision. It never changes. The
// zero value is not usable; Empty returns the image of an empty store.
type Image struct {
	version  int64
	cluster  Cluster
	topics   shards[string, *Topic]
	byID     shards[[16]byte, *Topic]
	brokers  []Broker // sorted by id
	configs  map[int32]brokerConfig
	groups   shards[string, brokerConfig]
	deleting shards[[16]byte, *Deleting]
	// sorted is made when somebody first asks for it, and shared by images
	// between which no topic was created or deleted.
	sorted *sortedNames
}

// brokerConfig are the dynamic configs of one broker, or the default of all, or
// those of a group.
type brokerConfig struct {
	set      map[string]string
	revision int64
}

type sortedNames struct {
	once  sync.Once
	names []string
}

// Empty is the image of a store that holds nothing: version 0.
func Empty() *Image { return &Image{sorted: new(sortedNames)} }

// Version is the store's revision that the image shows.
func (m *Image) Version() int64 { return m.version }

// ClusterID is the stable id of the cluster, empty before it is bootstrapped.
func (m *Image) ClusterID() string { return m.cluster.ID }

// FeatureLevel is the agreed level of the metadata's meaning.
func (m *Image) FeatureLevel() int32 { return m.cluster.FeatureLevel }

// Topic is the topic of that name, nil where there is none.
func (m *Image) Topic(name string) *Topic {
	t, _ := m.topics.get(name)
	return t
}

// TopicByID is the topic with that id, nil where there is none.
func (m *Image) TopicByID(id [16]byte) *Topic {
	t, _ := m.byID.get(id)
	return t
}

// Partition is one partition, nil where there is none.
func (m *Image) Partition(tp TopicPartition) *Partition {
	t := m.TopicByID(tp.Topic)
	if t == nil {
		return nil
	}
	return t.Partitions.At(tp.Partition)
}

// NumTopics is the number of topics.
func (m *Image) NumTopics() int { return m.topics.len() }

// Topics walks all topics, sorted by name.
func (m *Image) Topics() iter.Seq[*Topic] { return m.TopicsFrom("") }

// TopicsFrom walks the topics whose names are not below the given one, sorted:
// what a paged listing goes on with, whether or not that topic still exists.
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

// Brokers are the registered brokers, sorted by id. The slice must not be
// changed.
func (m *Image) Brokers() []Broker { return m.brokers }

// Broker is one registered broker.
func (m *Image) Broker(id int32) (Broker, bool) {
	i, ok := slices.BinarySearchFunc(m.brokers, id, func(b Broker, id int32) int { return cmp.Compare(b.ID, id) })
	if !ok {
		return Broker{}, false
	}
	return m.brokers[i], true
}

// BrokerConfig are the dynamic configs of one broker; with DefaultBroker those
// that hold for all. It may be nil and must not be changed.
func (m *Image) BrokerConfig(id int32) map[string]string { return m.configs[id].set }

// BrokerConfigRevision is the revision that last changed BrokerConfig(id), 0
// where it was never set.
func (m *Image) BrokerConfigRevision(id int32) int64 { return m.configs[id].revision }

// GroupConfig are the configs of one consumer group. It may be nil and must not be
// changed.
func (m *Image) GroupConfig(group string) map[string]string {
	c, _ := m.groups.get(group)
	return c.set
}

// GroupConfigs walks the groups that have configs, in no order.
func (m *Image) GroupConfigs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for group := range m.groups.all() {
			if !yield(group) {
				return
			}
		}
	}
}

// Deleting is the tombstone of a deleted topic whose logs may still exist, nil
// where there is none.
func (m *Image) Deleting(id [16]byte) *Deleting {
	d, _ := m.deleting.get(id)
	return d
}

// Tombstones walks all tombstones in no order.
func (m *Image) Tombstones() iter.Seq[*Deleting] {
	return func(yield func(*Deleting) bool) {
		for _, d := range m.deleting.all() {
			if !yield(d) {
				return
			}
		}
	}
}
