package storage

import (
	"errors"
	"fmt"
	"path"
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
	err := d.mend(logs...)
	left := false
	for _, l := range logs {
		l.mu.RLock()
		broken := l.failure != nil && l.offline == nil && !l.closed
		l.mu.RUnlock()
		if !broken {
			l.Commit(nil)
			continue
		}
		left = true
		d.logOnce(l, "segment could not be replaced, the partition takes no records", err)
		d.mu.Lock()
		d.broken[l] = struct{}{}
		d.mu.Unlock()
	}
	return left
}

// mend brings logs back whose segments failed: what is not synced in segments is read
// out of the journal, once for all of them, and written into new segments. One
// checkpoint commits that. The error is that of the first log that could not be mended.
func (d *Dir) mend(logs ...*Log) error {
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	var lacking []*Log
	for _, l := range logs {
		if l.lacks() {
			lacking = append(lacking, l)
		}
	}
	note(d.copyAside(lacking))
	var ready []*Log
	for _, l := range logs {
		if done, err := l.replaceSegment(); err != nil {
			note(err)
		} else if done {
			ready = append(ready, l)
		}
	}
	if len(ready) == 0 {
		return first
	}
	if err := d.checkpoint(nil); err != nil {
		return errors.Join(first, err)
	}
	for _, l := range ready {
		l.mended()
	}
	return first
}

// lacks reports whether bytes that are not synced are in no memory for sure: they must
// come from the journal.
func (l *Log) lacks() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.failure != nil && l.aside == nil && l.flushed > l.rp.offset && !l.dir.opt.broken.forgetfulFail
}

// mended lets the log take records again: a checkpoint holds what was repaired.
func (l *Log) mended() {
	l.mu.Lock()
	var file string
	if l.aside != nil && l.rp.offset >= l.aside.end {
		file, l.aside = l.aside.name, nil
	}
	l.failure = nil
	l.mu.Unlock()
	l.dir.repaired(l)
	if file != "" {
		if err := l.dir.opt.FS.Remove(path.Join(l.dir.path, file)); err != nil {
			l.dir.logOnce(l, "a file with frames that are not needed any more could not be removed", err)
		}
	}
}

// replaceSegment continues the log in a new segment that starts at the last
// synced offset: after a failed write or datasync nothing that was written
// since proves anything. What the new one must hold is read back from the file aside.
// Only its own datasync counts. It reports whether the log may take records again once
// a checkpoint says so.
func (l *Log) replaceSegment() (done bool, err error) {
	l.mu.RLock()
	cause := l.failure
	l.mu.RUnlock()
	if cause == nil {
		return false, nil // it was repaired meanwhile, on the way to a reopened directory
	}
	if retried, err := l.retrySwap(); retried && err != nil {
		return false, err
	}
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if l.Offline() != nil {
		return false, nil
	}
	if l.cutting != nil {
		return false, l.finishCut()
	}
	l.mu.RLock()
	rp, end, aside := l.rp, l.flushed, l.aside
	old := slices.Clone(l.segments) // readers may hold the list itself
	l.mu.RUnlock()

	for len(old) > 0 && old[len(old)-1].Base() >= rp.offset { // holds nothing that is synced
		if err := old[len(old)-1].Remove(); err != nil {
			return false, err
		}
		old = old[:len(old)-1]
	}
	s, err := segment.Create(l.dir.files, l.path, rp.offset, 0)
	if err != nil {
		return false, err
	}
	if end > rp.offset && !l.dir.opt.broken.forgetfulFail {
		if err = l.refill(s, rp.offset, end, aside); err != nil {
			_ = s.Remove() // tried again from the start
			return false, err
		}
	}
	if err := l.dir.opt.FS.SyncDir(l.path); err != nil {
		return false, fmt.Errorf("replace segment: %w", err)
	}
	if err := l.bound(old, rp.offset); err != nil {
		return false, err
	}
	l.mu.Lock()
	l.segments = append(old, s)
	l.mu.Unlock()
	l.synced()
	if aside == nil {
		return true, nil
	}
	// The journal may not hold the rest any more.
	if err := l.writeFlushable(); err != nil {
		return false, l.segmentFailed(err)
	}
	if err := l.active().Sync(); err != nil {
		return false, l.segmentFailed(err)
	}
	l.synced()
	return true, nil
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

// refill writes the frames of [at, end) into a new segment.
func (l *Log) refill(s *segment.Segment, at, end int64, aside *asideFrames) error {
	if aside == nil {
		return fmt.Errorf("%w: what the journal holds of %s is not set aside yet", ErrFailed, l)
	}
	interval := l.cfg.Load().Segment.IndexInterval
	err := journal.ReadKept(l.dir.opt.FS, path.Join(l.dir.path, aside.name), func(f journal.Frame) error {
		if f.NextEnd <= at || at >= end {
			return nil
		}
		if f.PrevEnd != at {
			return fmt.Errorf("%w: %s continues %s at %d, expected %d", ErrCorrupt, aside.name, l, f.PrevEnd, at)
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
		return fmt.Errorf("%w: %s holds %s up to %d only, %d is needed", ErrCorrupt, aside.name, l, at, end)
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
		l.revert(err)
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
