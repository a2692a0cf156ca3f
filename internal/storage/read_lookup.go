package storage

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// trim returns the size of the whole batches at the start of p that begin below limit and fit into
// max bytes. If atLeastOne is set, the first batch always fits.
func trim(p []byte, limit int64, max int, atLeastOne bool) int {
	n := 0
	for n < len(p) {
		b, _, err := record.Next(p[n:])
		if err != nil || b.BaseOffset() >= limit || n+len(b) > max && (n > 0 || !atLeastOne) {
			break
		}
		n += len(b)
	}
	return n
}

// Bytes estimates the size of the batches in [offset, limit), up to max. It does not read the disk.
func (l *Log) Bytes(offset, limit, max int64) (n int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if offset >= limit {
		return 0
	}
	start, ok := l.tail.start()
	if !ok || offset < start {
		return max // on disk: assume a whole segment
	}
	for i := l.tail.find(offset); i < len(l.tail.chunks) && n < max; i++ {
		c := l.tail.chunks[i]
		if c.base >= limit {
			break
		}
		p := c.data
		if c.base < offset {
			p = p[c.batchAt(offset):]
		}
		n += int64(trim(p, limit, len(p), true))
	}
	return n
}

// Timestamp is a record's offset and timestamp.
type Timestamp struct {
	Offset int64 // -1: none
	Time   int64
	Epoch  int32 // leader epoch, -1 if unknown
}

var noTimestamp = Timestamp{Offset: -1, Time: -1, Epoch: -1}

// first returns the offset below which all records are deleted. The caller must not hold mu.
func (l *Log) first() int64 { return max(l.logStart.Load(), l.observer().Deleted()) }

// FindTime returns the first record in [log start, limit) with a timestamp of at least ts.
func (l *Log) FindTime(ts, limit int64) (Timestamp, error) {
	return retryReplaced(func() (Timestamp, error) { return l.findTime(ts, limit) })
}

// retryReplaced repeats a lookup as long as a compaction replaces a segment during it.
func retryReplaced(lookup func() (Timestamp, error)) (Timestamp, error) {
	for {
		t, err := lookup()
		if !errors.Is(err, segment.ErrReplaced) {
			return t, err
		}
	}
}

func (l *Log) findTime(ts, limit int64) (Timestamp, error) {
	now, memory, err := l.contents(limit)
	if err != nil {
		return noTimestamp, err
	}
	defer memory.Release()
	segments := now.segments
	for i, s := range segments {
		if i+1 < len(segments) && segments[i+1].Base() <= l.first() {
			continue
		}
		for from := l.first(); ; { // the log may start inside a batch
			b, err := s.FindTimestamp(ts, from)
			if err != nil {
				_, err = l.fromDisk(nil, nil, err, s)
				return noTimestamp, err
			}
			if len(b) == 0 {
				break
			}
			if t, ok, err := l.findInBatch(b, ts, limit); ok || err != nil {
				return t, err
			}
			from = b.LastOffset() + 1
		}
	}
	for _, p := range memory.Parts {
		for len(p) > 0 {
			b, rest, err := record.Next(p)
			if err != nil {
				return noTimestamp, fmt.Errorf("%w: %s: %w", ErrCorrupt, l, err)
			}
			p = rest
			if b.Newest() < ts {
				continue
			}
			if t, ok, err := l.findInBatch(b, ts, limit); ok || err != nil {
				return t, err
			}
		}
	}
	return noTimestamp, nil
}

// snapshot returns the current segments.
func (l *Log) snapshot() ([]*segment.Segment, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.snapshotLocked()
}

// snapshotLocked is snapshot for a caller that holds mu.
func (l *Log) snapshotLocked() ([]*segment.Segment, error) {
	return l.segments[:len(l.segments):len(l.segments)], l.refusedLocked(loglife.Read)
}

// searchState is the state of a log that a lookup searches.
type searchState struct {
	segments []*segment.Segment
	start    int64
	cuts     int
}

// contents returns the segments, and the batches below limit that are in none of them, both at one
// moment: so a lookup does not miss batches that are flushed in the meantime. The slice must be
// released.
func (l *Log) contents(limit int64) (now searchState, memory Slice, err error) {
	first := l.first()
	l.mu.RLock()
	defer l.mu.RUnlock()
	now = searchState{start: first, cuts: l.cuts}
	if now.segments, err = l.snapshotLocked(); err != nil {
		return now, Slice{}, err
	}
	if lacking := l.refusedLocked(loglife.Whole); lacking != nil && limit > l.flushed {
		return now, Slice{}, lacking // the offsets are being replayed
	}
	if c := l.tail.firstUnflushed(); c != nil {
		memory = l.readTailLocked(c.base, limit, math.MaxInt, true)
	}
	return now, memory, nil
}

// changed reports whether anything in a lookup's view has left the log since.
func (l *Log) changed(since searchState) bool {
	first := l.first()
	l.mu.RLock()
	defer l.mu.RUnlock()
	return first != since.start || l.cuts != since.cuts || !slices.Equal(l.segments, since.segments)
}

// findInBatch finds the first record of a batch with a timestamp of at least ts.
func (l *Log) findInBatch(b record.Batch, ts, limit int64) (Timestamp, bool, error) {
	off, t, ok, err := b.FindTimestamp(ts, l.first(), l.dir.opt.inflating())
	if err != nil {
		return noTimestamp, false, fmt.Errorf("%w: %s: %w", ErrCorrupt, l, err)
	}
	return Timestamp{Offset: off, Time: t, Epoch: b.LeaderEpoch()}, ok && off < limit, nil
}

// MaxTime returns the first record with the largest timestamp in [log start, limit), for
// ListOffsets with timestamp -3 (KIP-734).
func (l *Log) MaxTime(limit int64) (Timestamp, error) {
	return retryReplaced(func() (Timestamp, error) {
		most, saw, err := l.maxTime(limit)
		if err != nil || most < 0 {
			return noTimestamp, err
		}
		t, err := l.findTime(most, limit)
		if err == nil && t.Time != most && l.changed(saw) {
			err = segment.ErrReplaced // the record has been removed since
		}
		return t, err
	})
}

// maxTime returns the largest timestamp in [log start, limit), -1 if there is none, and the state
// that it searched.
func (l *Log) maxTime(limit int64) (most int64, saw searchState, err error) {
	saw, memory, err := l.contents(limit)
	if err != nil {
		return -1, saw, err
	}
	defer memory.Release()
	most = -1
	for _, s := range saw.segments {
		ts, at, err := s.MaxTimestamp()
		if err == nil && (s.Base() < l.first() || at >= limit) {
			ts, err = l.maxInSegment(s, limit)
		}
		if err != nil {
			_, err = l.fromDisk(nil, nil, err, s)
			return -1, saw, err
		}
		most = max(most, ts)
	}
	for _, p := range memory.Parts {
		eachBatch(p, func(b record.Batch) { most = max(most, l.maxInBatch(b, limit)) })
	}
	return most, saw, nil
}

// maxInBatch returns the largest timestamp of a batch in [log start, limit), -1 if it has no record
// there.
func (l *Log) maxInBatch(b record.Batch, limit int64) int64 {
	start := l.first()
	switch {
	case b.LastOffset() < start || b.BaseOffset() >= limit:
		return -1
	case b.BaseOffset() >= start:
		return b.Newest()
	}
	for most := int64(-1); ; { // the log starts inside the batch: find ever larger timestamps
		t, ok, err := l.findInBatch(b, most+1, limit)
		if !ok || err != nil {
			return most
		}
		most = t.Time
	}
}

// maxInSegment returns the largest timestamp in [log start, limit) of a segment that is only partly
// in that range.
func (l *Log) maxInSegment(s *segment.Segment, limit int64) (most int64, err error) {
	most = -1
	start, straddles := l.first(), false
	err = s.Headers(s.Base(), func(b record.Batch) bool {
		if b.BaseOffset() < start {
			straddles = straddles || b.LastOffset() >= start
		} else if b.BaseOffset() < limit {
			most = max(most, b.Newest())
		}
		return b.LastOffset() < limit
	})
	if err != nil || !straddles {
		return most, err
	}
	whole, err := s.Read(start, limit, 1, true)
	if err != nil && !errors.Is(err, segment.ErrEnd) {
		return most, err
	}
	eachBatch(whole, func(b record.Batch) { most = max(most, l.maxInBatch(b, limit)) })
	return most, nil
}
