package storage

import (
	"math"
	"sort"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/pkg/durability"
)

// ends are the offsets up to which a log is numbered, written and durable. They may be read
// without a lock.
type ends struct {
	logStart atomic.Int64
	// startSynced is a start that a checkpoint is known to hold: where it may have
	// been lower than the log's is now, the log never begins below it again.
	startSynced atomic.Int64
	logEnd      atomic.Int64
	written     atomic.Int64
	durable     atomic.Int64
}

// Ends are a log's offsets: LogStart ≤ Durable ≤ Written ≤ LogEnd but right
// after a deletion of records, when LogStart may be above Durable for a moment.
type Ends struct {
	LogStart int64 // the first offset that may be read
	Durable  int64 // below it everything survives a loss of power
	Written  int64 // below it everything survives the end of the process
	LogEnd   int64 // the next offset
}

// Ends returns the ends, each as of a moment during the call.
func (x *ends) Ends() Ends {
	e := Ends{LogStart: x.logStart.Load(), Durable: x.durable.Load()}
	e.Written = max(x.written.Load(), e.Durable)
	e.LogEnd = max(x.logEnd.Load(), e.Written)
	return e
}

// moveStart makes start the first offset, also for checkpoints.
func (x *ends) moveStart(start int64) {
	x.logStart.Store(start)
	x.startSynced.Store(start)
}

// moveEnd makes end the end of all that is numbered, written and durable.
func (x *ends) moveEnd(end int64) {
	x.logEnd.Store(end)
	x.written.Store(end)
	x.durable.Store(end)
}

// AckEnd is the end below which records count as the profile demands.
func (l *Log) AckEnd() int64 {
	if l.cfg.Load().Profile.Ack == durability.Synced {
		return l.durable.Load()
	}
	return max(l.written.Load(), l.durable.Load())
}

// stored is the part of a log that is in segments. It is guarded by Log.mu.
type stored struct {
	segments []*segment.Segment // replaced, not changed: readers may hold the list
	flushed  int64              // end of what is in segments
	rp       checkpoint.Point
	// lowestUnsynced is the LSN of the first frame that is in segments but not
	// synced there; 0 if there is none.
	lowestUnsynced journal.LSN
	flushedLSN     journal.LSN // of the last chunk in segments
}

// last returns the segment that is appended to, nil if there is none.
func (s *stored) last() *segment.Segment {
	if n := len(s.segments); n > 0 {
		return s.segments[n-1]
	}
	return nil
}

// at returns the segment that would hold offset, nil if there is none, and where what
// follows it begins: the next segment, or what is in no segment.
func (s *stored) at(offset int64) (seg *segment.Segment, next int64) {
	i := max(sort.Search(len(s.segments), func(i int) bool { return s.segments[i].Base() > offset }), 1) - 1
	if i >= len(s.segments) {
		return nil, s.flushed
	}
	return s.segments[i], s.end(i)
}

// end returns the offset at which a segment ends.
func (s *stored) end(i int) int64 {
	if i+1 < len(s.segments) {
		return s.segments[i+1].Base()
	}
	return s.flushed
}

// extents lists the segments with the bytes that are synced.
func (s *stored) extents() []checkpoint.Extent {
	list := make([]checkpoint.Extent, len(s.segments))
	for i, seg := range s.segments {
		list[i] = checkpoint.Extent{Base: seg.Base(), Size: seg.Synced()}
	}
	return list
}

// empty makes end the end of what is stored, of which nothing is needed.
func (s *stored) empty(end int64, lsn journal.LSN) {
	s.flushed, s.flushedLSN, s.lowestUnsynced = end, max(s.flushedLSN, lsn), 0
	s.rp = checkpoint.Point{Offset: end, LSN: max(s.rp.LSN, lsn)}
}

// oldestLocked returns the smallest LSN of a frame that is contained neither in
// synced segment bytes nor in a file aside, and MaxUint64 if there is none. Frames
// whose owner has not been notified don't count.
func (l *Log) oldestLocked() journal.LSN {
	if l.life.aside != nil { // a log takes no appends then
		return math.MaxUint64
	}
	if l.lowestUnsynced != 0 {
		return l.lowestUnsynced
	}
	if c := l.tail.firstUnflushed(); c != nil && c.first != 0 {
		return c.first
	}
	return math.MaxUint64
}
