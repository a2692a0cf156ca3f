package storage

import (
	"cmp"
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// MaxProducers bounds the bytes of Truncation.Producers: twice the most producers of a log, all
// with whole windows and transactions, have 40 MB.
const MaxProducers = 64 << 20

// Truncation is a request to truncate or reset a log.
type Truncation struct {
	Log *Log
	// End is the new end of the log. If a batch straddles End, the whole batch is removed, and the
	// log ends below End. A log that already ends at End or below is left as it is.
	End int64
	// Reset asks to empty the log and to continue it at End, wherever that is. A follower whose end
	// is below its leader's log start begins again in this way.
	Reset bool
	// Producers is what a log that is reset knows of its producers below End, as another log
	// returned it (ProducersBelow); empty: nothing. The log start may be above the last batches of
	// producers that still send. Their retries are recognized with it.
	Producers []byte
	Only      Only
	// Err is the result; nil means that the cut is durable. It matches ErrOffsetOutOfRange,
	// ErrFencedEpoch, ErrClosed, ErrFailed, or ErrCorrupt if Producers cannot be decoded.
	Err error

	plan *cutting
}

// Truncate cuts logs; see Dir.Truncate.
func (m *Manager) Truncate(cuts []Truncation) {
	inDirs(cuts, func(c *Truncation) *Log { return c.Log }, (*Dir).Truncate)
}

// Truncate cuts each log at the requested offset, where a follower's history diverges from its
// leader's, and sets each Err. One checkpoint commits all cuts. No append may be waiting; appends
// that arrive before a cut is durable are refused.
//
// Truncate reads everything that it needs from the disk first; an error there leaves the log
// unchanged. Then it sets the new recovery point in memory in one step, so that any checkpoint
// holds either the old log or the new one. The checkpoint that follows is the commit point:
// recovery cuts there, whatever frames or bytes lie beyond, and files are cut only after it. No
// lock is held while the logs wait for it.
func (d *Dir) Truncate(cuts []Truncation) {
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
	err := d.commitRule(skipCutCommit, logs...)
	each(len(cuts), func(i int) {
		if c := &cuts[i]; c.plan != nil {
			c.Err = c.Log.complete(c.plan, err)
		}
	})
}

// begin cuts the log in memory. plan stays nil if there is nothing to cut or an error occurred.
func (x *Truncation) begin() error {
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

func (l *Log) beginCut(x *Truncation) error {
	l.acquireCommit()
	defer l.releaseCommit()
	if l.dir.stopping() {
		return ErrClosed
	}
	if x.End < 0 {
		return fmt.Errorf("%w: the end of a log is never negative", ErrOffsetOutOfRange)
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
	c, err := l.planCut(x)
	if err != nil {
		return err
	}
	if err := l.publishCut(c, x); err != nil {
		return err
	}
	x.plan = c
	return nil
}

// cutting is a truncation or reset of a log that already ends at end in memory.
type cutting struct {
	keep, gone []*segment.Segment
	size       int64 // of the last remaining segment
	end        int64
	reset      bool
	producers  producers.State  // of the remaining batches
	aborted    []txnindex.Entry // of the last remaining segment, if trims is set
	trims      bool
	restarts   bool // the log start also moves
}

// planCut determines the remaining segments, the size of the last of them, the end, and the
// producer state there. It reads the producer file of the last segment and its headers up to the
// end. It reads older segments only if that file cannot be used.
func (l *Log) planCut(x *Truncation) (*cutting, error) {
	end, reset := x.End, x.Reset
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
		err := c.adopt(x.Producers, l.dir.now())
		x.Producers = nil // one encoding of many logs at a time is enough
		return c, err
	}
	known := c.keep
	if n < len(segments) && segments[n].Base() == end {
		known = segments[:n+1] // no remaining batch needs to be read
	}
	var from int
	// A disk that never returns a snapshot must not prevent truncations: the remaining batches are
	// read, and Complete knows the others.
	if c.producers, from, err = l.recall(known); shortage(err) {
		return nil, fmt.Errorf("producers of %s at %d: %w", l, end, err)
	} else if err != nil {
		l.dir.logOnce(l, "a truncation may miss a transaction that was open where the disk returns no producers", err)
	}
	if n > 0 {
		c.size = c.keep[n-1].Size()
	}
	now, high := l.dir.now(), l.high()
	// Batches may have old timestamps although their producers are active, which Complete restores.
	c.producers.Expiry = math.MaxInt64
	for ; from < n; from++ {
		pos := int64(0)
		var fault error
		err := c.keep[from].Headers(0, func(b record.Batch) bool {
			if b.LastOffset() >= end {
				c.size, c.end = pos, min(end, b.BaseOffset())
				return false
			}
			if b, fault = withRecords(c.keep[from], b); fault != nil {
				return false
			}
			c.producers.Add(b, producers.Came(b, now))
			c.producers.Advance(min(high, end))
			size, _ := record.PeekSize(b) // Headers has validated it
			pos += int64(size)
			return true
		})
		if err := cmp.Or(err, fault); err != nil {
			return nil, err
		}
	}
	c.producers.Expiry = l.dir.opt.ProducerExpiry
	l.producersMu.Lock()
	c.producers.Complete(&l.producers, c.end) // batches may have any timestamps, and the oldest batches may be gone
	l.producersMu.Unlock()
	c.producers.Expire(now)
	return c, l.trimAborted(c)
}

// adopt takes over what another log knows of its producers; see Truncation.Producers.
func (c *cutting) adopt(known []byte, now time.Time) error {
	if len(known) == 0 {
		return nil
	}
	rest, err := c.producers.Decode(known)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow", len(rest))
	}
	if err != nil {
		return fmt.Errorf("%w: the state of producers below %d: %w", ErrCorrupt, c.end, err)
	}
	c.producers.Expire(now)
	return nil
}

// trimAborted determines the index of the last remaining segment. The caller holds flushMu.
func (l *Log) trimAborted(c *cutting) error {
	if len(c.keep) == 0 || !c.keep[len(c.keep)-1].HasAborted() {
		return nil
	}
	entries, err := l.usableAborted(c.keep[len(c.keep)-1])
	n := sort.Search(len(entries), func(i int) bool { return entries[i].Last >= c.end })
	c.aborted, c.trims = entries[:n:n], n < len(entries)
	return err
}

// publishCut moves the end of the log back in memory, unless x is fenced. From then on the log
// accepts no appends, because the disk may have the old or the new end. It needs flushMu.
func (l *Log) publishCut(c *cutting, x *Truncation) error {
	l.producersMu.Lock()
	if err := l.onlyLocked(x.Only); err != nil {
		l.producersMu.Unlock()
		return err
	}
	l.mu.Lock()
	gone := l.tail.cutEnd(-1) // flushAll flushed everything
	l.segments = c.keep
	l.rp = checkpoint.Point{Offset: c.end, LSN: max(l.rp.LSN, l.dir.journal.Assigned()), Segments: l.extents()}
	if n := len(l.rp.Segments); n > 0 {
		l.rp.Segments[n-1].Size = c.size
		if c.trims {
			l.rp.Segments[n-1].Aborted = txnindex.MarkOf(c.aborted)
		}
	}
	l.flushed, l.lowestUnsynced = c.end, 0
	l.firstDirty = min(l.firstDirty, c.end)
	l.cutReliedLocked(c)
	l.cuts++
	l.changes++
	l.lowerHighLocked(c.end)
	l.life.cut = c
	l.applyEventLocked(loglife.CutBegun, fmt.Errorf("%w: the truncation of %s to %d is in progress", ErrFailed, l, c.end))
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
	if c.restarts {
		l.forgetLed()
	}
	l.noteLocked(func(h *Hold) {
		if h.low = min(h.low, c.end); c.reset {
			h.low = 0
		}
	})
	l.producers = c.producers
	l.markProducersDurable(c.end)
	l.producers.MarkSynced()
	l.noteUnstableLocked()
	l.mu.Unlock()
	l.producersMu.Unlock()
	l.dir.memory.drop(gone)
	return nil
}

// Rely states that the records below an offset were committed. If the log is compacted, here or
// where it was copied from, records may be missing because of later ones up to there: a truncation
// below it leaves a log that is not whole, and is copied again.
func (l *Log) Rely(end int64) {
	if !l.cfg.Load().Cleanup.Compact {
		return
	}
	l.mu.Lock()
	l.relied = max(l.relied, end)
	l.mu.Unlock()
}

// cutReliedLocked notes what a cut takes back of that because of which compaction has removed other
// records: the leader may still have these, and the log is not whole without them. The caller holds
// mu.
func (l *Log) cutReliedLocked(c *cutting) {
	switch {
	case c.reset, c.end <= l.logStart.Load(): // compaction may have left a log without a segment, not without a past
		l.relied = 0
		l.partial.Store(false)
	case c.end < l.relied && !l.dir.opt.broken.has(keepCompacted):
		l.partial.Store(true)
		l.dir.suspects.Name(l)
	}
}

// complete finishes a cut after an attempt to write its checkpoint; err is that attempt's result.
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

// finish makes the files match memory, after an attempt to write the checkpoint of the cut; err is
// that attempt's result. After an error the maintenance goroutine retries, and the log takes no
// appends until a retry succeeds. It needs flushMu.
func (l *Log) finish(err error) error {
	c := l.life.cut
	if err == nil && c.restarts {
		l.startSynced.Store(c.end)
	}
	if err == nil {
		err = l.cutFiles(c)
		if n := len(c.keep); err != nil && (!shortage(err) || n > 0 && c.keep[n-1].Err() != nil) {
			l.goOffline(loglife.Unreadable, nil, err) // the state of the files is unknown; a start cuts them
		}
	}
	if err == nil {
		l.mu.Lock()
		l.life.cut = nil
		was := l.applyEventLocked(loglife.CutDone, nil)
		l.mu.Unlock()
		if was == loglife.CutStuck {
			l.dir.repaired(l)
		}
		return nil
	}
	err = fmt.Errorf("truncate %s to %d: %w", l, c.end, err)
	if l.Offline() == nil {
		l.applyEvent(loglife.CutFailed, fmt.Errorf("%w: %w", ErrFailed, err))
	}
	return err
}

// cutFiles makes the files match the checkpoint.
func (l *Log) cutFiles(c *cutting) error {
	for _, s := range c.gone {
		if err := s.Remove(); err != nil {
			return err
		}
	}
	if n := len(c.keep); n > 0 {
		if err := c.keep[n-1].Truncate(c.size, c.end); err != nil {
			return err
		}
		if c.trims {
			c.keep[n-1].HoldAborted(c.aborted)
			if err := c.keep[n-1].InstallAborted(); err != nil {
				return err
			}
		}
	}
	return l.dir.opt.FS.SyncDir(l.path)
}
