package storage

import (
	"slices"
	"time"
)

// revert takes back what was numbered and will never count, because the journal failed:
// everything beyond what was acknowledged. It is the only rollback there is.
//
// What was acknowledged as written and is not durable stays: memory is the best copy
// now, and it is flushed to segments before the directory takes records again.
func (l *Log) revert(err error) {
	l.own()
	defer l.disown()
	l.flushMu.Lock()
	defer l.flushMu.Unlock()

	l.mu.Lock()
	if l.aside != nil { // nothing of it is the journal's, and what is in memory is a cache
		l.mu.Unlock()
		return
	}
	l.tail.keepWritten()
	end := l.flushed
	keep := l.tail.flushed
	for keep < len(l.tail.chunks) && l.tail.chunks[keep].ready {
		keep++
	}
	if keep > l.tail.flushed {
		end = l.tail.chunks[keep-1].next
	}
	gone := l.tail.cutEnd(end)
	l.mu.Unlock()
	l.takeBack(end, gone, err)
}

// revertQueued takes back what waits in the journal's queue, because the log is out of
// use: it could wait for room that the log itself keeps from being made. The caller owns
// the right to commit and holds flushMu.
func (l *Log) revertQueued(err error) {
	l.dir.journal.Drop(l.stream)
	l.mu.Lock()
	i := slices.IndexFunc(l.tail.chunks, func(c *chunk) bool { return c.dropped })
	if i < 0 {
		l.mu.Unlock()
		return
	}
	end := l.tail.chunks[i].base
	gone := l.tail.cutEnd(end)
	l.mu.Unlock()
	l.takeBack(end, gone, err)
}

// takeBack ends the log at end, beyond which gone were numbered.
func (l *Log) takeBack(end int64, gone []*chunk, err error) {
	l.dir.memory.drop(gone, 0)
	if l.logEnd.Load() == end {
		return
	}
	l.logEnd.Store(end)
	l.smu.Lock()
	l.epochs.CutEnd(end)
	l.producers.Cut(end)
	l.smu.Unlock()
	l.observer().Reverted(end, err)
}

// now is the wall clock.
func (d *Dir) now() time.Time { return time.Now() }
