package view

import (
	"fmt"
	"time"
)

// Dir is a log directory with its journal, as JSON on the admin port. Sizes are in bytes.
type Dir struct {
	Path    string `json:"path"`
	ID      string `json:"id"`
	Journal string `json:"journal"`
	// JournalApart: the journal is not in the directory, and commands name it.
	JournalApart bool `json:"-"`
	// Error is why the directory accepts no records, empty if it does. If Unopened is true, it
	// could not be opened at the start; then only Path, ID, Journal, Space and Remedy are set
	// besides.
	Error    string `json:"error"`
	Unopened bool   `json:"-"`
	Full     bool   `json:"-"` // Error says that a file system is full
	Remedy   string `json:"-"`
	// Space is what the disk guard found. Refuses stays as it was when a file system stops
	// reporting its space. SpaceMessage explains it, empty if nothing is refused.
	Space        Space   `json:"space"`
	Refuses      Refusal `json:"-"`
	SpaceMessage string  `json:"spaceMessage"`
	// Free, Total and JournalFree are of the file systems, 0 if they were never reported. MinFree
	// is the disk guard's threshold, 0 if it is off.
	Free        int64 `json:"freeBytes"`
	Total       int64 `json:"totalBytes"`
	MinFree     int64 `json:"minFreeBytes"`
	JournalFree int64 `json:"journalFreeBytes"`
	// JournalBytes is what a recovery would read, JournalLimit the size at which commits wait.
	// Deferred records are in the journal and not yet in segments; Cached ones are in memory for
	// readers and in segments.
	JournalBytes int64 `json:"journalBytes"`
	JournalLimit int64 `json:"journalLimitBytes"`
	Deferred     int64 `json:"deferredBytes"`
	Cached       int64 `json:"cachedBytes"`
	// OpenFiles are segment files, MaxOpenFiles the maximum.
	OpenFiles    int `json:"openSegmentFiles"`
	MaxOpenFiles int `json:"-"`
	// Logs is the number of partitions, Offline of those that can be neither written nor read. Kept
	// is the sum of retention.bytes of the KeptLogs logs that have no limit by time.
	Logs     int   `json:"logs"`
	Offline  int   `json:"offline"`
	KeptLogs int   `json:"-"`
	Kept     int64 `json:"-"`
	// Arriving are the logs that move to the directory.
	Arriving []Arrival `json:"arriving,omitempty"`
	// Waiting is the time for which a write or an fdatasync of the journal has been due and none
	// has completed.
	Waiting time.Duration `json:"-"`
	// Syncs is the latency that the journal measured, Probe that of a measurement on request, in
	// case the journal has measured too little. SyncP50 and SyncP99 estimate the latencies since
	// the start in seconds, as Prometheus would from the histogram; 0 if there were no syncs.
	Syncs   Latency `json:"-"`
	Probe   Latency `json:"-"`
	SyncP50 float64 `json:"-"`
	SyncP99 float64 `json:"-"`
}

// Arrival is a log that moves to a directory.
type Arrival struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      string `json:"from"` // its present directory
	// Copied is how many bytes of Size are copied.
	Copied int64 `json:"copiedBytes"`
	Size   int64 `json:"sizeBytes"`
	// Error is why the move stands still and is tried again, empty if it does not.
	Error string `json:"error,omitempty"`
}

// String returns topic-partition.
func (a *Arrival) String() string { return fmt.Sprintf("%s-%d", a.Topic, a.Partition) }

// Left returns how many bytes of the logs that move to the directory are not copied.
func (d *Dir) Left() (n int64) {
	for i := range d.Arriving {
		n += max(d.Arriving[i].Size-d.Arriving[i].Copied, 0)
	}
	return n
}

// Space is what a disk guard knows of the free space of a log directory.
type Space string

// What a disk guard found.
const (
	SpaceOK       Space = "ok"
	SpaceLow      Space = "low"      // records of clients are refused
	SpaceCritical Space = "critical" // records of internal topics, such as committed offsets, too
	SpaceUnknown  Space = "unknown"  // the file system does not report it
)

// Refusal is which records a disk guard refuses.
type Refusal int

// The records that a disk guard refuses.
const (
	RefusesNone     Refusal = iota
	RefusesClients          // those of clients
	RefusesInternal         // those of internal topics too, such as committed offsets
)

// Known reports whether the file system reports its space.
func (s Space) Known() bool { return s != "" && s != SpaceUnknown }

// Used returns how many bytes of the file system are not free.
func (d *Dir) Used() int64 { return d.Total - d.Free }

// Problem returns why the directory or its disk does not accept all writes, empty if it does.
func (d *Dir) Problem() string {
	if d.Error != "" {
		return d.Error
	}
	return d.SpaceMessage
}

// State returns Problem in a word or two, "ok" without one.
func (d *Dir) State() string {
	switch {
	case d.Unopened:
		return "not opened"
	case d.Error != "":
		return "failed"
	case d.Refuses == RefusesInternal:
		return "critical space"
	case d.Refuses == RefusesClients:
		return "low space"
	}
	return "ok"
}

// Latency is the distribution of the fdatasync latencies of a journal.
type Latency struct {
	Count       uint64
	Median, P99 time.Duration // upper bounds of histogram buckets
	Over        string        // the period: "in the last 10m0s", "since the start", "in a probe"
	Records     float64       // records that a sync made durable, on average; 0 means unknown
}
