package storage

import (
	"errors"
	"fmt"
	"slices"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/loglife"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// errGivenUp ends a compaction that nobody wants any more: the directory closes, or
// the log is not what it was when the pass began.
var errGivenUp = errors.New("the compaction was given up")

// swap is a compacted segment that takes the place of others.
type swap struct {
	old   []*segment.Segment
	fresh *segment.Segment // nil where nothing stayed
	// How far it is: the checkpoint that says so is durable; readers see the new
	// list; the files are what it says. placed is guarded by mu: until then checkpoints have
	// a start finish the swap.
	committed, published, placed bool
}

// replace puts a segment in the place of others, which lie side by side below the
// recovery point; nil where nothing of them stayed. The steps are those of
// docs/topics.md. An error that comes before anything was changed leaves the log as
// it was; after any other one the log takes no appends until the maintenance
// goroutine has finished the swap.
func (l *Log) replace(old []*segment.Segment, fresh *segment.Segment, cuts int) error {
	if fresh != nil {
		if err := fresh.Ready(); err != nil {
			return errors.Join(err, fresh.Discard())
		}
	}
	// Names that come back after a loss of power must be neither those of another
	// attempt nor missing.
	if err := l.dir.opt.FS.SyncDir(l.path); err != nil {
		return errors.Join(fmt.Errorf("replace segments: %w", err), discard(fresh))
	}
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.mu.Lock()
	i, err := l.replaceableLocked(old, cuts)
	if err != nil {
		l.mu.Unlock()
		return errors.Join(err, discard(fresh))
	}
	extents := slices.Clone(l.rp.Segments[:i])
	if fresh != nil {
		extents = append(extents, checkpoint.Extent{Base: fresh.Base(), Size: fresh.Size()})
	}
	l.rp.Segments = append(extents, l.rp.Segments[i+len(old):]...)
	l.life.swap = &swap{old: old, fresh: fresh}
	l.onLocked(loglife.SwapBegun, nil)
	l.mu.Unlock()
	return l.finishSwap()
}

func discard(s *segment.Segment) error {
	if s == nil {
		return nil
	}
	return s.Discard()
}

// replaceableLocked returns where in the recovery point's list segments stand that
// may be replaced now: they are as they were, durable, and others follow them. The
// caller holds flushMu and mu.
func (l *Log) replaceableLocked(old []*segment.Segment, cuts int) (int, error) {
	if l.unusableLocked() != nil || !l.life.state.Allows(loglife.Change) || l.cuts != cuts {
		return 0, fmt.Errorf("%w: %s is out of use or was truncated", errGivenUp, l)
	}
	at := slices.Index(l.segments, old[0])
	if at < 0 || at+len(old) >= len(l.segments) || !slices.Equal(l.segments[at:at+len(old)], old) {
		return 0, fmt.Errorf("%w: segments of %s went", errGivenUp, l)
	}
	i := slices.IndexFunc(l.rp.Segments, func(e checkpoint.Extent) bool { return e.Base == old[0].Base() })
	if i < 0 || i+len(old) > len(l.rp.Segments) || l.segments[at+len(old)].Base() > l.rp.Offset {
		return 0, fmt.Errorf("%w: segments of %s are not below its recovery point", errGivenUp, l)
	}
	for k, s := range old {
		if e := l.rp.Segments[i+k]; e.Base != s.Base() || e.Size != s.Size() || s.Synced() != s.Size() {
			return 0, fmt.Errorf("%w: the segment at %d of %s changed", errGivenUp, s.Base(), l)
		}
	}
	return i, nil
}

// finishSwap brings the swap that memory speaks of to its end. It needs flushMu.
func (l *Log) finishSwap() error {
	err := l.commitSwap(l.life.swap)
	if err == nil {
		l.mu.Lock()
		was := l.onLocked(loglife.SwapDone, nil)
		l.life.swap = nil
		l.mu.Unlock()
		if was == loglife.SwapStuck {
			l.dir.repaired(l)
			l.dir.schedule(l)
		}
		return nil
	}
	err = fmt.Errorf("replace segments of %s: %w", l, err)
	l.on(loglife.SwapFailed, fmt.Errorf("%w: %w", ErrFailed, err))
	l.dir.repair(l)
	return err
}

// commitSwap does what is left to do. Whatever fails, all checkpoints until then say
// the same: the new list, and that a start finishes what isn't.
func (l *Log) commitSwap(x *swap) error {
	if !x.committed {
		if err := l.dir.commitRule(silentSwap, l); err != nil {
			return err
		}
		x.committed = true
	}
	if !x.placed {
		if err := l.placeSwap(x); err != nil {
			return err
		}
		l.mu.Lock()
		x.placed = true
		l.mu.Unlock()
	}
	// Until a checkpoint that says so is known to be durable no other swap may begin: a
	// start may do what is left of this one.
	if err := l.dir.commit(l); err != nil {
		return err
	}
	if x.fresh != nil {
		x.fresh.SaveIndex()
	}
	for _, s := range x.old {
		l.dir.stats.removed.WithLabelValues(l.dir.path, metrics.RemovedByClean).Inc()
		l.dir.stats.removedBytes.WithLabelValues(l.dir.path, metrics.RemovedByClean).Add(float64(s.Size()))
	}
	return nil
}

// placeSwap gives readers the new segment, and the files their names. An index belongs to
// the file that it was made for, and goes before that does.
func (l *Log) placeSwap(x *swap) error {
	for _, s := range x.old {
		if err := s.RemoveIndexes(); err != nil {
			return err
		}
	}
	if !x.published {
		l.publishSwap(x)
		x.published = true
	}
	if x.fresh != nil {
		if err := x.fresh.Install(); err != nil {
			return err
		}
	}
	for _, s := range x.old {
		if x.fresh != nil && s.Base() == x.fresh.Base() {
			continue // the new one has its name
		}
		if err := s.Remove(); err != nil {
			return err
		}
	}
	if l.dir.opt.broken.has(eagerSwap) {
		return nil
	}
	if err := l.dir.opt.FS.SyncDir(l.path); err != nil {
		return fmt.Errorf("replace segments: %w", err)
	}
	return nil
}

// publishSwap puts the new segment into the log's list, and only then sends the
// readers of the old ones to look there: none of them waits. What is cached of the old
// ones goes, so that it is not served any longer.
func (l *Log) publishSwap(x *swap) {
	l.mu.Lock()
	i := slices.Index(l.segments, x.old[0])
	list := slices.Clone(l.segments[:i])
	if x.fresh != nil {
		list = append(list, x.fresh)
	}
	next := l.segments[i+len(x.old)].Base() // at least the active segment follows
	l.segments = append(list, l.segments[i+len(x.old):]...)
	gone := l.tail.evict(func(c *chunk) bool { return c.base < next })
	l.mu.Unlock()
	l.dir.memory.drop(gone)
	for _, s := range x.old {
		s.Replace()
	}
}
