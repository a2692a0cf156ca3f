package checks

import (
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

// Facts is the input of the checks: a snapshot that no longer changes. A zero value means
// "unknown", and no check reports it as a fault.
type Facts struct {
	Now time.Time
	// Serving is true while clients are served.
	Serving bool
	// Slow holds the facts that may wait for a disk; they are older than the rest.
	Slow
	// Files are the descriptors of the process.
	Files Files
	// Dirs are the log directories in use. Unopened are those that could not be opened.
	Dirs     []view.Dir
	Unopened []view.Dir
	// Lost are the directories that were removed while the broker uses them.
	Lost []Lost
	// Free are names for what is left of log directories; they are known if Lost is not empty.
	Free []Free
	// Memory and Clock are the machine's.
	Memory Memory
	Clock  Clock
	Boot   Boot
	// Settings is what was configured.
	Settings Settings
	// Certificates are those in use, and CertificateFiles what was found about their files.
	Certificates     []view.Certificate
	CertificateFiles []CertificateFile
	// Audit is the state of the audit log.
	Audit view.Audit
	// TokenKeys is the state of the keys that check tokens of OAUTHBEARER.
	TokenKeys TokenKeys
	// Partitions are the partitions that cannot be used here, or only in part.
	Partitions []view.Log
	// Exchanged are log directories that the broker has for the first time, if one that it had at
	// its last start is not there.
	Exchanged []string
	// Renewed are replicas that were copied again.
	Renewed view.Renewed
	// Coordinators are the partitions of coordinators' topics that are not served.
	Coordinators []Coordinator
	// SlowShares are the share partitions for which something takes time, or has failed.
	SlowShares []view.SlowShare
	// Held are the partitions whose last stable offset a transaction holds.
	Held []view.Held
	// Metadata is the state of the files with topics and configs.
	Metadata Metadata
	// Cluster is what a member of a cluster knows of it, nil for a broker without one.
	Cluster *view.Cluster
	// Forwarding is what is passed to other brokers for clients.
	Forwarding []view.Forwarding
	// Snapshots are those of the cluster, nil unless this broker leads the metadata.
	Snapshots *Snapshots
	// Uncopied are the partitions whose records this broker cannot copy to the object store.
	Uncopied []TierFailure
	// Unread are the partitions whose records only the object store has, and cannot be read there.
	Unread []TierFailure
	// Twins are the brokers as which several processes run.
	Twins []view.Twins
	// Others are the reports of the other registered brokers. A Monitor sets them.
	Others []Other
	// Refused is what was refused to clients in the last minute, or had to wait for a quota, and
	// ConnectionLimits are the present limits of connections by the names of their configs.
	Refused          []view.Refused
	ConnectionLimits map[string]int
	// Weaker names the topics whose profile acknowledges records that are only written, although
	// the default profile guarantees more.
	Weaker []string
	// Short are the topics with a retention of their own that is probably too short by mistake.
	Short []TopicFault
	// Invalid are the topics whose configuration is invalid, so that clients' records are refused:
	// their durability profile no longer exists, for example.
	Invalid []TopicFault
}

// TopicFault is what is wrong with the configuration of a topic.
type TopicFault struct{ Topic, Why string }

// listedFaults returns the first one in full, and the names of the others.
func listedFaults(of []TopicFault) string {
	problem := "topic " + of[0].Topic + ": " + of[0].Why
	if len(of) == 1 {
		return problem
	}
	var others []string
	for _, x := range of[1:] {
		others = append(others, x.Topic)
	}
	return problem + "; likewise " + listed(others, len(others))
}

// Other is the newest report of another registered broker.
type Other struct {
	health.Heard
	Active time.Time // since when the metadata show it as active; zero: they do not
}

// Slow are the facts whose source may wait for a disk that does not respond.
type Slow struct {
	// MountedDirs are the directories that hold data.
	MountedDirs []MountedDir
	// Archive is the directory of snapshots; the zero value if these are in a bucket, or nowhere.
	Archive MountedDir
	// Rebalancing are the groups that have been rebalancing for a minute or more.
	Rebalancing []view.Group
	// Undone are transactions that are decided and do not end.
	Undone []view.Undone
	// Access is what is odd about users and rights.
	Access Access
	// JournalTotals are the sizes of the file systems of journals, in bytes, by directory.
	JournalTotals map[string]int64
}

// Files are the open files of the process; sockets count.
type Files struct {
	Limit int // maximum number of open files
	Open  int
	// MaxConnections is the broker's own limit; a very large number means none.
	MaxConnections int
}

// MountedDir is a directory with data, and the file system and disk that it is on.
type MountedDir struct {
	Role  string // "log directory", "journal of ...", "data directory"
	Path  string
	Mount Mount
	Disk  Disk
}

func (p *MountedDir) String() string { return p.Role + " " + p.Path }

// Mount is a mounted file system; the zero value means unknown.
type Mount struct {
	Point   string   // mount point
	Type    string   // as the kernel names it: ext4, fuse.sshfs
	Source  string   // mounted device or source: /dev/sda1
	Options []string // of the mount and of the file system
	Device  string   // MAJOR:MINOR
}

// Disk is the block device below a file system; the zero value means that it is unknown, or that
// the file system has none.
type Disk struct {
	Name       string // of the whole disk: sda, nvme0n1
	WriteCache string // "write back", "write through"; empty means unknown
	Rotational bool
}

// Memory is in bytes; 0 means unknown, or no limit.
type Memory struct {
	Limit    int64 // of the container
	GoLimit  int64 // of the Go runtime
	Resident int64 // of the process
	Swapped  int64 // of the process
	// There is the memory that the broker found available when it started: the container's, a share
	// of the machine's, or the memory that GOMEMLIMIT implies.
	There int64
	// Budgets is the limit of requests, responses, records in memory, caches and maps together, and
	// Wanted the limit with enough memory.
	Budgets, Wanted int64
}

// Clock is the machine's clock.
type Clock struct {
	Known        bool // the kernel reports its synchronization
	Synchronized bool
	Stepped      time.Duration // by how much it was last set while the broker ran
	SteppedAt    time.Time     // zero if it was not set
}

// Boot reports whether the identifier of the running system is known; both are false before that
// was examined.
type Boot struct{ Known, Hidden bool }

// Listener is a bound address.
type Listener struct {
	Name, Listen, Advertise string
	// Open reports whether it is bound beyond loopback, AdvertisesLoopback whether clients
	// nevertheless receive a loopback address.
	Open, AdvertisesLoopback bool
	// TLS reports whether it is encrypted, Login whether it serves only clients that log in or show
	// a certificate.
	TLS, Login bool
	// Brokers reports whether the other brokers of the cluster connect to it.
	Brokers bool
}

// CertificateFile is the state of the certificate files of a listener.
type CertificateFile struct {
	Listener, File string
	Problem        string   // why changed files are not used; empty if there are none
	Warnings       []string // about the certificates in use
	// Stranger: the authorities of the listener's clients do not accept the certificate itself.
	Stranger bool
}

// TokenKeys is the state of the keys that check tokens; the zero value without OAUTHBEARER.
type TokenKeys struct {
	Source string    // oauth.jwks
	Keys   int       // in use
	Read   time.Time // when they were read; zero: never
	Error  string    // of the last attempt to read them; empty if it succeeded
}

// Access is what is odd about users and rights. The lists are of principals, and sorted.
type Access struct {
	WithoutRights    []string // users to whom no rule allows anything
	WithoutUser      []string // that rules name and that are no users
	SuperWithoutUser []string // of super-users, likewise
	Shadowed         []string // rules that allow what another denies
	// Bootstrap is the file of the first users, and NotAdded those in it that do not exist, or have
	// no password for the mechanism. Passwords are not compared: they may have been changed since.
	Bootstrap string
	NotAdded  []string
}

// Settings is the configuration.
type Settings struct {
	DataDir    string   // data.dir, absolute
	WorkingDir string   // of the process: relative paths of directories start there
	Warnings   []string // of the loader
	Secret     bool     // cluster.secret.file is set
	ACL        bool     // requests need rights
	Listeners  []Listener
	Admin      Listener     // an empty Listen: off
	Profile    view.Profile // the default durability profile, without measurements
	// Defaults of topics, and the limits that they must respect.
	MinISR, Replicas             int64
	RetentionBytes, SegmentBytes int64 // RetentionBytes -1: no limit
	MaxMessage, MaxRequest       int64
}

// Metadata is the state of the metadata's files.
type Metadata struct {
	Dir    string
	Failed string // why topics and configs cannot be changed; empty if they can
	Full   bool   // Failed says that a file system is full
	// Hanging is for how long a change waits for the disk; that of a cluster's store is in Quorum.
	Hanging time.Duration
	Copy    string // the location of their copy; empty in a cluster with three voters, where other brokers have them
	Behind  string // why the copy lacks changes; empty if it is complete
	// LostVote reports that the broker's vote is still with its former metadata directory, which is
	// lost. Until the vote has moved here, another lost directory may cost the majority.
	LostVote bool
	// Lacking are the parts of the broker that have not applied a change of the metadata.
	Lacking []Lacking
}

// Lacking is a part of the broker in which applying the metadata fails. It is tried again.
type Lacking struct {
	Part  string // the name of the metadata.Subscriber
	Since time.Time
	Error string
	// Replaced: the metadata show another process as this broker, which therefore leads and follows
	// nothing.
	Replaced bool
}

// Coordinator is a partition of a coordinators' topic whose groups, or transactional ids, are not
// served.
type Coordinator struct {
	Topic  string
	Index  int32
	Since  time.Time
	Failed bool // loading it has failed and is retried
}
