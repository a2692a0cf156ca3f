package inspect

import (
	"fmt"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
)

// Finding is one difference from the state that a clean stop leaves.
type Finding struct {
	Kind   Kind   `json:"kind"`
	Effect Effect `json:"effect"`
	// Dir is the log directory, or the data directory of metadata.
	Dir string `json:"directory"`
	// File is the path that is damaged or missing. Position is the offset in it, -1 for all of it.
	File     string `json:"file"`
	Position int64  `json:"position"`
	// Topic is empty and Partition is -1 if the finding concerns no single partition.
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	// Detail describes the actual and the expected state.
	Detail string `json:"detail"`
	// Start is what the broker does about it at startup. Repair is what a repair does; empty
	// means nothing.
	Start  string `json:"start"`
	Repair string `json:"repair,omitempty"`
	// Restore is what an operator can do if no repair helps.
	Restore string `json:"restore,omitempty"`
	// Lost lists the records of the log that are lost, or that a repair gives up.
	Lost []Loss `json:"lost,omitempty"`
}

// Healing reports whether startup resolves the finding without a loss, so that the operator need
// not act.
func (f *Finding) Healing() bool { return f.Effect == Heals }

// Repairable reports whether a repair does something about the finding.
func (f *Finding) Repairable() bool { return f.Repair != "" }

// Unknown is the end of a loss if its extent is unknown.
const Unknown = -1

// Loss is a range of offsets [From, To) of which records may be missing. To is Unknown if the
// extent is unknown.
type Loss struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

// String returns for example "orders-3: offsets 120 to 139"; both offsets are included.
func (l Loss) String() string {
	return fmt.Sprintf("%s-%d: offsets %s", l.Topic, l.Partition, l.Offsets())
}

// Partition is the state of a log after startup or, if the broker refuses to start, after a repair.
type Partition struct {
	Dir       string `json:"directory"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Start is the log start, Stored the recovery point of the checkpoint, and End the end after
	// replaying the journal.
	Start  int64 `json:"start"`
	Stored int64 `json:"stored"`
	End    int64 `json:"end"`
	// Lossy: an earlier repair left out records, or a start has lost some, and the cluster does not
	// know yet.
	Lossy bool `json:"lossy,omitempty"`
	// Frames is the number of journal frames between Stored and End.
	Frames int `json:"frames"`
	// Batches and Bytes are the contents of the segments that were read.
	Batches int   `json:"batches"`
	Bytes   int64 `json:"bytes"`
	// Effect is the worst effect of its findings; empty if there are none.
	Effect Effect `json:"effect,omitempty"`
	// Missing lists the acknowledged records that are missing.
	Missing []Loss `json:"missing,omitempty"`

	id storage.ID
}

// Directory is the state of one log directory.
type Directory struct {
	Path    string `json:"path"`
	Journal string `json:"journal"`
	ID      string `json:"id"`
	// Used: a broker has created logs or a journal in it.
	Used bool `json:"used"`
	// Clean: the last stop was clean, and recovery reads no journal.
	Clean bool `json:"clean"`
	// Checkpoint is the sequence of the checkpoint. RedoFile and RedoLSN are the position from
	// which recovery reads the journal, and NextLSN is the journal's end.
	Checkpoint uint64 `json:"checkpoint"`
	// CheckpointAt is when it was written, according to the file system; zero if that is unknown.
	CheckpointAt time.Time `json:"checkpointAt"`
	RedoFile     uint64    `json:"redoFile"`
	RedoLSN      uint64    `json:"redoLsn"`
	NextLSN      uint64    `json:"nextLsn"`
	JournalFiles int       `json:"journalFiles"`
	Frames       int       `json:"frames"`
}

// Inspection is the result of Verify.
type Inspection struct {
	Directories []Directory `json:"directories"`
	Partitions  []Partition `json:"partitions"`
	Findings    []Finding   `json:"findings"`

	dirs     []*dir
	rebuilds []*rebuild
	lastCopy string          // Options.LastCopyCommand
	cluster  *metadata.Image // of the broker's cluster; nil if it has none, or its metadata cannot be read
}

// Clean reports whether recovery restores everything that was acknowledged, and all of it can be
// read.
func (r *Inspection) Clean() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return !f.Healing() })
}

// Refused reports whether the broker would refuse to start.
func (r *Inspection) Refused() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Effect == Refuses })
}

// Missing returns all acknowledged records that are missing.
func (r *Inspection) Missing() (all []Loss) {
	for i := range r.Partitions {
		all = append(all, r.Partitions[i].Missing...)
	}
	return all
}

// Offsets returns for example "120 to 139"; both offsets are included.
func (l Loss) Offsets() string {
	switch l.To {
	case Unknown:
		return fmt.Sprintf("from %d on, if there were any", l.From)
	case l.From + 1:
		return fmt.Sprint(l.From)
	}
	return fmt.Sprintf("%d to %d", l.From, l.To-1)
}

// Internal reports whether a topic is one that the broker itself writes.
func Internal(topic string) bool { return metadata.IsInternal(topic) }
