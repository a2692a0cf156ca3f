package metadata

// Cluster is the data of the cluster as a whole.
type Cluster struct {
	// ID is the permanent cluster id: 22 characters of base64, as in Kafka.
	ID string
	// FeatureLevel is the highest feature level of the metadata on which all members have agreed;
	// see MaxFeatureLevel.
	FeatureLevel int32
}

// MaxFeatureLevel is the highest feature level that this version of chronik supports. It refuses a
// store with a higher level.
const MaxFeatureLevel int32 = 1

// Broker is one registered broker.
type Broker struct {
	ID int32
	// Incarnation is new with every start of the broker process.
	Incarnation [16]byte
	// Rack is broker.rack, empty if it is not set.
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
	// Partitions are numbered from 0 without a gap; there is at least one.
	Partitions Partitions
	// Configs are the topic's overrides, which were validated when they were set.
	Configs map[string]string
	// ConfigRevision is the revision that last changed Configs, 0 if they were never set. As long
	// as ID and ConfigRevision are the same, a configuration resolved from Configs stays valid.
	ConfigRevision int64
	// Revision is the revision that last changed the topic's own record.
	Revision int64
}

// Partition is one partition of a topic. It is immutable.
type Partition struct {
	// Leader is a broker id, -1 for none.
	Leader int32
	// LeaderEpoch grows whenever the leader changes or loses records (I9).
	LeaderEpoch int32
	// Replicas are in order of preference; never empty.
	Replicas []int32
	// ISR is the subset of Replicas that is in sync.
	ISR []int32
	// Dirs has the log directory id of each replica, in the order of Replicas; all zero for a
	// replica that has no directory yet.
	Dirs [][16]byte
	// PartitionEpoch grows with every change of this partition.
	PartitionEpoch int32
	// Revision is the revision that last changed this partition.
	Revision int64
}

// Dir returns the log directory id of a broker's replica. ok is false if the broker has no replica;
// the id is zero if the replica has no directory yet.
func (p *Partition) Dir(broker int32) (dir [16]byte, ok bool) {
	for i, r := range p.Replicas {
		if r == broker {
			return p.Dirs[i], true
		}
	}
	return dir, false
}

// Deleting is the tombstone of a topic whose logs may still be on a disk.
type Deleting struct {
	ID         [16]byte
	Name       string
	Partitions int32 // their former number
}

// TopicPartition names a partition of one incarnation of a topic.
type TopicPartition struct {
	Topic     [16]byte
	Partition int32
}

// IsInternal reports whether a topic name is reserved for the broker, so that clients may not
// produce to it.
func IsInternal(name string) bool {
	switch name {
	case "__consumer_offsets", "__transaction_state", "__share_group_state":
		return true
	}
	return false
}
