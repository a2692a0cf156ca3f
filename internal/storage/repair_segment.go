package storage

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// repairDue tries to repair the broken logs of which an attempt is due. It returns when the next
// one is, nil if no log is broken.
func (d *Dir) repairDue() <-chan time.Time {
	d.mu.Lock()
	logs := slices.Collect(maps.Keys(d.broken))
	d.mu.Unlock()
	if logs, _ = d.dueForRepair(logs); len(logs) > 0 {
		before := d.mendings(logs)
		errs := d.replaceFailedSegments(logs...)
		for _, l := range logs {
			if !l.is(loglife.Repair) {
				l.Commit(nil)
			} else if err := errs[l]; err != nil {
				d.logOnce(l, "partition could not be repaired and accepts no records", err)
			}
		}
		d.postpone(before, errs)
		d.weigh()
	}
	if wait, some := d.nextRepair(); some {
		return time.After(wait)
	}
	return nil
}

// replaceFailedSegments repairs logs whose segments failed: a new segment follows the failed one at
// the last synced offset. Nothing proves that later writes to the failed segment are on disk, so
// they are replayed from quarantined frames. One commit lists the new segments. A log that cannot
// be repaired now is also quarantined, so that it pins neither the journal nor memory. It returns
// the error of each log that is not repaired: errInFlight if its frames are to be quarantined and
// have to wait.
func (d *Dir) replaceFailedSegments(logs ...*Log) map[*Log]error {
	errs := d.quarantineLogs(slices.DeleteFunc(slices.Clone(logs), func(l *Log) bool { return !l.needsReplay() }))
	var done, failed []*Log
	for _, l := range logs {
		if errs[l] != nil {
			continue
		}
		ok, err := l.replaceSegment()
		switch {
		case err != nil:
			failed = append(failed, l)
			errs[l] = err
		case ok:
			done = append(done, l)
		}
	}
	maps.Copy(errs, d.quarantineLogs(failed))
	if len(done) == 0 {
		return errs
	}
	if err := d.commit(done...); err != nil {
		for _, l := range done {
			errs[l] = err
		}
		return errs
	}
	for _, l := range done {
		l.resume()
	}
	return errs
}

// needsReplay reports whether the log must be replayed: its segment has failed and had bytes that
// were not synced.
func (l *Log) needsReplay() bool {
	active := l.active()
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.life.state.Allows(loglife.Quarantine) && active != nil && active.Err() != nil && l.flushed > l.rp.Offset &&
		!l.dir.opt.broken.has(skipReplay)
}

// resume lets the log accept records again, after a checkpoint that holds the repair and no longer
// names the quarantine file.
func (l *Log) resume() {
	l.mu.Lock()
	files := l.life.spent
	l.life.spent = nil
	l.applyEventLocked(loglife.Mended, nil)
	l.mu.Unlock()
	l.recovered()
	l.dir.repaired(l)
	l.dir.removeFrames(files)
}

// removeFrames removes quarantine files that no log needs and no checkpoint names.
func (d *Dir) removeFrames(files []string) {
	for _, name := range files {
		if err := d.opt.FS.Remove(path.Join(d.path, name)); err != nil {
			d.logOnce(nil, "obsolete quarantine file could not be removed, the next start tries again", err)
		}
	}
}

// replaceSegment continues the log in a new segment that starts at the last synced offset. It
// reports whether the log may accept records again once a checkpoint holds the repair.
func (l *Log) replaceSegment() (done bool, err error) {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	switch l.state() {
	case loglife.SwapStuck:
		return false, l.finishSwap()
	case loglife.QuarantinedStuck:
		if err := l.finishSwap(); err != nil {
			return false, err
		}
	case loglife.Cutting, loglife.CutStuck:
		return false, l.finish(l.dir.commitRule(skipCutCommit, l))
	case loglife.Offline:
		return false, l.reopen()
	case loglife.Failing, loglife.Quarantined:
	default:
		return false, nil // it was repaired in the meantime, while the directory reopened, or is out of use
	}
	if l.needsReplay() {
		return false, fmt.Errorf("quarantine the frames of %s: %w", l, errInFlight)
	}
	l.mu.RLock()
	at, quarantined := l.rp.Offset, l.life.quarantine
	old := slices.Clone(l.segments) // readers may hold the slice itself
	l.mu.RUnlock()
	if n := len(old); n > 0 && old[n-1].Err() == nil && quarantined == nil { // the segment could not be opened, or the roll failed
		if err := old[n-1].Sync(); err != nil {
			return false, l.segmentFailed(err)
		}
		l.synced()
		return l.writeHeld()
	}

	for len(old) > 0 && old[len(old)-1].Base() >= at { // it holds no synced bytes
		if err := old[len(old)-1].Remove(); err != nil {
			return false, err
		}
		old = old[:len(old)-1]
	}
	s, err := segment.Create(l.dir.files, l.path, at, 0)
	if err != nil {
		return false, err
	}
	if _, err := l.saveProducers(s); err != nil {
		return false, err
	}
	if err := l.dir.opt.FS.SyncDir(l.path); err != nil {
		return false, fmt.Errorf("replace segment: %w", err)
	}
	if err := l.cutToSynced(old, at); err != nil {
		return false, err
	}
	old = append(old, s)
	l.dir.memory.drop(l.continueIn(old, quarantined != nil))
	if quarantined != nil {
		l.setReplaying(true)
		err := l.replayQuarantine(quarantined.name, at)
		l.setReplaying(false)
		if err != nil {
			if errors.Is(err, journal.ErrDamaged) { // a retry would find the same
				entry, _ := l.checkpointed(true)
				l.giveUp(&entry, err)
			}
			return false, err
		}
	}
	if done, err := l.writeHeld(); !done {
		return false, err
	}
	if err := l.active().Sync(); err != nil {
		return false, l.segmentFailed(err)
	}
	l.synced()
	if quarantined != nil {
		l.mu.Lock()
		if l.applyEventLocked(loglife.Replayed, nil) == loglife.Quarantined { // otherwise a deletion has ended the replay
			l.life.quarantine, l.life.spent = nil, append(l.life.spent, quarantined.name)
			l.rp.LSN = max(l.rp.LSN, quarantined.lsn)
		}
		l.mu.Unlock()
	}
	return true, nil
}

// writeHeld writes the batches that could not be written before. Otherwise the log would only seem
// repaired: it would fail again with the next flush. It needs flushMu.
func (l *Log) writeHeld() (done bool, err error) {
	if err := l.writeFlushable(); err != nil {
		return false, l.segmentFailed(err)
	}
	return true, nil
}

// continueIn replaces the segments that readers see. Quarantined records are in none of them;
// readers see both changes in one step, so that no reader takes the new segment for a hole. It
// returns the chunks to release. It needs flushMu.
func (l *Log) continueIn(segments []*segment.Segment, quarantined bool) (gone []*chunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = segments
	if !quarantined {
		return nil
	}
	l.flushed, l.flushedLSN, l.lowestUnsynced = l.rp.Offset, 0, 0
	return l.tail.cutEnd(-1)
}

func (l *Log) setReplaying(on bool) {
	l.mu.Lock()
	l.life.replaying = on
	l.mu.Unlock()
}

// replayQuarantine writes the quarantined records beyond at to segments by way of memory, as a
// start does. The recovery point, the log's ends and its producer state stay unchanged; after an
// error the next attempt begins again. It needs flushMu.
func (l *Log) replayQuarantine(name string, at int64) error {
	f := found{l: l, Follower: Follower{end: at}}
	if err := f.readQuarantine(name, func(fr *journal.Frame) error {
		if l.chunkOf(fr) < replayFlush {
			return nil
		}
		return l.writeFlushable()
	}); err != nil {
		return err
	}
	return l.writeFlushable()
}

// cutToSynced cuts the last of the old segments to its synced bytes, because the bytes beyond are
// in an unknown state and must never be read as batches. It also cuts it to the recovery point,
// which may be earlier and is where the new segment begins.
func (l *Log) cutToSynced(old []*segment.Segment, next int64) error {
	if len(old) == 0 {
		return nil
	}
	last := old[len(old)-1]
	size, aborted := last.Synced(), txnindex.Mark{}
	l.mu.RLock()
	for _, e := range l.rp.Segments {
		if e.Base == last.Base() {
			size, aborted = min(size, e.Size), e.Aborted
		}
	}
	l.mu.RUnlock()
	fresh := segment.Open(l.dir.files, l.path, last.Base(), size)
	if err := fresh.Truncate(size, next); err != nil {
		return err
	}
	l.establish(fresh, next)
	fresh.Expect(aborted)
	if in, err := l.dir.opt.FS.Stat(fresh.AbortedPath()); err == nil {
		if err := fresh.TrimAborted(in.Size); err != nil {
			return err
		}
	}
	old[len(old)-1] = fresh
	return nil
}
