package inspect

import (
	"fmt"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
)

// Finding is one thing that is not as a clean stop leaves it.
type Finding struct {
	Kind   Kind   `json:"kind"`
	Effect Effect `json:"effect"`
	// Dir is the log directory, or the data directory of metadata.
	Dir string `json:"directory"`
	// File is the path that is damaged, or missing; Position is where in it, -1: all.
	File     string `json:"file"`
	Position int64  `json:"position"`
	// Topic is empty and Partition -1 where it concerns no single one.
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	// Detail says what stands there, and what should.
	Detail string `json:"detail"`
	// Start says what a start does about it, Repair what a repair does; empty: nothing.
	Start  string `json:"start"`
	Repair string `json:"repair,omitempty"`
	// Restore says what an operator does where no repair helps.
	Restore string `json:"restore,omitempty"`
	// Lost is what of the log is gone by it, and what a repair gives up.
	Lost []Loss `json:"lost,omitempty"`
}

// Healing says whether a start puts it right without a loss, so that nothing needs to
// be done.
func (f *Finding) Healing() bool { return f.Effect == Heals }

// Repairable says whether a repair does something about it.
func (f *Finding) Repairable() bool { return f.Repair != "" }

// Unknown stands for an end of a loss that nothing tells.
const Unknown = -1

// Loss is a range of offsets [From, To) of which records may be missing; To is Unknown
// where nothing tells how far it goes.
type Loss struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

// String is "orders-3: offsets 120 to 139", both included.
func (l Loss) String() string {
	return fmt.Sprintf("%s-%d: offsets %s", l.Topic, l.Partition, l.Offsets())
}

// Partition is what a start, or, where one is refused, a repair makes of a log.
type Partition struct {
	Dir       string `json:"directory"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Start is the first offset, Stored the end of what the checkpoint says to be in
	// segments, End the one after replaying the journal.
	Start  int64 `json:"start"`
	Stored int64 `json:"stored"`
	End    int64 `json:"end"`
	// Frames of the journal that lead there.
	Frames int `json:"frames"`
	// Batches and Bytes that were read in segments.
	Batches int   `json:"batches"`
	Bytes   int64 `json:"bytes"`
	// Effect is the worst of its findings; empty where there is none.
	Effect Effect `json:"effect,omitempty"`
	// Missing is what was acknowledged and is not there.
	Missing []Loss `json:"missing,omitempty"`

	id storage.ID
}

// Directory is one log directory.
type Directory struct {
	Path    string `json:"path"`
	Journal string `json:"journal"`
	ID      string `json:"id"`
	// Used: a broker has made logs in it, or a journal.
	Used bool `json:"used"`
	// Clean: the last stop was clean, and a start reads no journal.
	Clean bool `json:"clean"`
	// Checkpoint is its sequence; Redo where the journal is needed from, NextLSN where
	// it ends.
	Checkpoint uint64 `json:"checkpoint"`
	// CheckpointAt is when it was written, as far as the file system knows; zero otherwise.
	CheckpointAt time.Time `json:"checkpointAt"`
	RedoFile     uint64    `json:"redoFile"`
	RedoLSN      uint64    `json:"redoLsn"`
	NextLSN      uint64    `json:"nextLsn"`
	JournalFiles int       `json:"journalFiles"`
	Frames       int       `json:"frames"`
}

// Report is what Verify found.
type Report struct {
	Directories []Directory `json:"directories"`
	Partitions  []Partition `json:"partitions"`
	Findings    []Finding   `json:"findings"`

	dirs     []*dir
	rebuilds []*rebuild
}

// Clean says whether a start comes up with everything that was acknowledged, and
// reads of it find nothing wrong.
func (r *Report) Clean() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return !f.Healing() })
}

// Refused says whether a start would be refused.
func (r *Report) Refused() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Effect == Refuses })
}

// Missing returns everything that was acknowledged and is not there.
func (r *Report) Missing() (all []Loss) {
	for i := range r.Partitions {
		all = append(all, r.Partitions[i].Missing...)
	}
	return all
}

// Offsets is "120 to 139", both included.
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
