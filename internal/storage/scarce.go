package storage

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Memory, the journal and the disk are scarce. Flushes, sweeps and repairs free them, and whether
// one of these is needed and possible depends on the states of the logs. Therefore nothing waits
// for a single event: attend wakes the goroutines that flush, sweep and repair, and they compare
// what is in use with its limits. weigh decides whether anything can be freed at all; if not, the
// directory is blocked, so that no append waits without bound.

// scarcity is what weigh knows. Its lock is held while a directory becomes blocked or running.
type scarcity struct {
	mu       vfs.Mutex
	sweepErr error // of the last sweep
	full     bool  // the journal was full when that sweep began
	refused  bool  // the journal is full, and what waited in its queues was refused
}

// mending is the repair of a log that failed. Guarded by Dir.mu.
type mending struct {
	err      error     // of the last attempt; nil if it did not fail, or had to wait for writes in flight
	at       time.Time // when the next attempt is due
	failures int       // in a row
}

// mendBackoff bounds the pause after a failed attempt to repair a log. The pause ends early if the
// disk has space again.
var mendBackoff = pause.Backoff{First: 100 * time.Millisecond, Most: 30 * time.Second}

// errInFlight: a log cannot be quarantined before its writes in flight have ended.
var errInFlight = fmt.Errorf("%w: its last records are still being written to the journal", ErrFailed)

// attend wakes the goroutines that free memory, journal and disk space. Every change of a log's
// state calls it, and the space guard if the disk has space again. It does not block, and a call
// without need costs little.
func (d *Dir) attend() {
	signal(d.repairs)
	signal(d.pressure)
}

// changed is called for every change of a log's state, with the log's mu held.
func (d *Dir) changed(l *Log, was loglife.State, e loglife.Event, now loglife.State) {
	d.mu.Lock()
	switch {
	case !now.Allows(loglife.Repair):
		delete(d.broken, l)
	case d.broken[l] == nil && e != loglife.CutBegun: // until a step fails, its own goroutine does the cut
		d.broken[l] = &mending{}
	}
	d.mu.Unlock()
	if !now.Allows(loglife.Append) {
		d.suspects.Name(l)
		d.run(func() { l.Commit(nil) }) // refuses the appends that wait for memory
	}
	if d.opt.broken.has(edgesOnly) {
		signal(d.repairs)
		return
	}
	if now.Allows(loglife.Flush) && !was.Allows(loglife.Flush) && l.tail.unflushedBytes() >= flushAt {
		d.schedule(l)
	}
	d.attend()
}

// dueForRepair splits failed logs into those of which an attempt is due, and the errors of the
// others.
func (d *Dir) dueForRepair(logs []*Log) (due []*Log, waits error) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range logs {
		if m := d.broken[l]; m == nil || !now.Before(m.at) {
			due = append(due, l)
		} else {
			waits = errors.Join(waits, m.err)
		}
	}
	return due, waits
}

// postpone records the attempts of those of the logs that are still broken, and their errors.
// before is what d.broken had at its begin: a log that was repaired and has failed again is due at
// once. What a log has in memory and journal counts as pinned only because of its own error: while
// writes in flight hold up the attempt, there is none.
func (d *Dir) postpone(before map[*Log]*mending, errs map[*Log]error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for l, m := range before {
		if d.broken[l] != m {
			continue
		}
		if m.err = errs[l]; m.err == nil || errors.Is(m.err, errInFlight) {
			m.err, m.at = nil, time.Now().Add(mendBackoff.First)
			continue
		}
		m.failures++
		m.at = time.Now().Add(mendBackoff.After(m.failures))
	}
}

// mendings returns the state of the repair of each of the logs.
func (d *Dir) mendings(logs []*Log) map[*Log]*mending {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[*Log]*mending, len(logs))
	for _, l := range logs {
		if m := d.broken[l]; m != nil {
			all[l] = m
		}
	}
	return all
}

// nextRepair returns how long it is until an attempt is due, and false if no log is broken.
func (d *Dir) nextRepair() (wait time.Duration, some bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.broken {
		if w := max(time.Until(m.at), 0); !some || w < wait {
			wait, some = w, true
		}
	}
	return wait, some
}

// spaceAgain makes all repairs due: the disk has space again.
func (d *Dir) spaceAgain() {
	d.mu.Lock()
	for _, m := range d.broken {
		m.at, m.failures = time.Time{}, 0
	}
	d.mu.Unlock()
	d.attend()
}

// hasRoom returns an error if the disk has too little space for a file of some size. Then the guard
// calls spaceAgain as soon as it has.
func (d *Dir) hasRoom(bytes int64) error {
	free, _, err := d.Space()
	if err != nil || free >= bytes {
		return nil // the write finds out
	}
	d.guard.lacks.Store(bytes)
	return fmt.Errorf("%w: %d bytes are needed in %s, and %d are free", syscall.ENOSPC, bytes, d.path, free)
}

// swept records the result of a sweep, and whether the journal was full when it began, and weighs
// the directory.
func (d *Dir) swept(err error, full bool) {
	d.scarce.mu.Lock()
	d.scarce.sweepErr, d.scarce.full = err, full
	d.scarce.mu.Unlock()
	d.weigh()
}

// sweepDue reports whether a sweep is needed now: the last one failed, or entries wait for space.
func (d *Dir) sweepDue() bool {
	d.scarce.mu.Lock()
	failed := d.scarce.sweepErr != nil
	d.scarce.mu.Unlock()
	return failed || d.journal.Full()
}

// weigh blocks the directory if memory or the journal is full and nothing can free it, and lets it
// accept records otherwise. A blocked directory refuses the appends that wait for memory, and those
// that wait for journal space: they would otherwise wait until their timeout.
func (d *Dir) weigh() {
	s := &d.scarce
	s.mu.Lock()
	defer s.mu.Unlock()
	journal, err := d.exhausted()
	if err == nil {
		s.refused = false
		if d.applyEvent(loglife.Freed, nil) == loglife.Blocked {
			d.log.Info("log directory accepts records again")
		}
		return
	}
	err = fmt.Errorf("%w: log directory %s: %w", ErrFailed, d.path, err)
	was := d.applyEvent(loglife.Exhausted, err)
	if was == loglife.Running {
		d.log.Error("log directory accepts no records; see its finding in chronikctl cluster health", zap.Error(err))
	}
	drop := journal && !s.refused
	if s.refused = journal; was != loglife.Running && (was != loglife.Blocked || !drop) {
		return
	}
	for _, l := range d.Logs() {
		if drop {
			l.acquireCommit()
			l.flushMu.Lock()
			l.revertQueued(err)
			l.flushMu.Unlock()
			l.releaseCommit()
		} else {
			l.Commit(nil)
		}
	}
}

// exhausted returns why nothing more can be accepted, nil if something can: the system refuses the
// journal another file, the last sweep of the full journal failed, or logs that cannot be repaired
// hold all memory for records that are not in segments. journal reports whether it is the journal.
// A sweep that began earlier proves nothing: what failed it may be repaired or deleted since, and
// the next sweep, for which appends wait, is a second away at most. The caller holds scarce.mu.
func (d *Dir) exhausted() (journal bool, err error) {
	if cause := d.journal.Stalled(); cause != nil {
		return true, cause
	}
	if cause := d.scarce.sweepErr; cause != nil && d.scarce.full && d.journal.Full() {
		return true, fmt.Errorf("the journal is full and no file of it can be released: %w", cause)
	}
	if held, cause := d.pinned(); held >= d.memory.bound && !d.opt.broken.has(pinMemory) {
		return false, fmt.Errorf("%d bytes of records fill the memory and cannot be written to segments: %w", held, cause)
	}
	return false, nil
}

// pinned returns how much memory no flush can free, because the repair of its logs failed, and why
// it failed.
func (d *Dir) pinned() (bytes int64, cause error) {
	var logs []*Log
	d.mu.Lock()
	for l, m := range d.broken {
		if m.err != nil {
			logs, cause = append(logs, l), m.err
		}
	}
	d.mu.Unlock()
	for _, l := range logs {
		l.mu.RLock()
		bytes += l.tail.deferredBytes()
		l.mu.RUnlock()
	}
	return bytes, cause
}
