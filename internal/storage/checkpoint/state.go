package checkpoint

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/journal"
)

// Header is what a checkpoint says of the directory.
type Header struct {
	Seq     uint64           // grows with every commit
	Redo    journal.Position // the journal is needed from here on
	Durable journal.LSN      // every frame up to it was durable when the checkpoint was written
	Dir     [16]byte         // identity of the directory
	Journal [16]byte         // and of its journal
	// Clean: a clean stop wrote the checkpoint, and Redo is a file of the journal without frames.
	Clean bool
}

// State is a whole checkpoint.
type State struct {
	Header
	Logs []Log
}

// Log is what a checkpoint says of one log.
type Log struct {
	ID       journal.StreamID
	Topic    string
	Deleted  bool   // a start removes it
	Offline  string // why it was found damaged; empty if it was not
	Aside    string // file in the directory with its frames beyond the recovery point; empty: they are in the journal
	Start    int64  // the first offset that may be read
	Clean    int64  // below it everything was compacted
	Swapping bool   // the segment with base Swap takes the place of others
	Swap     int64
	Point
	Epochs epochs.Cache
	// Producers is the state of idempotent producers as producers.State encodes it.
	Producers []byte
}

// Point is a recovery point: below Offset everything is in Segments. Frames of the
// journal up to LSN don't count.
type Point struct {
	Offset   int64
	LSN      journal.LSN
	Segments []Extent
}

// Extent is a listed segment and how many of its bytes count.
type Extent struct{ Base, Size int64 }

// String returns topic-partition, as in the directory's name.
func (l *Log) String() string { return fmt.Sprintf("%s-%d", l.Topic, l.ID.Partition) }

// Above returns an LSN greater than every LSN that the checkpoint names. Recovery
// points name LSNs that were assigned and may be on no disk; a frame that got one of
// them again would count as superseded.
func (s *State) Above() journal.LSN {
	n := max(s.Durable+1, s.Redo.LSN)
	for i := range s.Logs {
		if l := &s.Logs[i]; l.Offline == "" {
			n = max(n, l.Point.LSN+1)
		}
	}
	return n
}

// Clone returns a copy of a state. The copy shares epochs and producer states: a caller
// that changes one must replace it as a whole.
func (s *State) Clone() *State {
	c := *s
	c.Logs = slices.Clone(s.Logs)
	for i := range c.Logs {
		c.Logs[i].Point.Segments = slices.Clone(c.Logs[i].Point.Segments)
	}
	return &c
}

// Update is a log as it is from now on.
type Update struct {
	*Log
	// SameProducers: the last commit had the same Producers. They are not written, and the
	// field is not read: of a log with many producers they are nearly everything.
	SameProducers bool
}

// Change is what a commit changes.
type Change struct {
	Header
	Logs []Update
}

// compare orders logs by their id.
func compare(a, b journal.StreamID) int {
	return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
}
