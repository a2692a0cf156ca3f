package storage

import (
	"sync"
	"sync/atomic"
)

// The logs of a directory share a journal, and no file of it can be released before each log has
// flushed what the file holds of it. Bytes are flushed about as fast as they are written, and
// memory bounds those that are not. A new segment costs several syncs, however few bytes it gets. A
// log that needs one for each chunk (segment.ms=1) is written faster than it is flushed, and
// without a bound it would owe so many segments that the journal is full before they exist.
//
// So a directory counts the segments that its logs owe. While they are many, a log that owes some
// waits with its own appends until it is flushed, and no other log waits for it. What waits in its
// queue shares a chunk, so it needs fewer segments.

// debtMax is how many segments the logs of a directory may owe together before those that owe
// some wait. A sweep so creates about that many, and what one segment of each log costs.
const debtMax = 32

// rollUnit is the size of a producer snapshot, in bytes, that costs as much as another segment.
const rollUnit = 256 << 10

// debts are the debts of the logs of a directory.
type debts struct {
	owed atomic.Int64 // segments, of all logs together

	mu      sync.Mutex
	waiting map[*Log]struct{} // logs whose queue waits until they owe less
}

// debt is what a log owes: the cost of the segments that its unflushed chunks need, as far as the
// latest segments tell. It does not matter which limit filled those. Guarded by Log.mu, apart from
// owed.
type debt struct {
	owed   atomic.Int64
	chunks int   // in the active segment
	before int   // in the segment before it; 0 if there was none since the start
	cost   int64 // of a new segment, in segments without a producer snapshot; 0: unknown
}

// rolled records that a new segment becomes the active one, with a producer snapshot of some size.
func (x *debt) rolled(snapshot int) {
	if x.chunks > 0 {
		x.before, x.chunks = x.chunks, 0
	}
	x.cost = 1 + int64(snapshot)/rollUnit
}

// of returns the debt of a number of unflushed chunks. An active segment that has become larger
// than the one before it says more.
func (x *debt) of(chunks int) int64 {
	if x.before == 0 {
		return 0
	}
	return int64(chunks/max(x.before, x.chunks)) * x.cost
}

// countDebt counts what the log owes after its unflushed chunks became fewer, and commits the
// queues that waited for that.
func (l *Log) countDebt() {
	l.mu.Lock()
	all, fewer := l.countDebtLocked()
	l.mu.Unlock()
	if fewer {
		l.dir.debts.resume(all)
	}
}

// countDebtLocked counts what the log owes. It returns what all logs owe, and whether that is less
// than before; then the caller must call resume without mu. The first count after a flush sees the
// difference, also that of an append. The caller holds mu.
func (l *Log) countDebtLocked() (all int64, fewer bool) {
	now := l.debt.of(len(l.tail.chunks) - l.tail.flushed)
	change := now - l.debt.owed.Load()
	if change == 0 { // as ever in ordinary logs, whose appends then share no cache line
		return l.dir.debts.owed.Load(), false
	}
	l.debt.owed.Store(now)
	return l.dir.debts.owed.Add(change), change < 0
}

// overdue reports whether a log must be flushed before it accepts another append.
func (d *Dir) overdue(l *Log) bool {
	return l.debt.owed.Load() > 0 && d.debts.owed.Load() >= debtMax && !d.opt.broken.has(unboundedDebt)
}

// awaitsFlush reports whether the log's queue must wait until the log is flushed, which it
// requests; countDebt commits the queue then. A log waits for no flush but its own.
func (l *Log) awaitsFlush() bool {
	d := l.dir
	if !d.overdue(l) {
		return false
	}
	d.debts.mu.Lock()
	wait := d.overdue(l) // or a flush has ended meanwhile
	if wait {
		if d.debts.waiting == nil {
			d.debts.waiting = map[*Log]struct{}{}
		}
		d.debts.waiting[l] = struct{}{}
	}
	d.debts.mu.Unlock()
	if wait {
		d.journal.Sync() // only durable chunks can be flushed, and durableAdvanced schedules that
		d.schedule(l)
	}
	return wait
}

// resume commits the queues of logs that need not wait any longer; all is what is owed.
func (x *debts) resume(all int64) {
	var ready []*Log
	x.mu.Lock()
	for l := range x.waiting {
		if all < debtMax || l.debt.owed.Load() == 0 {
			ready = append(ready, l)
			delete(x.waiting, l)
		}
	}
	x.mu.Unlock()
	for _, l := range ready {
		l.Commit(nil)
	}
}
