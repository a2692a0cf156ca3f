package metadata

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Cluster is the data of the cluster as a whole.
type Cluster struct {
	// ID is the permanent cluster id: 22 characters of base64, as in Kafka.
	ID string `json:"id"`
	// Generation is new when the cluster is created and whenever its metadata is restored from a
	// backup. Nodes of different generations do not talk to each other: after a restore, epochs
	// and revisions are used a second time.
	Generation ID `json:"generation"`
	// Recovered is when the metadata were last recovered from a copy that may lack the last
	// changes, in ms since 1970; 0: never.
	Recovered int64 `json:"recovered,omitempty"`
	// FeatureLevel is the highest feature level of the metadata on which all members have agreed;
	// see MaxFeatureLevel.
	FeatureLevel int32 `json:"featureLevel"`
	// TransactionVersion is the level of Kafka's feature transaction.version; see
	// MaxTransactionVersion.
	TransactionVersion int16 `json:"transactionVersion"`
	// ShareVersion is the level of Kafka's feature share.version; see MaxShareVersion. Above 0 it
	// requires the FeatureLevel ShareLevel.
	ShareVersion int16 `json:"shareVersion,omitempty"`
}

// NewCluster returns the data of a new cluster, with all features at their highest levels.
func NewCluster(id string, generation [16]byte) Cluster {
	return Cluster{ID: id, Generation: generation, FeatureLevel: MaxFeatureLevel, TransactionVersion: MaxTransactionVersion,
		ShareVersion: MaxShareVersion}
}

// MaxTransactionVersion is the highest level of transaction.version: clients get a new producer
// epoch with every transaction (KIP-890). With 1 the coordinator's records have tagged fields; with
// 0 they have none.
const MaxTransactionVersion int16 = 2

// MaxShareVersion is the highest level of share.version: with 1 there are share groups (KIP-932).
const MaxShareVersion int16 = 1

// MaxFeatureLevel is the highest feature level that this version of chronik supports. It refuses a
// store with a higher level.
const MaxFeatureLevel int32 = StoreLevel

// ShareLevel is the feature level from which on the cluster may have a level of share.version. A
// request to set share.version=1 raises the level.
const ShareLevel int32 = 2

// SnapshotLevel is the feature level from which on the metadata may have snapshots, marks and
// collections. The first snapshot raises the level.
const SnapshotLevel int32 = 3

// LedLevel is the feature level from which on logs note the epochs in which they lead. Checkpoints
// with a note are damaged to a version that does not support it. Nothing raises the level for the
// notes alone.
const LedLevel int32 = 4

// TierLevel is the feature level from which on the metadata may name copies of old records. The
// first topic with remote.storage.enable raises the level.
const TierLevel int32 = 5

// ConfirmLevel is the feature level from which on the metadata may name losses that an operator has
// confirmed. The first confirmation raises the level.
const ConfirmLevel int32 = 6

// CompareLevel is the feature level from which on the metadata may say that logs of a broker have
// to be compared after an unclean stop. Nothing raises the level for that alone.
const CompareLevel int32 = 7

// StoreLevel is the feature level from which on the metadata may name the mark of the object store.
// Nothing raises the level for that alone.
const StoreLevel int32 = 8

// Broker is one registered broker. It and everything that it refers to is immutable.
type Broker struct {
	ID int32 `json:"-"`
	// Member is the id of the broker's metadata directory in the metadata quorum; 0 for a broker
	// with a metadata store of its own.
	Member uint64 `json:"-"`
	// Former are members of the directories with which this broker registered before, the newest
	// first; at most MaxFormer are kept. One of them may still vote: see package membership.
	Former []uint64 `json:"-"`
	// Incarnation is new with every start of the broker process.
	Incarnation ID `json:"incarnation"`
	// Dirs are the broker's log directories.
	Dirs []BrokerDir `json:"dirs,omitempty"`
	// Listeners are the addresses at which others reach the broker. The first one is for other
	// brokers, whatever they call theirs; see Peer.
	Listeners []Endpoint `json:"listeners,omitempty"`
	// Rack is broker.rack, empty if it is not set.
	Rack string `json:"rack,omitempty"`
	// Features are the feature levels that the broker supports.
	Features Features `json:"features"`
	// Epoch is the broker epoch, the revision of the registration: it grows with every start.
	Epoch int64 `json:"-"`
}

// MaxFormer bounds Broker.Former.
const MaxFormer = 8

// BrokerDir is a log directory of a broker.
type BrokerDir struct {
	ID ID `json:"id"`
	// Format is the version of the directory's files.
	Format int32 `json:"format"`
	// CheckpointSequence is the number of the directory's checkpoint when the broker registered. It
	// grows with every start, so a smaller one belongs to an older copy of the directory.
	CheckpointSequence uint64 `json:"checkpoint"`
	// Finding identifies what the start of the broker found in the directory. A directory that
	// could not note that it was registered reports the same finding with the next registration. It
	// is no older copy then, although the number of the checkpoint in the finding is smaller.
	Finding ID `json:"finding,omitzero"`
	// Offline reports that the broker registered without the directory, although it has replicas
	// there. The entry keeps its last known state.
	Offline bool `json:"offline,omitempty"`
}

// Endpoint is the address of a listener.
type Endpoint struct {
	Listener string `json:"name"` // in the configuration
	Host     string `json:"host"`
	Port     int32  `json:"port"`
}

// Features is a range of feature levels, both ends included.
type Features struct {
	Min int32 `json:"min"`
	Max int32 `json:"max"`
}

// Dir returns the broker's log directory with an id, false if it has no such directory.
func (b *Broker) Dir(id [16]byte) (BrokerDir, bool) {
	for _, d := range b.Dirs {
		if d.ID == id {
			return d, true
		}
	}
	return BrokerDir{}, false
}

// Peer returns the address for other brokers, false if the broker has none.
func (b *Broker) Peer() (Endpoint, bool) {
	if len(b.Listeners) == 0 {
		return Endpoint{}, false
	}
	return b.Listeners[0], true
}

// Endpoint returns the address of a listener, false if the broker has no listener of that name.
func (b *Broker) Endpoint(listener string) (Endpoint, bool) {
	for _, e := range b.Listeners {
		if e.Listener == listener {
			return e, true
		}
	}
	return Endpoint{}, false
}

// BrokerState is what the controller has decided about a broker.
type BrokerState struct {
	Liveness Liveness `json:"state"`
	// Incarnation is the broker process to which the state applies. While a process registers, it
	// differs from the registered one, of which nothing is accepted any longer.
	Incarnation ID `json:"incarnation"`
	// Unable are the log directories that cannot take records, and Damaged the logs that cannot be
	// read as they were written; both as the process's newest heartbeat says.
	Unable  []UnableDir      `json:"unable,omitempty"`
	Damaged []TopicPartition `json:"damaged,omitempty"`
	// Uncompared: the last stop did not close a log directory, and no leader has compared the logs
	// since. A disk may have lost synced records without a trace. As soon as few are left, they are
	// in UncomparedLogs instead.
	Uncompared     bool             `json:"uncompared,omitempty"`
	UncomparedLogs []TopicPartition `json:"uncomparedLogs,omitempty"`
}

// Equal reports whether two states are the same.
func (s *BrokerState) Equal(o *BrokerState) bool {
	return s.Liveness == o.Liveness && s.Incarnation == o.Incarnation && slices.Equal(s.Unable, o.Unable) &&
		slices.Equal(s.Damaged, o.Damaged) && s.Uncompared == o.Uncompared &&
		slices.Equal(s.UncomparedLogs, o.UncomparedLogs)
}

// UnableDir is a log directory that cannot take records.
type UnableDir struct {
	ID  ID       `json:"dir"`
	Why DirFault `json:"why"`
}

// DirFault is why a log directory cannot take records. Its zero value is that it can.
type DirFault uint8

// The faults of a directory.
const (
	// DirFailed: its disk returns errors. Its replicas cannot lead, and are not in sync.
	DirFailed DirFault = 1 + iota
	// DirHung: a write or an operation on its disk does not end, or a log cannot be made in it. Its
	// replicas lead only if no other one in sync can.
	DirHung
	// DirLow: its disk has too little free space for records of clients. Its replicas follow, and
	// lead only if no other one in sync can.
	DirLow
)

var faultNames = [...]string{DirFailed: "failed", DirHung: "hung", DirLow: "low"}

// Valid reports whether f is one of the constants.
func (f DirFault) Valid() bool { return f > 0 && int(f) < len(faultNames) }

// String returns the name of the fault, as it is stored, "" for none.
func (f DirFault) String() string {
	if !f.Valid() {
		return ""
	}
	return faultNames[f]
}

// MarshalText implements encoding.TextMarshaler.
func (f DirFault) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *DirFault) UnmarshalText(p []byte) error {
	if *f = DirFault(max(slices.Index(faultNames[:], string(p)), 0)); !f.Valid() {
		return fmt.Errorf("unknown fault %q of a directory", p)
	}
	return nil
}

// UnknownFault reports whether an entry has no fault.
func UnknownFault(list []UnableDir) bool {
	return slices.ContainsFunc(list, func(d UnableDir) bool { return !d.Why.Valid() })
}

// Fault returns why a log directory cannot take records, 0 if it can.
func (s *BrokerState) Fault(dir [16]byte) DirFault {
	i := slices.IndexFunc(s.Unable, func(d UnableDir) bool { return d.ID == dir })
	if i < 0 {
		return 0
	}
	return s.Unable[i].Why
}

// Votes reports whether a broker only votes: it has no log directories, so no partition has a
// replica on it. A broker with a metadata store of its own names none.
func (b *Broker) Votes() bool { return len(b.Dirs) == 0 && b.Member != 0 }

// Able reports what a broker's log directory can do in a state: works that a replica in it can lead
// or be in sync, and writes that it also takes records of clients. A zero dir stands for a log that
// has no directory yet: then they are those of the broker's best directory.
func (b *Broker) Able(s *BrokerState, dir [16]byte) (works, writes bool) {
	if len(b.Dirs) == 0 {
		return !b.Votes(), !b.Votes()
	}
	for i := range b.Dirs {
		if d := &b.Dirs[i]; !d.Offline && (d.ID == dir || dir == [16]byte{}) {
			why := s.Fault(d.ID)
			works, writes = works || why != DirFailed, writes || why == 0
		}
	}
	return works, writes
}

// Liveness is whether a broker takes part in the cluster. Its zero value is Fenced.
type Liveness uint8

// The states of a broker.
const (
	// Fenced: the broker's session has ended. It leads nothing and leaves every ISR.
	Fenced Liveness = iota
	// Starting: the broker registers, or has registered and does not yet follow the metadata. It
	// leads nothing and joins no ISR, but stays in those of which it was a member.
	Starting
	// Active: the broker may lead partitions and join an ISR.
	Active
	// Draining: the broker is about to stop. It gets no leadership and joins no ISR.
	Draining
	// Drained: the broker may stop. It leads nothing that another broker could lead, and has left
	// every ISR that has another member.
	Drained
)

var livenessNames = [...]string{Fenced: "fenced", Starting: "starting", Active: "active", Draining: "draining", Drained: "drained"}

// Serves reports whether clients are sent to the broker: it is active or draining.
func (l Liveness) Serves() bool { return l == Active || l == Draining }

// String returns the name of the state, as it is stored.
func (l Liveness) String() string {
	if int(l) < len(livenessNames) {
		return livenessNames[l]
	}
	return "unknown"
}

// MarshalText implements encoding.TextMarshaler.
func (l Liveness) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Liveness) UnmarshalText(p []byte) error {
	i := slices.Index(livenessNames[:], string(p))
	if i < 0 {
		return fmt.Errorf("unknown state %q of a broker", p)
	}
	*l = Liveness(i)
	return nil
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
	// Leader is a broker id of the ISR, -1 for none.
	Leader int32
	// LeaderEpoch grows whenever the leader changes or loses records (I9).
	LeaderEpoch int32
	// Replicas are in order of preference; never empty.
	Replicas []int32
	// ISR is the subset of Replicas that is in sync.
	ISR []int32
	// ELR are the eligible leader replicas (KIP-966): they left the ISR when it became smaller than
	// min.insync.replicas, and have every record below the high watermark, which stands still
	// while there are any. No member of the ISR is in it.
	ELR []int32
	// Last is the replica with which the last member left ISR and ELR. It is zero if one of them
	// has a member.
	Last LastReplica
	// Adding and Removing are the replicas that a reassignment in progress adds and removes.
	// Replicas contains both.
	Adding, Removing []int32
	// Unclean is the newest leader epoch that began with an unclean election: records that were
	// acknowledged may be missing in it. An epoch of the only replica, which may have lost such
	// records at a start, also counts. 0 if there was none; epoch 0 always begins cleanly.
	Unclean int32
	// Confirmed is the value of Unclean that an operator has confirmed: he knows of the loss. It
	// needs the feature level ConfirmLevel.
	Confirmed int32
	// AckRule is the rule by which appends with acks=all are acknowledged.
	AckRule AckRule
	// PartitionEpoch grows with every change of this partition.
	PartitionEpoch int32
	// Revision is the revision that last changed this partition.
	Revision int64
}

// LastReplica names a replica. The zero value names none: the id of a log directory is never zero.
type LastReplica struct {
	Broker int32
	Dir    [16]byte
	// Lossy reports that the replica may have lost records that it had acknowledged, as its
	// durability profile allows after a power failure.
	Lossy bool
}

// IsZero reports whether no replica is named.
func (l LastReplica) IsZero() bool { return l == LastReplica{} }

// AckRule tells how many replicas must have a record before it is acknowledged with acks=all.
type AckRule uint8

// AckISR requires every member of the ISR. There is no other rule yet.
const AckISR AckRule = 0

// HasReplica reports whether a broker has a replica of the partition.
func (p *Partition) HasReplica(broker int32) bool { return slices.Contains(p.Replicas, broker) }

// Counts reports whether the loss of a broker's log would be a loss of committed records: it is in
// the ISR or ELR, or both are empty.
func (p *Partition) Counts(broker int32) bool {
	return len(p.ISR)+len(p.ELR) == 0 || slices.Contains(p.ISR, broker) || slices.Contains(p.ELR, broker)
}

// Lost reports whether acknowledged records may be lost without an operator having confirmed it.
func (p *Partition) Lost() bool { return p.Unclean > p.Confirmed }

// PassedOver reports whether an unclean election decided without regard to a broker's replica, and
// nothing depends on that since: another broker leads, and the replica is neither in the ISR nor in
// the ELR.
func (p *Partition) PassedOver(broker int32) bool {
	return p.Unclean > 0 && p.Leader >= 0 && p.HasReplica(broker) && !slices.Contains(p.ISR, broker) && !slices.Contains(p.ELR, broker)
}

// Reassigning reports whether a reassignment is in progress.
func (p *Partition) Reassigning() bool { return len(p.Adding)+len(p.Removing) > 0 }

// Target returns the replicas that the partition has after the reassignment in progress, and Former
// those that it had before. Both are in order of preference, and all replicas without one.
func (p *Partition) Target() []int32 { return without(p.Replicas, p.Removing) }

// Former returns the replicas without those that the reassignment in progress adds; see Target.
func (p *Partition) Former() []int32 { return without(p.Replicas, p.Adding) }

// without returns the members of a that are not in b.
func without(a, b []int32) []int32 {
	if len(b) == 0 {
		return a
	}
	return slices.DeleteFunc(slices.Clone(a), func(x int32) bool { return slices.Contains(b, x) })
}

// Deleting is the tombstone of a topic whose logs may still be on a disk.
type Deleting struct {
	ID         [16]byte
	Name       string
	Partitions int32 // their former number
	// Brokers are those that have not removed their logs yet, ascending. The tombstone is removed
	// with the last of them.
	Brokers []int32
	// Revision is that of the deletion, with which the keys of all these brokers were written.
	Revision int64
}

// Waits reports whether a broker has not removed its logs of the topic yet.
func (d *Deleting) Waits(broker int32) bool { return slices.Contains(d.Brokers, broker) }

// TopicPartition names a partition of one incarnation of a topic.
type TopicPartition struct {
	Topic     ID    `json:"topic"`
	Partition int32 `json:"partition"`
}

// TopicPartitions are partitions of topics, in any order. As JSON they are grouped by topic:
// {"<id>":[0,1]}.
type TopicPartitions []TopicPartition

// MarshalJSON implements json.Marshaler.
func (l TopicPartitions) MarshalJSON() ([]byte, error) {
	m := make(map[ID][]int32)
	for _, tp := range l {
		m[tp.Topic] = append(m[tp.Topic], tp.Partition)
	}
	return json.Marshal(m)
}

// UnmarshalJSON implements json.Unmarshaler. It returns the partitions in one order, so that equal
// lists stay equal.
func (l *TopicPartitions) UnmarshalJSON(p []byte) error {
	var m map[ID][]int32
	err := json.Unmarshal(p, &m)
	*l = nil
	for _, id := range sortIDs(maps.Keys(m)) {
		for _, n := range m[id] {
			*l = append(*l, TopicPartition{id, n})
		}
	}
	return err
}

// InternalTopics returns the names of topics that are reserved for the broker, so that clients may
// not produce to them.
func InternalTopics() []string {
	return []string{"__consumer_offsets", "__transaction_state", "__share_group_state"}
}

// IsInternal reports whether a topic name is one of InternalTopics.
func IsInternal(name string) bool {
	switch name {
	case "__consumer_offsets", "__transaction_state", "__share_group_state":
		return true
	}
	return false
}
