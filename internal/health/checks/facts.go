package checks

import (
	"fmt"
	"time"
)

// Facts is what checks go by: a snapshot that is not changed any more. A zero value means "not
// known", and no check takes it for a fault.
type Facts struct {
	Now time.Time
	// Serving is true while clients are served.
	Serving bool
	// Slow holds what may wait for a disk; it is older than the rest.
	Slow
	// Files are the descriptors of the process.
	Files Files
	// Dirs are the log directories in use, Unopened those that could not be opened.
	Dirs     []Dir
	Unopened []Unopened
	// Lost are the directories that were removed while the broker uses them.
	Lost []Lost
	// Memory and Clock are the machine's.
	Memory Memory
	Clock  Clock
	// Settings is what was configured.
	Settings Settings
	// Partitions are those that cannot be used here, or only in part.
	Partitions []Partition
	// Coordinators are the partitions of __consumer_offsets whose groups are not served.
	Coordinators []Coordinator
	// Metadata is where the broker keeps topics and configs.
	Metadata Metadata
	// Weaker names the topics whose profile acknowledges what is only written, though the default
	// profile promises more.
	Weaker []string
}

// Slow are the facts whose source may wait for a disk that does not answer.
type Slow struct {
	// Places are the directories that data is in.
	Places []Place
	// Rebalancing are the groups that have not finished a rebalance for a minute or more.
	Rebalancing []Rebalancing
	// JournalTotals are the sizes of the file systems of journals, in bytes, by directory.
	JournalTotals map[string]int64
}

// Unopened is a log directory that could not be opened at the start.
type Unopened struct {
	Path, Why, Remedy string
}

// Files are the open files of the process; sockets count.
type Files struct {
	Limit int // what the process may have open
	Open  int
	// MaxConnections is what the broker would take; a very large number is no bound.
	MaxConnections int
}

// Place is a directory that data is in, and where it lies.
type Place struct {
	Role  string // "log directory", "journal of ...", "data directory"
	Path  string
	Mount Mount
	Disk  Disk
}

func (p *Place) String() string { return p.Role + " " + p.Path }

// Mount is a mounted file system; the zero value is one that is not known.
type Mount struct {
	Point   string   // where it is mounted
	Type    string   // as the kernel names it: ext4, fuse.sshfs
	Source  string   // what is mounted: /dev/sda1
	Options []string // of the mount and of the file system
	Device  string   // MAJOR:MINOR
}

// Disk is the block device below a file system; the zero value is one that is
// not known, or a file system without one.
type Disk struct {
	Name       string // of the whole disk: sda, nvme0n1
	WriteCache string // "write back", "write through"; empty is not known
	Rotational bool
}

// Dir is a log directory.
type Dir struct {
	Path, Journal string
	Logs          int // partitions in it
	MaxOpenFiles  int // segment files that it keeps open at most
	// Free and Total are bytes of its file system; SpaceKnown is false if it did not report them.
	Free, Total int64
	SpaceKnown  bool
	MinFree     int64 // the disk guard's threshold, 0 where it is off
	// Err is why the directory takes no records, SpaceMessage why the disk guard refuses some;
	// empty if it takes all.
	Err, SpaceMessage string
	// SpaceCritical reports that the disk guard also refuses records of internal topics, such as
	// offsets that groups commit.
	SpaceCritical bool
	// Waiting is how long a write or an fdatasync of the journal was due and none ended.
	Waiting time.Duration
	// JournalBytes and JournalLimit are what the journal holds and may hold.
	JournalBytes, JournalLimit int64
	// Kept is what retention.bytes lets its logs hold, for those that time does not
	// bound; of how many logs.
	Kept     int64
	KeptLogs int
	// Syncs is what the journal measured, Probe what was measured on its disk on request,
	// in case that is too little.
	Syncs, Probe Latency
}

// Latency is how long fdatasyncs of a journal took.
type Latency struct {
	Count       uint64
	Median, P99 time.Duration // upper bounds of what was counted together
	Over        string        // which ones: "in the last 10m0s", "since the start", "in a probe"
	Records     float64       // that one made durable, on average; 0 is not known
}

// Memory is in bytes; 0 is not known, or no limit.
type Memory struct {
	Limit    int64 // of the container
	GoLimit  int64 // of the Go runtime
	Resident int64 // of the process
	Swapped  int64 // of the process
	// There is what the broker found when it started: the container's memory, a
	// part of the machine's, or what GOMEMLIMIT leaves room for.
	There int64
	// Budgets is what requests, answers, records that wait, caches and maps may fill,
	// and Wanted what they may where there is memory enough.
	Budgets, Wanted int64
}

// Clock is the machine's clock.
type Clock struct {
	Known        bool // the kernel reports its synchronization
	Synchronized bool
	Stepped      time.Duration // by how much it was last set while the broker ran
	SteppedAt    time.Time     // zero where it was not
}

// Listener is an address that is bound.
type Listener struct {
	Name, Listen, Advertise string
	// Open says that it is bound beyond loopback, AdvertisesLoopback that clients
	// are told a loopback address all the same.
	Open, AdvertisesLoopback bool
}

// Settings is what was configured.
type Settings struct {
	DataDir    string   // data.dir, absolute
	WorkingDir string   // of the process: relative paths of directories begin there
	Warnings   []string // of the loader
	Listeners  []Listener
	Admin      Listener // an empty Listen: off
	// Profile is the default durability profile; Synced says that it acknowledges
	// only what is durable, Lost what a loss of power takes otherwise.
	Profile string
	Synced  bool
	Lost    string
	// Defaults of topics, and the bounds that they have to fit in.
	MinISR, Replicas             int64
	RetentionBytes, SegmentBytes int64 // RetentionBytes -1: no bound
	MaxMessage, MaxRequest       int64
}

// Partition is a partition of this broker that cannot be used, or only in part.
type Partition struct {
	Topic   string
	Index   int32
	Offline string   // why it can be neither written nor read; empty if it can
	Damages []Damage // what reads found damaged
	Dir     string   // the log directory; empty if the partition has no log
	Retried bool     // it has no log yet, and the broker retries to create it
}

// Damage is a range of offsets that cannot be read.
type Damage struct {
	From, Next int64 // the first of them, and the first one behind that can be read
	Where      string
}

// Metadata is the state of the metadata's files.
type Metadata struct {
	Dir    string
	Failed string // why topics and configs cannot be changed; empty if they can
	Copy   string // where their copy is
	Behind string // why the copy lacks changes; empty if it has all
}

// String is the partition as Kafka names it.
func (p *Partition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Index) }

// Coordinator is a partition of __consumer_offsets whose groups are not served.
type Coordinator struct {
	Index  int32
	Since  time.Time
	Failed bool // loading it has failed, and is retried
}

// Rebalancing is a group that does not finish a rebalance.
type Rebalancing struct {
	Group, State string
	Since        time.Time // at the latest
}
