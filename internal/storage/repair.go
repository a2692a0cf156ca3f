package storage

import (
	"fmt"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// repair has the maintenance goroutine bring a log back whose segment failed.
func (d *Dir) repair(l *Log) {
	d.mu.Lock()
	d.broken[l] = struct{}{}
	d.mu.Unlock()
	d.signal(d.repairs)
}

// repairAll tries every broken log once, and says whether one is left.
func (d *Dir) repairAll() bool {
	d.mu.Lock()
	logs := make([]*Log, 0, len(d.broken))
	for l := range d.broken {
		logs = append(logs, l)
	}
	clear(d.broken) // one that fails anew while it is being repaired comes back
	d.mu.Unlock()
	left := false
	for _, l := range logs {
		err := l.replaceSegment()
		if err != nil && l.Offline() == nil {
			left = true
			d.logOnce(l, "segment could not be replaced, the partition takes no records", err)
			d.mu.Lock()
			d.broken[l] = struct{}{}
			d.mu.Unlock()
			continue
		}
		l.Commit(nil)
	}
	return left
}

// replaceSegment continues the log in a new segment that starts at the last
// synced offset: after a failed write or datasync nothing that was written
// since proves anything. What the new one must hold is read back from the journal. Only
// its own datasync counts.
func (l *Log) replaceSegment() error {
	l.mu.RLock()
	cause, written := l.failure, l.mode == writeThrough
	l.mu.RUnlock()
	if cause == nil {
		return nil // it was repaired meanwhile, on the way to a reopened directory
	}
	if done, err := l.retrySwap(); done {
		return err
	}
	if written {
		// The disk was full, or there were no descriptors: what was not written
		// fails as a whole.
		l.revert(cause)
	}
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if l.Offline() != nil {
		return nil
	}
	if l.cutting != nil {
		return l.finishCut()
	}
	l.mu.RLock()
	rp, end := l.rp, l.flushed
	through := l.mode == writeThrough
	old := slices.Clone(l.segments) // readers may hold the list itself
	l.mu.RUnlock()

	if through {
		if n := len(old); n > 0 && old[n-1].Err() == nil { // otherwise it was settled
			if err := old[n-1].Sync(); err != nil && old[n-1].Err() != nil {
				return l.segmentFailed(err)
			} else if err != nil {
				return err
			}
		}
		l.synced()
		rp.offset = end
	}
	for len(old) > 0 && old[len(old)-1].Base() >= rp.offset { // holds nothing that is synced
		if err := old[len(old)-1].Remove(); err != nil {
			return err
		}
		old = old[:len(old)-1]
	}
	s, err := segment.Create(l.dir.files, l.path, rp.offset, 0)
	if err != nil {
		return err
	}
	if !through && end > rp.offset && !l.dir.opt.broken.has(forgetfulFail) {
		if err = l.refill(s, rp, end); err != nil {
			_ = s.Remove() // tried again from the start
			return err
		}
	}
	if err := l.dir.opt.FS.SyncDir(l.path); err != nil {
		return fmt.Errorf("replace segment: %w", err)
	}
	if err := l.bound(old, rp.offset); err != nil {
		return err
	}
	l.mu.Lock()
	old = append(old, s)
	l.segments = old
	l.mu.Unlock()
	l.synced()
	if err := l.dir.checkpoint(nil); err != nil {
		return err
	}
	l.mu.Lock()
	l.failure = nil
	l.mu.Unlock()
	l.dir.repaired(l)
	return nil
}

// bound cuts the last of the old segments to its synced bytes, so that the bytes
// of unknown fate behind them are never taken for batches; and to the recovery point,
// which may be behind those bytes: the new segment begins there.
func (l *Log) bound(old []*segment.Segment, next int64) error {
	if len(old) == 0 {
		return nil
	}
	last := old[len(old)-1]
	size := last.Synced()
	l.mu.RLock()
	for _, e := range l.rp.segments {
		if e.base == last.Base() {
			size = min(size, e.size)
		}
	}
	l.mu.RUnlock()
	fresh := segment.Open(l.dir.files, l.path, last.Base(), size)
	if err := fresh.Cut(size, next); err != nil {
		return err
	}
	old[len(old)-1] = fresh
	return nil
}

// refill writes the frames of [rp.offset, end) into a new segment.
func (l *Log) refill(s *segment.Segment, rp recoveryPoint, end int64) error {
	interval := l.cfg.Load().Segment.IndexInterval
	at := rp.offset
	// Not from rp.lsn + 1 on: the LSNs that follow may have been lost with a file
	// that failed.
	l.mu.RLock()
	oldest, through := l.lowestUnsynced, l.flushedLSN
	l.mu.RUnlock()
	err := l.dir.journal.Read(l.dir.journal.Oldest(oldest), through, func(f journal.Frame) error {
		if f.Stream != l.id || f.LSN <= rp.lsn || f.NextEnd <= at {
			return nil
		}
		if f.PrevEnd != at {
			return fmt.Errorf("%w: journal continues %s at %d, expected %d", ErrCorrupt, l, f.PrevEnd, at)
		}
		payload := f.Payload
		if f.NextEnd > end { // a carried frame, of which only a part was flushed
			payload = payload[:trim(payload, end, len(payload), true)]
		}
		at = f.NextEnd
		return s.Append([][]byte{payload}, interval)
	})
	if err != nil {
		return err
	}
	if at < end {
		return fmt.Errorf("%w: journal holds %s up to %d only, %d is needed", ErrCorrupt, l, at, end)
	}
	return s.Sync()
}

// reopen brings the directory back after the journal failed: every log goes
// back to its durable end; what is durable and not in synced segments is
// brought there; a fresh file begins, and a checkpoint excludes what may have
// reached the dead one. Only then are records taken again.
func (d *Dir) reopen(err error) {
	failed := d.failed.Load()
	for _, l := range d.Logs() {
		if l.currentMode() == journalled {
			l.revert(err)
		}
	}
	for attempt, wait := 1, 10*time.Millisecond; ; attempt, wait = attempt+1, min(2*wait, 10*time.Second) {
		again := d.home(attempt)
		if again == nil {
			again = d.begin()
		}
		if again == nil {
			break
		}
		d.logOnce(nil, "log directory could not be reopened", again)
		if !d.sleep(wait) {
			return
		}
	}
	if !d.failed.CompareAndSwap(failed, nil) {
		return // it failed once more, and that is the next to be looked at
	}
	d.reopened()
	for _, l := range d.Logs() {
		l.Commit(nil)
	}
}

// begin starts a life of the journal: everything durable is in synced segments
// or kept aside; a fresh file is made, a checkpoint names it, entries may come.
func (d *Dir) begin() error {
	fresh, err := d.journal.Fresh(d.minLSN)
	if err != nil {
		return err
	}
	if err := d.checkpoint(&fresh); err != nil {
		return err
	}
	return d.journal.Resume()
}
