package storage

import (
	"math"
	"sort"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/pkg/durability"
)

// ends are the offsets that a log has assigned, written and made durable. Reading them needs no
// lock.
type ends struct {
	logStart atomic.Int64
	// startSynced is a log start that is known to be in a checkpoint. The log never begins below it
	// again; a start that is not in a checkpoint yet may be lost in a crash.
	startSynced atomic.Int64
	logEnd      atomic.Int64
	written     atomic.Int64
	durable     atomic.Int64
	// syncTo is the end that Sync wants to be durable.
	syncTo atomic.Int64
}

// Ends are a log's offsets. LogStart ≤ Durable ≤ Written ≤ LogEnd holds except for a moment after
// records were deleted: then LogStart may be above Durable.
type Ends struct {
	LogStart int64 // first readable offset
	Durable  int64 // records below it survive a power loss
	Written  int64 // records below it survive the end of the process
	LogEnd   int64 // next offset
}

// Ends returns the offsets. Each is read at a different moment during the call. Those of a log that
// is offline may be too low; see Readable.
func (x *ends) Ends() Ends {
	e := Ends{LogStart: x.logStart.Load(), Durable: x.durable.Load()}
	e.Written = max(x.written.Load(), e.Durable)
	e.LogEnd = max(x.logEnd.Load(), e.Written)
	return e
}

// Readable returns the offsets of a log that serves records, or why it does not serve them. A
// caller for whom an end means that there are no records beyond it must ask for both at once: while
// a log is offline, it has the ends of its checkpoint entry, which lack what the journal has.
func (l *Log) Readable() (Ends, error) {
	l.mu.RLock() // the ends fall only after the state has changed, and rise again before
	defer l.mu.RUnlock()
	if l.dir.opt.broken.has(endsOffline) {
		return l.Ends(), nil
	}
	return l.Ends(), l.refusedLocked(loglife.Read)
}

// moveStart sets the log start, also for checkpoints.
func (x *ends) moveStart(start int64) {
	x.logStart.Store(start)
	x.startSynced.Store(start)
}

// moveEnd sets the log end, the written end and the durable end.
func (x *ends) moveEnd(end int64) {
	x.syncTo.Store(end)
	x.logEnd.Store(end)
	x.written.Store(end)
	x.durable.Store(end)
}

// AckEnd returns the offset below which records meet the durability profile.
func (l *Log) AckEnd() int64 { return l.AckOf(l.Ends()) }

// AckOf returns which of the ends of the log AckEnd is.
func (l *Log) AckOf(e Ends) int64 {
	if l.cfg.Load().Profile.Ack == durability.Synced {
		return e.Durable
	}
	return e.Written
}

// Sync requests that the records below end become durable soon, whether the log has them already or
// not, although its profile may not ask for it. It does not wait: the durable end tells.
func (l *Log) Sync(end int64) {
	for now := l.syncTo.Load(); now < end; now = l.syncTo.Load() {
		l.syncTo.CompareAndSwap(now, end)
	}
	if l.durable.Load() < end {
		l.dir.journal.Sync() // of what it has; chunkWritten asks for the rest
	}
}

// stored is the part of a log that is in segments. Guarded by Log.mu.
type stored struct {
	segments []*segment.Segment // replaced, never changed: readers may hold the list
	flushed  int64              // end offset of the data in segments
	rp       checkpoint.Point
	// lowestUnsynced is the LSN of the first frame whose batches are in a segment but not yet
	// synced there; 0 if there is none.
	lowestUnsynced journal.LSN
	flushedLSN     journal.LSN // of the last chunk in a segment
}

// last returns the active segment, nil if there is none.
func (s *stored) last() *segment.Segment {
	if n := len(s.segments); n > 0 {
		return s.segments[n-1]
	}
	return nil
}

// SealedEnd returns where the active segment begins, the log start if there is none: the segments
// before it get no more records.
func (l *Log) SealedEnd() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if s := l.last(); s != nil {
		return s.Base()
	}
	return l.logStart.Load()
}

// segmentAt returns the segment that would hold offset, nil if there is none, and the offset at
// which the next segment or the data in memory begins.
func (s *stored) segmentAt(offset int64) (seg *segment.Segment, next int64) {
	i := max(sort.Search(len(s.segments), func(i int) bool { return s.segments[i].Base() > offset }), 1) - 1
	if i >= len(s.segments) {
		return nil, s.flushed
	}
	return s.segments[i], s.end(i)
}

// end returns the end offset of segment i.
func (s *stored) end(i int) int64 {
	if i+1 < len(s.segments) {
		return s.segments[i+1].Base()
	}
	return s.flushed
}

// extents returns the segments as a checkpoint records them. All that was flushed must be synced.
func (s *stored) extents() []checkpoint.Extent {
	list := make([]checkpoint.Extent, len(s.segments))
	for i, seg := range s.segments {
		list[i] = checkpoint.Extent{Base: seg.Base(), Size: seg.Synced(), Aborted: seg.AbortedMark()}
	}
	return list
}

// empty sets the flushed end and the recovery point to end. Nothing below end is needed.
func (s *stored) empty(end int64, lsn journal.LSN) {
	s.flushed, s.flushedLSN, s.lowestUnsynced = end, max(s.flushedLSN, lsn), 0
	s.rp = checkpoint.Point{Offset: end, LSN: max(s.rp.LSN, lsn)}
}

// oldestLocked returns the smallest LSN of a frame whose batches are neither in synced segment
// bytes nor in a quarantine file, MaxUint64 if there is none. Frames whose owner has not been
// notified yet are not counted. The caller holds mu.
func (l *Log) oldestLocked() journal.LSN {
	if l.life.quarantine != nil { // such a log accepts no appends
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

// DurableStart returns a log start that survives a crash. It is at most Ends().LogStart.
func (x *ends) DurableStart() int64 { return min(x.startSynced.Load(), x.logStart.Load()) }
