package journal

import (
	"fmt"
	"runtime"
	"time"

	"github.com/chronik-io/chronik/internal/label"
)

// write is the writer goroutine. It writes one group after the other until Close, and pauses
// between a failure and Resume.
func (j *Journal) write() {
	label.Goroutine("journal write", j.opt.Dir)
	defer j.done.Done()
	defer close(j.outcomes)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for j.await(timer) {
		// Let runnable goroutines go first. On a busy machine those are connections with requests,
		// and one datasync covers them too (measured with 128 connections: a sixth less processor
		// time per request). On an idle machine Gosched returns at once.
		runtime.Gosched()
		j.writeAndSync(j.notifyLater)
		j.mu.Lock()
		j.freeLocked()
		j.mu.Unlock()
	}
}

// await sleeps until a group should be written. It returns false to end the writer.
func (j *Journal) await(timer *time.Timer) bool {
	for {
		j.mu.Lock()
		if j.busy { // a caller of WriteGroup, which wakes the writer if entries are left
			j.wakeBy = time.Time{}
			j.sleepLocked(nil)
			continue
		}
		if j.state == closing && j.waiting.entries > 0 && !j.canPlaceLocked() && j.space.stuck() {
			left := j.emptyLocked(nil)
			j.mu.Unlock()
			j.notifyLater(batch{entries: left, err: fmt.Errorf("write queued entries to journal %s: no space: %w", j.opt.Dir, ErrStopped)})
			continue
		}
		if j.state == closed || j.state == closing && j.waiting.entries == 0 && j.group.unsynced.entries == 0 {
			j.state = closed
			j.mu.Unlock()
			return false
		}
		now := time.Now()
		write, wait := j.decideLocked(now)
		if write {
			j.busy, j.waiting.wakeAt = true, time.Time{}
			j.mu.Unlock()
			return true
		}
		j.wakeBy = now.Add(wait)
		if j.waiting.entries > 0 {
			j.waiting.wakeAt = j.wakeBy
		}
		timer.Reset(wait)
		j.sleepLocked(timer.C)
	}
}

// sleepLocked parks the writer until it is woken or alarm fires. It releases the lock.
func (j *Journal) sleepLocked(alarm <-chan time.Time) {
	j.parked = true
	j.mu.Unlock()
	select {
	case <-j.wake:
	case <-alarm:
	}
	j.mu.Lock()
	j.parked = false
	j.mu.Unlock()
}

// wakeLocked reports whether to wake the parked writer, and if so, marks it as awake. A busy
// goroutine calls it again when it has finished.
func (j *Journal) wakeLocked(now time.Time) bool {
	wake := j.parked && !j.busy && j.waiting.entries > 0 && j.wantedLocked(now)
	if wake {
		j.parked = false
	}
	return wake
}

// wantedLocked reports whether the parked writer must check the queued entries earlier than it
// would without being woken.
func (j *Journal) wantedLocked(now time.Time) bool {
	if j.noSpace {
		return j.waiting.controls > 0
	}
	if j.waiting.wakeAt.IsZero() {
		return true // the writer does not know yet that entries are queued
	}
	closed, wait := j.waiting.verdict(now, j.opt.Absent)
	return closed || now.Add(wait).Before(j.waiting.wakeAt)
}

func (j *Journal) wakeWriter() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// inlineLocked reports whether the group closes now, can be written, and will not take long.
func (j *Journal) inlineLocked(now time.Time) bool {
	if j.state != running || j.waiting.bytes > inlineBytes || j.group.syncTime > inlineSync || j.notifying.Load() > 0 {
		return false
	}
	write, _ := j.decideLocked(now)
	return write
}

// decideLocked reports whether to write a group now, and if not, how long the writer may sleep
// unless it is woken. It sets noSpace.
func (j *Journal) decideLocked(now time.Time) (write bool, wait time.Duration) {
	j.noSpace = false
	if j.state == stopped {
		return false, time.Hour
	}
	sync, until := j.syncDueLocked(now)
	write, wait = j.waiting.verdict(now, j.opt.Absent)
	if write || j.state == closing || j.part != nil {
		if write = j.canPlaceLocked(); j.noSpace {
			wait = time.Hour // space wakes the writer when there is space again
		}
	}
	return write || sync, min(wait, until)
}

// syncDueLocked reports whether written entries must be synced now although no entry waits for a
// datasync, and if not, how long that may be delayed. A sync of a dead file is due, because it
// fails. If nothing is written or queued, it forgets that a sync was requested.
func (j *Journal) syncDueLocked(now time.Time) (due bool, wait time.Duration) {
	u := &j.group.unsynced
	switch {
	case u.entries == 0:
		j.asked = j.asked && j.waiting.entries > 0
		return false, time.Hour
	case j.asked || j.state == closing || u.bytes >= j.opt.UnsyncedBytes || j.group.file.dead():
		return true, 0
	case u.due.IsZero():
		return false, time.Hour
	}
	wait = u.due.Sub(now)
	return wait <= 0, max(wait, 0)
}

// lateLocked reports whether the parked writer would sleep past the time at which written entries
// must be synced.
func (j *Journal) lateLocked(now time.Time) bool {
	at := j.group.unsynced.due
	due, _ := j.syncDueLocked(now)
	return due || !at.IsZero() && (j.wakeBy.IsZero() || at.Before(j.wakeBy))
}

// canPlaceLocked reports whether the queued entries can be written. It sets noSpace if only
// control entries, for which space is reserved, can be written.
func (j *Journal) canPlaceLocked() bool {
	if j.part != nil {
		j.noSpace = false
		return true // it has its space, and room for small entries
	}
	if j.noSpace = !j.space.fits(j.needLocked(), j.opt.MaxBytes); !j.noSpace {
		return true
	}
	n, some := j.needOfControlsLocked()
	return some && j.space.fits(n, j.opt.MaxBytes+2*j.opt.FileSize)
}

// needLocked returns an upper bound of the next write's size in bytes: that of the queued entries,
// bounded by the limit of one write, but at least that of the first entry.
func (j *Journal) needLocked() int64 {
	n := min(j.waiting.bytes+int64(j.waiting.entries)*(frameHeader+8), j.maxWrite)
	for _, s := range j.ready.all() {
		if s.queue.len() > 0 {
			return max(n, j.sizes.room(s.queue.peek())) + block
		}
	}
	return n + block
}

// needOfControlsLocked is needLocked for a write of control entries only. It returns false if no
// control entry is the first of its stream.
func (j *Journal) needOfControlsLocked() (n int64, some bool) {
	var sum int64
	for _, s := range j.ready.all() {
		for _, e := range s.queue.all() {
			if !e.control() {
				break
			}
			sum += e.size()
			n, some = max(n, e.size()), true
		}
	}
	return max(n, min(sum, j.maxWrite)) + block, some
}
