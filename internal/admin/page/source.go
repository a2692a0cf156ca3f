package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

// ErrNotServing is returned while the broker is starting or stopping. The page explains this error
// and those of NotFound; it shows any other as an internal error.
var ErrNotServing = errors.New("the broker is not serving clients")

// NotFound returns the error for a topic, a partition or a group that does not exist.
func NotFound(format string, args ...any) error {
	return &failure{http.StatusNotFound, fmt.Sprintf(format, args...), "It may have been deleted; see the current list."}
}

// Source returns the content of the page at the time of the call. Its methods must be safe for
// concurrent use; they return copies and hold no lock when they return. All except Status may fail
// with ErrNotServing.
type Source interface {
	// Status never fails: it also describes a broker that is starting.
	Status(ctx context.Context) Status
	Overview(ctx context.Context) (Overview, error)
	// Topics returns all topics in any order.
	Topics() ([]view.Topic, error)
	Topic(ctx context.Context, name string) (TopicDetail, error)
	// Records returns records of a partition of which this broker has a replica.
	Records(ctx context.Context, topic string, partition int32, which Which) (Records, error)
	// Groups returns the groups that this broker coordinates, in any order.
	Groups(ctx context.Context) ([]Group, error)
	Group(ctx context.Context, id string) (GroupDetail, error)
	// Connections returns the open client connections in any order.
	Connections() ([]view.Connection, error)
}

// Status describes the broker as a whole.
type Status struct {
	ID           int32
	Version      string
	Now, Started time.Time
	// Phase is what the broker does instead of serving ("recovering logs", "draining"), empty while
	// it serves. Progress has a line for each part of it.
	Phase    string
	Progress []string
	Profile  view.Profile // the default one; the zero Profile while the broker does not serve
	// Addresses are the addresses for clients.
	Addresses []string
	// Findings are all findings of the broker, worst first.
	Findings []health.Finding
}

// Overview is the part of the overview that only a serving broker has.
type Overview struct {
	Topics, Partitions, Groups, Connections int
	Dirs                                    []view.Dir
	// Brokers are the registered brokers by their ids; empty without a cluster.
	Brokers []view.Broker
	// Moving is the number of partitions of the cluster that are being reassigned.
	Moving  int
	Budgets []view.Budget
	// Waits has the requests that have waited the longest for the broker, at most MaxWaits, without
	// those that wait as their clients ask.
	Waits []view.Wait
	// Snapshots are those of the cluster; nil: there is neither an object store nor a snapshot.
	Snapshots *view.SnapshotList
	// Heap is the size of Go's heap in bytes. MemoryLimit is the limit of the process or its
	// container, 0 if there is none.
	Heap, MemoryLimit int64
}

// TopicDetail is one topic.
type TopicDetail struct {
	view.Topic
	Configs []Config
	// Findings are those about the topic or a partition of it.
	Findings   []health.Finding
	Partitions []view.Log // those on this broker, by number
}

// Config is a config of a topic with the source of its value.
type Config struct {
	Name, Value, Default string
	// Source is the source in words: "this topic", "broker's file", "default".
	Source string
	// Set reports whether a source other than the default sets the value.
	Set bool
	Doc string
}

// severityOf returns the severity of the problem of a partition or a topic, empty if it has none.
func severityOf(x interface {
	Problem() string
	Covered() bool
}) health.Severity {
	switch {
	case x.Problem() == "":
		return ""
	case x.Covered():
		return health.Warn
	}
	return health.Bad
}

// Records are the records at the end of a partition.
type Records struct {
	// Start and High bound the offsets of its records.
	Start, High int64
	List        []Record // by offset
	Next        int64    // the offset after those that were read
	// Note is the reason why there are fewer records than requested, empty otherwise.
	Note string
}

// Which are records to show: Most at most, from the offset From on, or if that is below 0 from the
// time Since on, or if that is zero the last ones of the partition.
type Which struct {
	From  int64
	Since time.Time
	Most  int
}

// Record is one record. Key, Value and the values of headers hold at most their first MaxShown
// bytes; the sizes are the original ones.
type Record struct {
	Offset             int64
	Time               time.Time // zero: the record has none
	Key, Value         []byte    // nil: null
	KeySize, ValueSize int
	Headers            []Header // the first MaxHeaders
	HeaderCount        int
}

// Header is a header of a record.
type Header struct {
	Key       string
	Value     []byte // nil: null
	ValueSize int
}

// Limits of what the page shows of records.
const (
	MaxShown   = 2048 // bytes of a key, a value or a header
	MaxHeaders = 20
	MaxLast    = 100 // records
)

// MaxWaits is the maximum number of waiting requests in the overview.
const MaxWaits = 5

// Group is a group with its worst finding.
type Group struct {
	view.Group
	Severity health.Severity
	Problem  string
}

// GroupDetail is one group.
type GroupDetail struct {
	Group
	Findings []health.Finding // those about the group
}
