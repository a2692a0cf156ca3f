package checks

import (
	"fmt"
	"time"
)

// Cluster is what a member of a cluster knows of the cluster. What it knows of other brokers and of
// partitions is from its latest metadata, which are old if it has no lease.
type Cluster struct {
	Seeds  int // entries of cluster.seeds
	Quorum Quorum
	// State is this broker's state in the controller's last answer, empty before the first one.
	// NoLease is the time since it had a lease, which is the controller's confirmation of a recent
	// heartbeat; 0 if it has one.
	State   string
	NoLease time.Duration
	// Stale is how long ago the controller had metadata that this broker has not applied yet, 0 if
	// there are none.
	Stale time.Duration
	// Skew is by how much the clock of the metadata leader is ahead of this broker's.
	Skew time.Duration
	// Version is that of the metadata leader's software, empty if it is not known. Own is that of
	// this broker.
	Version, Own string
	// Brokers are all registered brokers, sorted by id.
	Brokers []Broker
	// Leaderless are the partitions without a leader, by what they wait for.
	Leaderless []Leaderless
	// Stopped are the replicas of this broker that cannot follow their leaders.
	Stopped []Stopped
	// Unclean names the partitions with a recent leader that may lack acknowledged records.
	Unclean Partitions
}

// Quorum is the state of the metadata quorum.
type Quorum struct {
	// Leader is the broker id of the metadata leader, -1 if there is none, or if its id is not
	// known. NoLeader is the time since this broker knew a leader, 0 if it knows one.
	Leader   int32
	NoLeader time.Duration
	// Hanging is the time since the metadata store responded, if that is long; otherwise 0.
	Hanging time.Duration
	// Voters is the number of voters, 0 if it is not known. Unreachable are those to which this
	// broker has no connection: "broker 2 (b:9092)".
	Voters      int
	Unreachable []string
	// Orphans are the voters whose member no registered broker has, for Orphaned or longer.
	Orphans  int
	Orphaned time.Duration
}

// Broker is a registered broker of the cluster.
type Broker struct {
	ID    int32
	State string // fenced, starting, active, draining, drained
	// Behind are the partitions whose replica on this broker is not in sync, and Refusing those of
	// them with fewer replicas in sync than min.insync.replicas.
	Behind, Refusing Partitions
	// Limit are those of Behind that have as many replicas in sync as min.insync.replicas.
	Limit int
	// FailedDirs, HungDirs and LowDirs are its log directories that take no records, by the reason.
	FailedDirs, HungDirs, LowDirs int
	// Full are the partitions that it leads although its log directory takes no records: no other
	// replica in sync can.
	Full Partitions
	// Damaged are the partitions whose log on this broker is damaged, and Last those of them that
	// it leads: no other replica that is whole can.
	Damaged, Last Partitions
}

// Partitions is a number of partitions, and the names of the first few.
type Partitions struct {
	Count int
	Names []string
}

// Add adds a partition.
func (p *Partitions) Add(topic string, index int32) {
	if p.Count++; len(p.Names) < mostNamed {
		p.Names = append(p.Names, fmt.Sprintf("%s-%d", topic, index))
	}
}

// Waiting is why a partition has no leader.
type Waiting string

// The reasons why a partition has no leader.
const (
	// ForBrokers: the brokers with all of its records are not active.
	ForBrokers Waiting = "brokers"
	// ForDirectory: they are active, but not the log directory with the records.
	ForDirectory Waiting = "directory"
	// Lossy: the last replica in sync lost records in a power failure; the controller elects the
	// replica with the most records once the other brokers are back.
	Lossy Waiting = "lossy"
	// Elected: a broker could lead them, and the controller is about to elect it.
	Elected Waiting = "election"
)

// Leaderless is a group of partitions that have no leader for the same reason.
type Leaderless struct {
	Partitions
	Why Waiting
	// Brokers have all acknowledged records of these partitions, as far as any broker has.
	Brokers []int32
}

// Stopped is a group of replicas of this broker that cannot follow one leader.
type Stopped struct {
	Partitions
	Leader int32
	// Ahead: the replica has records of a later leader epoch than its leader. Otherwise the replica
	// would have to discard committed records.
	Ahead bool
}
