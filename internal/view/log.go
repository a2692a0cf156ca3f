package view

import (
	"cmp"
	"fmt"
	"time"
)

// MaxLogs is the maximum number of logs in one response.
const MaxLogs = 10_000

// Logs is the response of GET /v1/logs.
type Logs struct {
	More bool  `json:"more"` // there are further logs
	List []Log `json:"logs"`
}

// Log is a partition's replica on the broker. Without a log, its offsets and sizes are 0, and Dir
// and its configs are empty unless they are known.
type Log struct {
	Topic          string  `json:"topic"`
	TopicID        string  `json:"topicId"`
	Partition      int32   `json:"partition"`
	Dir            string  `json:"dir"`
	Leader         int32   `json:"leader"` // -1: none, or unknown
	LeaderEpoch    int32   `json:"leaderEpoch"`
	ISR            []int32 `json:"isr"`
	Replicas       []int32 `json:"replicas"`
	MinISR         int     `json:"-"` // the effective min.insync.replicas; 0 if it is not known
	LogStart       int64   `json:"logStart"`
	LocalStart     int64   `json:"localStart"` // only the object store has the records below it
	HighWatermark  int64   `json:"highWatermark"`
	DurableEnd     int64   `json:"durableEnd"`
	LogEnd         int64   `json:"logEnd"`
	Bytes          int64   `json:"bytes"`
	Segments       int     `json:"segments"`
	Profile        string  `json:"profile"`
	CleanupPolicy  string  `json:"cleanupPolicy"`
	Internal       bool    `json:"-"`              // brokers write there, and no client
	RetentionMs    int64   `json:"retentionMs"`    // -1: no limit
	RetentionBytes int64   `json:"retentionBytes"` // -1: no limit
	Tier           *Tier   `json:"tier"`           // nil: the object store has nothing, and gets nothing
	// DirtyRatio is nil if the log is not compacted, and Retained is why the oldest segment still
	// exists, empty if there is none. Both may read the disk, so only GET /v1/logs has them.
	DirtyRatio *float64 `json:"dirtyRatio"`
	Retained   string   `json:"retained"`
	// Error is why the partition cannot be written here, empty if it can; if Offline is true, it
	// can be neither written nor read. Damaged is the first range of offsets that cannot be read,
	// empty if there is none, and Damages has all of them.
	Error   string   `json:"error"`
	Offline bool     `json:"offline"`
	Damaged string   `json:"damaged"`
	Damages []Damage `json:"-"`
	Exists  bool     `json:"-"` // there is a log; without one, the fields above have no values of it
	// Creating reports that the log is being created now, which is no fault. Retried reports that
	// it could not be created, or that its creation takes long: the broker retries.
	Creating bool `json:"creating"`
	Retried  bool `json:"-"`
	// Replicated: other brokers have replicas. Elsewhere: one of those is in sync, not damaged, and
	// serves all records. Renews: the broker replaces the damaged log, and copies the partition
	// again. The latter two are known only of a log with a problem.
	Replicated, Elsewhere, Renews bool `json:"-"`
	// The following are known to findings only. Reopens: the broker tries to open the log again.
	// Asks: the broker asks the controller for a higher leader epoch. Copy is not nil while the
	// partition is copied again because its log was damaged. Former, if it is not nil, is a damaged
	// log that may have records which no replica has.
	// Refuses is for how long the log has accepted no records, although it can be read; 0 if that
	// is a moment. Cause is what Error follows from, in words that do not name the partition: logs
	// with the same fault have the same. Planned is the directory in which the log could not be
	// created.
	Reopens, Asks bool          `json:"-"`
	Refuses       time.Duration `json:"-"`
	Cause         string        `json:"-"`
	Planned       string        `json:"-"`
	Full          bool          `json:"-"` // Error says that a file system is full

	Copy   *Copy   `json:"-"`
	Former *Former `json:"-"`

	// Missing names files of the log that were removed or cut while the broker uses them, empty if
	// there are none: they end with the process.
	Missing string `json:"missing"`
}

// Damage is a range of offsets that cannot be read.
type Damage struct {
	From, Next int64 // the first damaged offset, and the first readable offset after it
	Where      string
}

// Former is a damaged log that was replaced by a copy.
type Former struct {
	Path  string
	Bytes int64
}

// Copy is how far a partition is copied again.
type Copy struct {
	Leader int32 // -1: none
	Why    string
	// Have and Want are numbers of offsets, Want is -1 if it is not known. Bytes is what is here.
	Have, Want, Bytes int64
	// Still: nothing has come for a while, although something is missing.
	Still bool
}

// String returns the partition as Kafka names it.
func (l *Log) String() string { return fmt.Sprintf("%s-%d", l.Topic, l.Partition) }

// Where returns the directory in which the log is or could not be created, empty if it is unknown.
func (l *Log) Where() string { return cmp.Or(l.Dir, l.Planned) }

// Problem returns why some records cannot be written or read here, or end with the process; empty
// if nothing is wrong.
func (l *Log) Problem() string { return cmp.Or(l.Error, l.Damaged, l.Missing) }

// Covered reports whether another replica serves what this one cannot, or leads while the broker
// replaces this one by a copy.
func (l *Log) Covered() bool { return l.Elsewhere || !l.Offline && l.Renews }

// Renewed counts replicas that were copied again because their logs were damaged.
type Renewed struct {
	N    int
	Last string // topic-partition
	Why  string
	At   time.Time
}
