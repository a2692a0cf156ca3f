package storage

import (
	"time"
)

// revert takes back what was numbered and will never count: everything beyond
// the durable end of a journalled log, or beyond the written end of the other
// kind. It is the only rollback there is.
func (l *Log) revert(err error) {
	l.own()
	defer l.disown()
	l.flushMu.Lock()
	defer l.flushMu.Unlock()

	l.mu.Lock()
	end := l.flushed
	keep := l.tail.flushed
	if l.mode == journalled {
		for keep < len(l.tail.chunks) && l.tail.chunks[keep].ready {
			keep++
		}
	}
	if keep > 0 && keep > l.tail.flushed {
		end = l.tail.chunks[keep-1].next
	}
	gone := l.tail.cutEnd(end)
	l.mu.Unlock()

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
