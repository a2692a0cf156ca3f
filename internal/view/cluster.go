package view

import (
	"fmt"
	"strings"
	"time"
)

// Cluster is what a broker knows of its cluster. What it knows of other brokers and of partitions
// is from its latest metadata, which are old if it has no lease. For a broker without a cluster it
// describes that broker and its partitions; the fields from Seeds on are zero.
type Cluster struct {
	Self     int32    // id of the broker that knows this
	Revision int64    // of its metadata
	Brokers  []Broker // all registered brokers, by id
	// Uncommon are the listeners that some active brokers have and others lack, by name.
	Uncommon []Listener
	// Leaderless are the partitions without a leader, by what they wait for. Unclean are those with
	// a recent leader that may lack acknowledged records. Moving counts those that are being
	// reassigned.
	Leaderless []Leaderless
	Unclean    Partitions
	Moving     int
	// Recovered is when the metadata were last recovered (chronikd recover), UTC; zero: never.
	Recovered time.Time
	// Partitions counts all partitions. Apart are those of them without a leader, with too few
	// replicas in sync, or with one on a broker that this one does not reach: while the ISR cannot
	// change, nothing is acknowledged there with acks=all.
	Partitions, Apart int
	// ISR counts the partitions that this broker leads by the size of their ISR, and Eligible those
	// of them with eligible leader replicas.
	ISR      map[int]int
	Eligible int

	Seeds int // entries of cluster.seeds
	// WrongSeeds are those of them that lead to no other broker of the cluster.
	WrongSeeds []WrongSeed
	Quorum     Quorum
	// State is this broker's state in the controller's last answer, empty before the first one.
	// LeaseAge is the age of the newest heartbeat that the controller has confirmed. NoLease is the
	// time since this broker had a lease, which is the confirmation of a recent heartbeat; 0 if it
	// has one.
	State             string
	LeaseAge, NoLease time.Duration
	// Stale is how long ago the controller had metadata that this broker has not applied yet, 0 if
	// there are none.
	Stale time.Duration
	// Skew is by how much the clock of the metadata leader is ahead of this broker's.
	Skew time.Duration
	// Version is that of the metadata leader's software, empty if it is not known. Own is that of
	// this broker.
	Version, Own string
	// Stopped are the replicas of this broker that cannot follow their leaders.
	Stopped []Stopped
	// Unreached are the brokers to which this one cannot connect. Session is the timeout after
	// which one that has ended is fenced.
	Unreached []Unreached
	Session   time.Duration
	// Shunned are those of controller.HeartbeatAnswer.
	Shunned []int32
	Streams Streams
}

// Listener is a name of listeners. Clients learn the other brokers by the name of the listener that
// they dialed, so those that dial it on one broker do not learn those that lack it.
type Listener struct {
	Name      string
	On, Lacks []int32 // brokers, by id
}

// Quorum is the state of the metadata quorum.
type Quorum struct {
	// Leader is the broker id of the metadata leader, -1 if there is none, or if its id is not
	// known. NoLeader is the time since this broker knew a leader, 0 if it knows one.
	Leader   int32
	NoLeader time.Duration
	// Term and Commit are the term and the index of the last committed entry, as this broker's
	// member knows them. Leads reports whether that member leads.
	Term, Commit uint64
	Leads        bool
	// Hanging is the time since the metadata store responded, if that is long; otherwise 0.
	Hanging time.Duration
	// Failed is why the metadata files of this broker accept no writes: then it does not vote.
	Failed string
	// Voters is the number of voters, 0 if it is not known. Unreachable are those to which this
	// broker has no connection, for people: "broker 2 (b:9092)".
	Voters      int
	Unreachable []string
	// Away are the brokers in Unreachable that are registered.
	Away []int32
	// Votes reports whether this broker has a vote. Lost are the other voters that run with another
	// metadata directory than the one that has the vote, and Whole those that do not, as in
	// Unreachable. Recover is the command that recovers the metadata on a voter that has them, if
	// so many are Lost that no majority can return; otherwise empty.
	Votes       bool
	Lost, Whole []string
	Recover     string
	// Unmoved are the brokers whose vote is still that of a metadata directory that they lost.
	Unmoved []int32
	// Orphans are the voters whose member no registered broker has, for Orphaned or longer.
	Orphans  int
	Orphaned time.Duration
	// Waits is why the members do not change as they must, for Waiting. Differ are brokers
	// with other cluster.seeds than this one, if that is why. Only the metadata leader knows them.
	// Fails reports that Waits is the error of a change that the leader tries again every second.
	Waits   string
	Fails   bool
	Waiting time.Duration
	Differ  []int32
	// Unregistered are the brokers that were unregistered and whose votes have not moved, sorted.
	// They are no Orphans.
	Unregistered []int32
}

// MostNamed is the maximum number of names in Partitions.
const MostNamed = 5

// Partitions is a number of partitions, and the names of the first few.
type Partitions struct {
	Count int      `json:"count"`
	Names []string `json:"names"`
}

// Add adds a partition.
func (p *Partitions) Add(topic string, index int32) {
	if p.Count++; len(p.Names) < MostNamed {
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
	// Recovered: the metadata were recovered, and an operator elects the replica with the most
	// records. Brokers are those whose replica cannot take part: they are not active, or report a
	// fault of the log or its directory.
	Recovered Waiting = "recovered"
	// Comparison: the replicas that are there came back after stops that were not clean, and wait a
	// while for another one to compare their logs with. Brokers have the others.
	Comparison Waiting = "comparison"
	// Elected: a broker could lead them, and the controller is about to elect it.
	Elected Waiting = "election"
)

// Leaderless is a group of partitions that have no leader for the same reason.
type Leaderless struct {
	Partitions
	Why Waiting
	// Brokers have all acknowledged records of these partitions, as far as any broker has.
	Brokers []int32
	Sole    bool // no other broker has a replica of them
	// Lossless: an election of a Recovered partition in which all replicas take part loses nothing
	// that one of them still has.
	Lossless bool
	For      time.Duration // since such partitions were first seen
}

// Twins are several processes that run as one broker.
type Twins struct {
	Broker int32
	// Processes are at least two, sorted by Address, Host and Since.
	Processes []Process
	// Copies: they have the same metadata directory, or copies of it, so that each ends the
	// connections of the other one. Otherwise one is refused as long as the other one is connected.
	Copies bool
}

// Process is one of Twins. What is not known is empty.
type Process struct {
	Address string // that it advertises to other brokers
	Host    string // from which it connects, without a port
	// Since is when this broker has met it first, UTC. Only of itself it knows the begin.
	Since time.Time
	// Registered: of these processes, its registration is the newest one that this broker knows.
	Registered bool
}

// Stopped is a group of replicas of this broker that cannot follow one leader.
type Stopped struct {
	Partitions
	Leader int32
	// Ahead: the replica has records of a later leader epoch than its leader. Otherwise the replica
	// would have to discard committed records.
	Ahead bool
}

// WrongSeed is an entry of cluster.seeds that leads to no broker of the cluster, or to one to which
// another entry leads.
type WrongSeed struct {
	Address string
	Since   time.Time // since when this broker knows
	// Silent: nothing answers at the address, which no registered broker has. The broker of another
	// address that is not active may have it.
	Silent bool
	Err    string // why
}

// Unreached is a broker to which this one cannot connect.
type Unreached struct {
	Broker  int32
	Follows bool // it leads partitions, whose replicas here do not follow
	Address string
	Since   time.Time // since when none can be made while it runs
	Err     string    // of the last attempt, without what differs from one broker to the next
	// Refused reports that nothing listens at the address. Theirs and Ours report that the dates of
	// a certificate are the reason: that of the other broker, or that of this one.
	Refused, Theirs, Ours bool
	// Remedy is what to do if one of the two brokers refuses the other one until that is done, with
	// the words of the link, which also end Err. It is empty for other reasons.
	Remedy string
}

// Reason returns Err without Remedy.
func (x *Unreached) Reason() string { return strings.TrimSuffix(x.Err, "; "+x.Remedy) }

// Streams are totals of the replica streams of a broker. Frames are those with records.
type Streams struct {
	Connections                   uint64 // to leaders
	SentFrames, SentBytes         uint64 // to followers
	ReceivedFrames, ReceivedBytes uint64 // from leaders
	Waits                         uint64 // how often a follower's window was full
	// Truncated are records that this broker's replicas discarded because their leaders do not have
	// them. Refused are truncations that would have discarded committed records.
	Truncated, Refused uint64
}

// WithoutLeader returns the number of partitions of the whole cluster that have no leader.
func (c *Cluster) WithoutLeader() (n int) {
	for i := range c.Leaderless {
		n += c.Leaderless[i].Count
	}
	return n
}

// Of returns a broker, the zero Broker if it is not registered.
func (c *Cluster) Of(id int32) Broker {
	for i := range c.Brokers {
		if c.Brokers[i].ID == id {
			return c.Brokers[i]
		}
	}
	return Broker{}
}
