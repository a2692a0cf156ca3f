package storage

import (
	"fmt"
	"math"

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
	c, err := l.splitAt(end, reset)
	if err != nil {
		return fmt.Errorf("truncate %s to %d: %w", l, end, err)
	}
	l.dropTail(c)
	return l.finishCut()
}

// cutting is a truncation or reset of a log whose memory says already that it ends
// at end.
type cutting struct {
	keep, gone []*segment.Segment
	size       int64 // of the last one that stays
	end        int64
	reset      bool
}

// finishCut makes the disk what memory says. Until it comes to an end the log
// takes no appends, since the old or the new end may be on the disk; the
// maintenance goroutine tries it again. It needs flushMu.
func (l *Log) finishCut() error {
	c := l.cutting
	err := l.commitCut(c)
	if err == nil {
		l.cutting = nil
		l.mu.Lock()
		held := l.failure != nil
		l.failure = nil
		l.mu.Unlock()
		if held {
			l.dir.repaired(l)
		}
		return nil
	}
	err = fmt.Errorf("truncate %s to %d: %w", l, c.end, err)
	if l.Offline() == nil {
		l.hold(fmt.Errorf("%w: %w", ErrFailed, err))
		l.dir.repair(l)
	}
	return err
}

func (l *Log) commitCut(c *cutting) error {
	if err := l.recallProducers(c); err != nil {
		return err
	}
	if err := l.dir.commitPoint(l.dir.opt.broken.has(silentCut)); err != nil {
		return err
	}
	if err := l.cutFiles(c); err != nil {
		if n := len(c.keep); !shortage(err) || n > 0 && c.keep[n-1].Err() != nil {
			l.goOffline(err) // what the files are is not known; a start cuts them
		}
		return err
	}
	l.mu.Lock()
	l.cut = false
	through := l.mode == writeThrough
	l.mu.Unlock()
	if !through { // a journalled log is cut at its recovery point anyway
		return nil
	}
	if err := l.dir.checkpoint(nil); err != nil {
		l.mu.Lock()
		l.cut = true // as the checkpoint on the disk may say
		l.mu.Unlock()
		return err
	}
	return nil
}

// splitAt finds what stays: the segments that do, the size of the last one, and
// the end, which is lower where a batch straddles it: that one goes as a whole.
func (l *Log) splitAt(end int64, reset bool) (*cutting, error) {
	segments, err := l.snapshot()
	if err != nil {
		return nil, err
	}
	n := 0
	for n < len(segments) && !reset && segments[n].Base() < end {
		n++
	}
	c := &cutting{keep: segments[:n:n], gone: segments[n:], end: end, reset: reset}
	if n == 0 {
		return c, nil
	}
	last := c.keep[n-1]
	pos, found, err := last.Find(end)
	if err != nil {
		return nil, err
	}
	if c.size = pos; found == 0 {
		c.size = last.Size()
	}
	err = last.Headers(0, func(b record.Batch) bool {
		if b.LastOffset() >= end {
			c.end = min(end, b.BaseOffset())
			return false
		}
		return true
	})
	return c, err
}

// dropTail takes the end of the log back in memory.
func (l *Log) dropTail(c *cutting) {
	l.mu.Lock()
	gone := l.tail.evict(math.MaxInt64) // settleAll flushed everything
	l.segments = c.keep
	l.rp = recoveryPoint{offset: c.end, lsn: max(l.rp.lsn, l.dir.journal.Assigned()), segments: l.extentsLocked()}
	if n := len(l.rp.segments); n > 0 {
		l.rp.segments[n-1].size = c.size
	}
	l.flushed, l.lowestUnsynced, l.cut = c.end, 0, true
	l.clean = min(l.clean, c.end)
	l.cuts++
	l.mu.Unlock()
	l.cutting = c
	l.logEnd.Store(c.end)
	l.written.Store(min(l.written.Load(), c.end))
	l.durable.Store(min(l.durable.Load(), c.end))
	if c.reset || c.end < l.logStart.Load() {
		l.logStart.Store(c.end)
		l.startSynced.Store(min(l.startSynced.Load(), c.end))
		l.durable.Store(c.end)
		l.written.Store(c.end)
	}
	l.smu.Lock()
	l.epochs.CutEnd(c.end)
	if c.reset {
		l.epochs.Clear()
	}
	l.smu.Unlock()
	l.dir.memory.drop(gone, len(gone))
}

// recallProducers makes the producer state that of what stays.
func (l *Log) recallProducers(c *cutting) error {
	l.smu.Lock()
	defer l.smu.Unlock()
	l.settled.Clear()
	if !c.reset {
		if err := l.rebuildSettled(c.end); err != nil {
			return err
		}
	}
	l.producers.CopyFrom(&l.settled)
	return nil
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
func (l *Log) cutFiles(c *cutting) error {
	for _, s := range c.gone {
		if err := s.Remove(); err != nil {
			return err
		}
	}
	if n := len(c.keep); n > 0 {
		if err := c.keep[n-1].Cut(c.size, c.end); err != nil {
			return err
		}
	}
	return l.dir.opt.FS.SyncDir(l.path)
}
