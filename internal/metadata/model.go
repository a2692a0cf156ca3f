package metadata

// Cluster is what holds for the cluster as a whole.
type Cluster struct {
	// ID is the stable cluster id: 22 characters of base64, as Kafka's.
	ID string
	// FeatureLevel is the highest level of the metadata's meaning that all
	// members have agreed on; see MaxFeatureLevel.
	FeatureLevel int32
}

// MaxFeatureLevel is the highest feature level that this version of chronik
// understands. A store at a higher level is refused.
const MaxFeatureLevel int32 = 1

// Broker is one registered broker.
type Broker struct {
	ID int32
	// Incarnation is new at every start of the broker's process.
	Incarnation [16]byte
	// Rack is broker.rack; empty where it is not set.
	Rack string
	// Epoch is the revision of the registration: it grows with every start.
	Epoch int64
}

// Topic is one topic. It and everything that it refers to is immutable.
type Topic struct {
	ID   [16]byte
	Name string
	// Internal topics are written by the broker only.
	Internal bool
	// Partitions are numbered from 0 without a gap; at least one.
	Partitions Partitions
	// Configs are the overrides set on this topic, validated when they were set.
	Configs map[string]string
	// ConfigRevision is the revision that last changed Configs: with the same ID
	// and ConfigRevision, what was resolved from Configs still holds. 0: never set.
	ConfigRevision int64
	// Revision is the revision that last changed the topic's own record.
	Revision int64
}

// Partition is one partition of a topic. It is immutable.
type Partition struct {
	// Leader is a broker id, -1 where there is none.
	Leader int32
	// LeaderEpoch grows whenever the leader changes or takes back bytes (I9).
	LeaderEpoch int32
	// Replicas in order of preference; never empty.
	Replicas []int32
	// ISR is the subset of Replicas that is in sync.
	ISR []int32
	// Dirs has the log directory id of each replica, in the order of Replicas;
	// all zero where a replica has not been placed yet.
	Dirs [][16]byte
	// PartitionEpoch grows with every change of this partition.
	PartitionEpoch int32
	// Revision is the revision that last changed this partition.
	Revision int64
}

// Dir is the log directory id of a broker's replica: ok is false where the
// broker has no replica, the id is zero where it is not placed yet.
func (p *Partition) Dir(broker int32) (dir [16]byte, ok bool) {
	for i, r := range p.Replicas {
		if r == broker {
			return p.Dirs[i], true
		}
	}
	return dir, false
}

// Deleting is the tombstone of a topic whose logs may still be on some disk.
type Deleting struct {
	ID         [16]byte
	Name       string
	Partitions int32 // how many it had
}

// TopicPartition names one partition of one incarnation of a topic.
type TopicPartition struct {
	Topic     [16]byte
	Partition int32
}

// IsInternal reports whether a name is that of a topic which the broker itself writes.
func IsInternal(name string) bool {
	switch name {
	case "__consumer_offsets", "__transaction_state", "__share_group_state":
		return true
	}
	return false
}
