package storage

import (
	"errors"
	"fmt"
	"slices"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// errAbandoned ends a compaction whose result is no longer useful: the directory is being closed,
// or the log has changed since the pass began.
var errAbandoned = errors.New("compaction abandoned")

// swap replaces segments by a compacted one.
type swap struct {
	old   []*segment.Segment
	fresh *segment.Segment // nil if no batch remains
	// committed is true if a checkpoint with the new list of segments is durable. Placing the files
	// then needs no other one, which a full disk might not take. Guarded by flushMu.
	committed bool
	// placed is true if the files match the checkpoint. Until then every checkpoint of the log
	// makes the next start finish the swap. Guarded by Log.mu.
	placed bool
}

// replace replaces adjacent segments below the recovery point by fresh, or by nothing if fresh is
// nil. docs/topics.md describes the steps. After an error before the first change the log is as it
// was. After any later error the log accepts no appends until the maintenance goroutine has
// finished the swap.
func (l *Log) replace(old []*segment.Segment, fresh *segment.Segment, cuts int) error {
	if fresh != nil {
		if end, known := old[len(old)-1].KnownEnd(); known {
			l.establish(fresh, end)
		}
		if err := fresh.Ready(); err != nil {
			return errors.Join(err, fresh.Discard())
		}
	}
	// After a power loss the directory must have the new file under its current name, and none that
	// an earlier attempt left.
	if err := l.dir.opt.FS.SyncDir(l.path); err != nil {
		return errors.Join(fmt.Errorf("replace segments: %w", err), discard(fresh))
	}
	high := l.high()
	if err := l.awaitHolds(); err != nil {
		return errors.Join(err, discard(fresh))
	}
	defer l.flushMu.Unlock()
	i, err := l.replaceableLocked(old, cuts)
	if err != nil {
		l.mu.Unlock()
		return errors.Join(err, discard(fresh))
	}
	extents := slices.Clone(l.rp.Segments[:i])
	if fresh != nil {
		extents = append(extents, checkpoint.Extent{Base: fresh.Base(), Size: fresh.Size(), Aborted: fresh.AbortedMark()})
	}
	l.rp.Segments = append(extents, l.rp.Segments[i+len(old):]...)
	l.life.swap = &swap{old: old, fresh: fresh}
	l.changes++
	l.noteLocked(func(h *Hold) { h.replaced = true })
	l.relied = max(l.relied, high) // all that the pass has read was committed
	l.applyEventLocked(loglife.SwapBegun, nil)
	l.mu.Unlock()
	return l.finishSwap()
}

func discard(s *segment.Segment) error {
	if s == nil {
		return nil
	}
	return s.Discard()
}

// replaceableLocked returns the position of the old segments in the recovery point's list. They
// must be unchanged, durable, and followed by others. The caller holds flushMu and mu.
func (l *Log) replaceableLocked(old []*segment.Segment, cuts int) (int, error) {
	if l.unusableLocked() != nil || !l.life.state.Allows(loglife.Change) || l.cuts != cuts {
		return 0, fmt.Errorf("%w: %s is out of use or was truncated", errAbandoned, l)
	}
	at := slices.Index(l.segments, old[0])
	if at < 0 || at+len(old) >= len(l.segments) || !slices.Equal(l.segments[at:at+len(old)], old) {
		return 0, fmt.Errorf("%w: segments of %s were removed", errAbandoned, l)
	}
	i := slices.IndexFunc(l.rp.Segments, func(e checkpoint.Extent) bool { return e.Base == old[0].Base() })
	if i < 0 || i+len(old) > len(l.rp.Segments) || l.segments[at+len(old)].Base() > l.rp.Offset {
		return 0, fmt.Errorf("%w: segments of %s are not below its recovery point", errAbandoned, l)
	}
	for k, s := range old {
		if e := l.rp.Segments[i+k]; e.Base != s.Base() || e.Size != s.Size() || s.Synced() != s.Size() {
			return 0, fmt.Errorf("%w: the segment at %d of %s changed", errAbandoned, s.Base(), l)
		}
	}
	return i, nil
}

// finishSwap finishes the current swap. The caller holds flushMu.
func (l *Log) finishSwap() error {
	err := l.commitSwap(l.life.swap)
	if err == nil {
		l.mu.Lock()
		was := l.applyEventLocked(loglife.SwapDone, nil)
		l.life.swap = nil
		l.mu.Unlock()
		if was == loglife.SwapStuck {
			l.dir.repaired(l)
		}
		return nil
	}
	err = fmt.Errorf("replace segments of %s: %w", l, err)
	l.applyEvent(loglife.SwapFailed, fmt.Errorf("%w: %w", ErrFailed, err))
	return err
}

// commitSwap does the remaining steps. If one fails, all checkpoints until the next attempt have
// the new list of segments and make recovery finish the swap.
func (l *Log) commitSwap(x *swap) error {
	if !x.placed {
		if !x.committed {
			if err := l.dir.commitRule(skipSwapCommit, l); err != nil {
				return err
			}
			x.committed = true
		}
		if err := l.placeSwap(x); err != nil {
			return err
		}
		l.mu.Lock()
		x.placed = true
		l.mu.Unlock()
	}
	// No other swap may begin before a checkpoint without this one is durable: recovery might still
	// finish this one.
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

// placeSwap shows readers the new segment and gives the files their final names. It removes an old
// file's index before the file itself, since an index belongs to one file only.
func (l *Log) placeSwap(x *swap) error {
	for _, s := range x.old {
		if err := s.RemoveIndexes(); err != nil {
			return err
		}
	}
	l.publishSwap(x)
	if x.fresh != nil {
		if err := x.fresh.Install(); err != nil {
			return err
		}
	}
	for _, s := range x.old {
		if x.fresh != nil && s.Base() == x.fresh.Base() {
			continue // the new segment has this name
		}
		if err := s.Remove(); err != nil {
			return err
		}
	}
	if x.fresh != nil {
		if err := x.fresh.InstallAborted(); err != nil {
			return err
		}
	}
	if l.dir.opt.broken.has(skipSwapSync) {
		return nil
	}
	if err := l.dir.opt.FS.SyncDir(l.path); err != nil {
		return fmt.Errorf("replace segments: %w", err)
	}
	return nil
}

// publishSwap replaces the old segments in the log's list, and only then redirects their readers,
// so that none has to wait. It evicts the chunks of the old segments from the cache, so that reads
// no longer return them.
func (l *Log) publishSwap(x *swap) {
	l.mu.Lock()
	i := slices.Index(l.segments, x.old[0])
	if i < 0 { // a previous attempt published it
		l.mu.Unlock()
		return
	}
	list := slices.Clone(l.segments[:i])
	if x.fresh != nil {
		list = append(list, x.fresh)
	}
	next := l.segments[i+len(x.old)].Base() // the active segment, at least, follows
	l.segments = append(list, l.segments[i+len(x.old):]...)
	gone := l.tail.evict(func(c *chunk) bool { return c.base < next })
	l.mu.Unlock()
	l.dir.memory.drop(gone)
	for _, s := range x.old {
		s.Replace()
	}
}
