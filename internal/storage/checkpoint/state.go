package checkpoint

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// Header is the part of a checkpoint that describes the directory.
type Header struct {
	Seq     uint64           // grows with every commit
	Redo    journal.Position // first journal position that a start reads
	Durable journal.LSN      // every frame up to it was durable when the checkpoint was written
	Dir     [16]byte         // identity of the directory
	Journal [16]byte         // identity of its journal
	// Boot identifies the boot of the operating system under which the checkpoint was written; zero
	// if it is unknown.
	Boot    [16]byte
	Finding Finding
	Owner   Owner
	// Clean: a clean stop wrote the checkpoint, and Redo is a file of the journal without frames.
	Clean bool
}

// Owner is the cluster with which the broker last registered the directory, and the generation of
// its metadata; zero if it never did.
type Owner struct {
	Cluster, Generation [16]byte
}

// Finding is what the first start since the last registration found. It is zero in a new directory,
// and after a registration was noted. Two starts report the same ID only if no registration was
// noted between them; a start that opens a copy of the directory from before the first of them
// draws another one.
type Finding struct {
	ID  [16]byte // random
	Seq uint64   // of the checkpoint; 0: there was none
}

// State is a whole checkpoint.
type State struct {
	Header
	Logs []Log
}

// Log is the checkpoint's entry of one log.
type Log struct {
	ID             journal.StreamID
	Topic          string
	Deleted        bool   // a start removes it
	Offline        string // why it was found damaged; empty if it was not
	QuarantineFile string // quarantine file in the directory with the frames beyond the recovery point; empty: they are in the journal
	Start          int64  // the log start, the first offset that may be read
	// High is a lower bound of the high watermark, and HighEpoch the leader epoch in which this
	// broker learned it; -1: unknown. High may be above Offset, and after a power loss above the
	// end of the log.
	High        int64
	HighEpoch   int32
	AcksWritten bool // it may have acknowledged records that were written and not synced
	Lossy       bool // a power loss may have removed acknowledged records; see storage.Dir.Lossy
	Partial     bool // another replica may have records that this one lacks; see storage.Log.Whole
	// Led is the highest leader epoch that the log notes to have led in, 0 if it notes none; see
	// storage.Log.NoteLed.
	Led    int32
	Clean  int64 // all offsets below it have been compacted
	Relied int64 // compaction has removed records because of others below it
	// Swapping: the segment with base Swap is replacing others. Of a deleted log: it has moved to
	// another directory, and Swap is the number of the move.
	Swapping bool
	Swap     int64
	Point
	Epochs epochs.Cache
	// Producers is the state of idempotent producers, encoded by producers.State.
	Producers []byte
	// Flaws are the known stretches of segments that no reader can pass.
	Flaws []Flaw
}

// Flaw is the position of unreadable bytes in a segment, and the offsets that they held; see
// segment.Flaw.
type Flaw struct {
	Base, Pos, Size, From, To int64
}

// Point is a recovery point: all records below Offset are in Segments. Frames of the journal up to
// LSN do not count.
type Point struct {
	Offset   int64
	LSN      journal.LSN
	Segments []Extent
}

// Bytes returns the size of the records below the recovery point.
func (p *Point) Bytes() (n int64) {
	for _, e := range p.Segments {
		n += e.Size
	}
	return n
}

// Extent is a listed segment, the number of its bytes that count, and what its index of aborted
// transactions must be.
type Extent struct {
	Base, Size int64
	Aborted    txnindex.Mark
}

// String returns topic-partition, which is also the directory's name.
func (l *Log) String() string { return fmt.Sprintf("%s-%d", l.Topic, l.ID.Partition) }

// Above returns an LSN greater than every LSN that the checkpoint names. Recovery points may name
// LSNs that were assigned and never written. A frame that reused such an LSN would not count.
func (s *State) Above() journal.LSN {
	n := max(s.Durable+1, s.Redo.LSN)
	for i := range s.Logs {
		if l := &s.Logs[i]; l.Offline == "" {
			n = max(n, l.Point.LSN+1)
		}
	}
	return n
}

// Clone returns a copy of a state. The copy shares epochs and producer states: a caller that
// changes one must replace it as a whole.
func (s *State) Clone() *State {
	c := *s
	c.Logs = slices.Clone(s.Logs)
	for i := range c.Logs {
		c.Logs[i].Point.Segments = slices.Clone(c.Logs[i].Point.Segments)
	}
	return &c
}

// Update is the new entry of a log.
type Update struct {
	*Log
	// SameProducers: Producers are the same as in the last commit. They are not written, and the
	// field is not read; they are most of the entry of a log with many producers.
	SameProducers bool
}

// Change is the set of updates of one commit.
type Change struct {
	Header
	Logs []Update
}

// compare orders logs by id.
func compare(a, b journal.StreamID) int {
	return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
}
