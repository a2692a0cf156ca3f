package storage

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// Truncate cuts the log to end: a follower's history parts from its leader's
// there. No append may be waiting. It returns when the cut is durable.
//
// The checkpoint is the commit point: it says that the log ends at the new
// recovery point and is to be cut there, whatever frames or bytes are found
// beyond it; only then is anything cut. A crash before it leaves the old log, a
// crash after it the new one.
func (l *Log) Truncate(end int64) error { return l.replaceEnd(end, false) }

// Reset empties the log; it goes on at start. A follower that is behind its
// leader's log start begins anew so.
func (l *Log) Reset(start int64) error { return l.replaceEnd(start, true) }

func (l *Log) replaceEnd(end int64, reset bool) error {
	l.own()
	defer l.disown()
	if err := l.settleAll(); err != nil {
		return fmt.Errorf("truncate %s: %w", l, err)
	}
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if !reset && end >= l.logEnd.Load() {
		return nil
	}
	keep, gone, size, err := l.splitAt(end, reset)
	if err != nil {
		return fmt.Errorf("truncate %s to %d: %w", l, end, err)
	}
	rest, err := l.dropTail(end, keep, size, reset)
	if err != nil {
		return fmt.Errorf("truncate %s to %d: %w", l, end, err)
	}
	if err := l.dir.commitPoint(l.dir.opt.broken.silentCut); err != nil {
		// The old or the new end may be on the disk.
		l.hold(fmt.Errorf("%w: %s was being truncated: %w", ErrFailed, l, err))
		return err
	}
	if err := l.cutFiles(keep, gone, size, end); err != nil {
		l.goOffline(err)
		return fmt.Errorf("truncate %s to %d: %w", l, end, err)
	}
	l.dir.memory.drop(rest, len(rest))
	l.mu.Lock()
	l.cut = false
	through := l.mode == writeThrough
	l.mu.Unlock()
	if !through { // a journalled log is cut at its recovery point anyway
		return nil
	}
	if err := l.dir.checkpoint(nil); err != nil {
		l.hold(fmt.Errorf("%w: %s was being truncated: %w", ErrFailed, l, err))
		return err
	}
	return nil
}

// splitAt finds what stays: the segments that do, and the size of the last one.
func (l *Log) splitAt(end int64, reset bool) (keep, gone []*segment.Segment, size int64, err error) {
	segments, err := l.snapshot()
	if err != nil {
		return nil, nil, 0, err
	}
	n := 0
	for n < len(segments) && !reset && segments[n].Base() < end {
		n++
	}
	keep, gone = segments[:n], segments[n:]
	if n == 0 {
		return keep, gone, 0, nil
	}
	last := keep[n-1]
	pos, found, err := last.Find(end)
	if err != nil {
		return nil, nil, 0, err
	}
	if found == 0 {
		return keep, gone, last.Size(), nil
	}
	return keep, gone, pos, nil
}

// dropTail takes the end of the log back in memory.
func (l *Log) dropTail(end int64, keep []*segment.Segment, size int64, reset bool) ([]*chunk, error) {
	if !reset && len(keep) > 0 {
		// A batch that straddles the end goes as a whole.
		err := keep[len(keep)-1].Headers(0, func(b record.Batch) bool {
			if b.LastOffset() >= end {
				end = min(end, b.BaseOffset())
				return false
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	gone := l.tail.evict() // settleAll flushed everything
	l.segments = keep
	l.rp = recoveryPoint{offset: end, lsn: max(l.rp.lsn, l.dir.journal.Assigned()), segments: l.extentsLocked()}
	if n := len(l.rp.segments); n > 0 {
		l.rp.segments[n-1].size = size
	}
	l.flushed, l.lowestUnsynced, l.cut = end, 0, true
	l.mu.Unlock()
	l.logEnd.Store(end)
	l.written.Store(min(l.written.Load(), end))
	l.durable.Store(min(l.durable.Load(), end))
	if reset || end < l.logStart.Load() {
		l.logStart.Store(end)
		l.durable.Store(end)
		l.written.Store(end)
	}
	l.smu.Lock()
	defer l.smu.Unlock()
	l.epochs.CutEnd(end)
	l.settled.Clear()
	if reset {
		l.epochs.Clear()
	} else if err := l.rebuildSettled(end); err != nil {
		return nil, err
	}
	l.producers.CopyFrom(&l.settled)
	return gone, nil
}

// rebuildSettled reads the producer state out of the segments, up to end. The
// caller holds smu.
func (l *Log) rebuildSettled(end int64) error {
	segments, err := l.snapshot()
	if err != nil {
		return err
	}
	now := l.dir.now()
	for _, s := range segments {
		err := s.Headers(0, func(b record.Batch) bool {
			if b.LastOffset() >= end {
				return false
			}
			l.settled.Add(b, now)
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// cutFiles makes the files what the checkpoint says they are.
func (l *Log) cutFiles(keep, gone []*segment.Segment, size, end int64) error {
	for _, s := range gone {
		if err := s.Remove(); err != nil {
			return err
		}
	}
	if n := len(keep); n > 0 {
		if err := keep[n-1].Cut(size, end); err != nil {
			return err
		}
	}
	return l.dir.opt.FS.SyncDir(l.path)
}

// SetLogStart makes start the first offset that may be read. Segments wholly
// below it are removed, after a checkpoint that says so is durable.
func (l *Log) SetLogStart(start int64) error {
	if start <= l.logStart.Load() {
		return nil
	}
	if end := l.Ends().Durable; start > end {
		if err := l.sync(); err != nil {
			return err
		}
		if end = l.Ends().Durable; start > end {
			return fmt.Errorf("%w: log start %d of %s is beyond its durable end %d", ErrOffsetOutOfRange, start, l, end)
		}
	}
	// No segment may be sealed between the checkpoint and the removal: the
	// recovery point that the checkpoint holds must lead to what stays.
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.logStart.Store(start)
	l.smu.Lock()
	l.epochs.CutStart(start)
	l.smu.Unlock()
	if err := l.dir.commitPoint(l.dir.opt.broken.silentStart); err != nil {
		return fmt.Errorf("move the start of %s: %w", l, err)
	}
	l.mu.Lock()
	n := 0
	for n+1 < len(l.segments) && l.segments[n+1].Base() <= min(start, l.rp.offset) {
		n++
	}
	gone := l.segments[:n]
	l.segments = l.segments[n:]
	l.rp.segments = l.rp.segments[min(n, len(l.rp.segments)):]
	l.mu.Unlock()
	for _, s := range gone {
		if err := s.Remove(); err != nil {
			return fmt.Errorf("move the start of %s: %w", l, err)
		}
	}
	return nil
}
