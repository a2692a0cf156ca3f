package storage

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/loglife"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// Cut asks that a log end at an offset.
type Cut struct {
	Log *Log
	// End is where the log ends then. It ends lower where a batch straddles End: that one
	// goes as a whole. A log that ends there or lower stays as it is.
	End int64
	// Reset asks that the log be emptied, and go on at End, wherever that is. A follower that
	// is behind its leader's log start begins again so.
	Reset bool
	// Err is the result: nil when the cut is durable. It matches ErrOffsetOutOfRange, ErrClosed or
	// ErrFailed.
	Err error

	plan *cutting
}

// Truncate cuts logs; see Dir.Truncate.
func (m *Manager) Truncate(cuts []Cut) {
	inDirs(cuts, func(c *Cut) *Log { return c.Log }, (*Dir).Truncate)
}

// Truncate cuts each log to the offset that is asked for, and sets each Err: a
// follower's history parts from its leader's there. One checkpoint commits all of them. No
// append may be waiting; those that come before a cut is durable are refused.
//
// All that is read of the disk is read first; an error there leaves the log as it was.
// Then memory says, in one step, that the log ends at the new recovery point, so that any
// checkpoint has either the old log or the new one. The checkpoint that follows is the
// commit point: a start cuts there, whatever frames or bytes it finds beyond; only
// then is anything cut. No lock is held while the logs wait for it.
func (d *Dir) Truncate(cuts []Cut) {
	each(len(cuts), func(i int) { cuts[i].Err = cuts[i].begin() })
	var logs []*Log
	for i := range cuts {
		if cuts[i].plan != nil {
			logs = append(logs, cuts[i].Log)
		}
	}
	if len(logs) == 0 {
		return
	}
	err := d.commitRule(silentCut, logs...)
	each(len(cuts), func(i int) {
		if c := &cuts[i]; c.plan != nil {
			c.Err = c.Log.complete(c.plan, err)
		}
	})
}

// begin makes memory say that the log is cut; plan stays nil where there is nothing to
// do or an error came.
func (x *Cut) begin() error {
	l := x.Log
	err := l.beginCut(x)
	if err != nil {
		return fmt.Errorf("truncate %s to %d: %w", l, x.End, err)
	}
	if c := x.plan; c != nil {
		l.observer().Truncated(c.end)
		if c.restarts {
			l.observer().StartMoved()
		}
	}
	return nil
}

func (l *Log) beginCut(x *Cut) error {
	l.own()
	defer l.disown()
	if l.dir.stopping() {
		return ErrClosed
	}
	if x.End < 0 {
		return fmt.Errorf("%w: no log ends there", ErrOffsetOutOfRange)
	}
	if err := l.flushAll(); err != nil {
		return err
	}
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if !x.Reset && x.End >= l.logEnd.Load() {
		return nil
	}
	if err := l.refused(loglife.Change); err != nil {
		return err
	}
	c, err := l.planCut(x.End, x.Reset)
	if err != nil {
		return err
	}
	l.publishCut(c)
	x.plan = c
	return nil
}

// cutting is a truncation or reset of a log whose memory says already that it ends
// at end.
type cutting struct {
	keep, gone []*segment.Segment
	size       int64 // of the last one that stays
	end        int64
	reset      bool
	producers  producers.State // of what stays
	restarts   bool            // the log's start moves, too
}

// planCut finds what stays: the segments that do, the size of the last one, the end, and
// the producer state there. It reads the producers of the last segment and its
// headers up to the end, and older ones only where its file of producers can't be used.
func (l *Log) planCut(end int64, reset bool) (*cutting, error) {
	segments, err := l.snapshot()
	if err != nil {
		return nil, err
	}
	n := 0
	for n < len(segments) && !reset && segments[n].Base() < end {
		n++
	}
	c := &cutting{keep: segments[:n:n], gone: segments[n:], end: end, reset: reset, producers: l.noProducers()}
	if reset {
		return c, nil
	}
	known := c.keep
	if n < len(segments) && segments[n].Base() == end {
		known = segments[:n+1] // nothing of what stays need be read
	}
	var from int
	c.producers, from = l.recall(known)
	if n > 0 {
		c.size = c.keep[n-1].Size()
	}
	now := l.dir.now()
	for ; from < n; from++ {
		pos := int64(0)
		err := c.keep[from].Headers(0, func(b record.Batch) bool {
			if b.LastOffset() >= end {
				c.size, c.end = pos, min(end, b.BaseOffset())
				return false
			}
			c.producers.Add(b, seenAt(b, now))
			size, _ := record.PeekSize(b) // Headers has looked at it
			pos += int64(size)
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	l.smu.Lock()
	c.producers.Complete(&l.producers, c.end) // the times of batches may be any, and the oldest ones gone
	l.smu.Unlock()
	c.producers.Expire(now)
	return c, nil
}

// publishCut takes the end of the log back in memory. From then on the log takes no appends, since
// the old or the new end may be on the disk. It needs flushMu.
func (l *Log) publishCut(c *cutting) {
	l.smu.Lock()
	l.mu.Lock()
	gone := l.tail.cutEnd(-1) // flushAll flushed everything
	l.segments = c.keep
	l.rp = checkpoint.Point{Offset: c.end, LSN: max(l.rp.LSN, l.dir.journal.Assigned()), Segments: l.extents()}
	if n := len(l.rp.Segments); n > 0 {
		l.rp.Segments[n-1].Size = c.size
	}
	l.flushed, l.lowestUnsynced = c.end, 0
	l.firstDirty = min(l.firstDirty, c.end)
	l.cuts++
	l.life.cut = c
	l.onLocked(loglife.CutBegun, fmt.Errorf("%w: the truncation of %s to %d is not finished", ErrFailed, l, c.end))
	l.logEnd.Store(c.end)
	l.written.Store(min(l.written.Load(), c.end))
	l.durable.Store(min(l.durable.Load(), c.end))
	if c.restarts = c.reset || c.end < l.logStart.Load(); c.restarts {
		l.logStart.Store(c.end)
		l.startSynced.Store(min(l.startSynced.Load(), c.end))
		l.durable.Store(c.end)
		l.written.Store(c.end)
	}
	l.epochs.CutEnd(c.end)
	if c.reset {
		l.epochs.Clear()
	}
	l.producers = c.producers
	l.markProducersDurable(c.end)
	l.mu.Unlock()
	l.smu.Unlock()
	l.dir.memory.drop(gone)
}

// complete is finish of a cut for which a checkpoint was written, with err.
func (l *Log) complete(c *cutting, err error) error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if l.life.cut != c {
		return nil // the maintenance goroutine was faster
	}
	if err := l.Offline(); err != nil {
		return fmt.Errorf("truncate %s to %d: %w", l, c.end, err)
	}
	return l.finish(err)
}

// finish makes the files what memory says, where a checkpoint says it too: it was written
// with err. After an error the maintenance goroutine tries again, and until that comes to
// an end the log takes no appends. It needs flushMu.
func (l *Log) finish(err error) error {
	c := l.life.cut
	if err == nil {
		err = l.cutFiles(c)
		if n := len(c.keep); err != nil && (!shortage(err) || n > 0 && c.keep[n-1].Err() != nil) {
			l.goOffline(loglife.Unreadable, nil, err) // what the files are is not known; a start cuts them
		}
	}
	if err == nil {
		l.mu.Lock()
		l.life.cut = nil
		was := l.onLocked(loglife.CutDone, nil)
		l.mu.Unlock()
		if was == loglife.CutStuck {
			l.dir.repaired(l)
		}
		return nil
	}
	err = fmt.Errorf("truncate %s to %d: %w", l, c.end, err)
	if l.Offline() == nil {
		l.on(loglife.CutFailed, fmt.Errorf("%w: %w", ErrFailed, err))
		l.dir.repair(l)
	}
	return err
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
