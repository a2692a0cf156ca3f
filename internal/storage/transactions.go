package storage

import (
	"math"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/storage/producers"
)

// unstable repeats some offsets of the producer state, so that readers of a log without
// transactions need no lock. Written with producersMu held.
type unstable struct {
	first   atomic.Int64 // producers.State.FirstUnstable
	decided atomic.Int64 // producers.State.NextDecided
	aborted atomic.Int64 // no marker of an aborted transaction is beyond it; -1: there is none
	open    int          // producers.State.Open, which Options.open includes
}

// noteUnstableLocked must be called after each change of the producer state. The caller holds
// producersMu.
func (l *Log) noteUnstableLocked() {
	if first, was := l.producers.FirstUnstable(), l.unstable.first.Load(); first != was {
		l.unstable.first.Store(first)
		if was == math.MaxInt64 {
			l.dir.unstable.Name(l)
		}
	}
	if decided := l.producers.NextDecided(); decided != l.unstable.decided.Load() {
		l.unstable.decided.Store(decided)
	}
	if n, was := l.producers.Open(), l.unstable.open; n != was {
		l.dir.opt.open.Add(int64(n - was))
		l.unstable.open = n
	}
	if last := l.producers.LastAborted(); last > l.unstable.aborted.Load() {
		l.unstable.aborted.Store(last)
	}
}

// OpenTransactions returns the number of open transactions in all logs, and their bound. At the
// bound, a batch that would begin another is refused with ErrTooManyTransactions.
func (m *Manager) OpenTransactions() (n, bound int64) {
	if len(m.dirs) == 0 {
		return 0, producers.MaxOpenEverywhere
	}
	return m.dirs[0].opt.open.Load(), producers.MaxOpenEverywhere
}

// OpenTransactions returns the producers with an open transaction, in the order of first offsets.
func (l *Log) OpenTransactions() []producers.Producer {
	if l.unstable.first.Load() == math.MaxInt64 {
		return nil
	}
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return l.producers.OpenTransactions()
}

// OldestTransaction returns the transaction that determines FirstUnstable, as of the last call of
// that; false if there is none.
func (l *Log) OldestTransaction() (producers.Oldest, bool) {
	if l.unstable.first.Load() == math.MaxInt64 {
		return producers.Oldest{}, false
	}
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return l.producers.Oldest()
}

// FirstUnstable returns the first offset of the oldest transaction that is open, or whose marker is
// not below a high watermark; MaxInt64 if there is none. The smaller of that and the high watermark
// is the last stable offset: readers of committed records stop there. The high watermark must have
// been read before the call. It moves the last stable offset whenever that moves, since a marker
// counts only below it.
func (l *Log) FirstUnstable(high int64) int64 {
	// A transaction is in the state before its records are below any high watermark, and leaves it
	// only when a high watermark has passed its marker.
	if l.dir.opt.broken.has(liveStable) {
		high = math.MaxInt64
	}
	if l.unstable.decided.Load() >= high {
		return l.unstable.first.Load()
	}
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	l.producers.Advance(high)
	l.noteUnstableLocked()
	return l.producers.FirstUnstable()
}

// Producer returns what the log knows of a producer id; false if nothing. It counts records that
// are not durable yet.
func (l *Log) Producer(id int64) (producers.Producer, bool) {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return l.producers.Producer(id)
}

// Producers returns all producers that the log knows, the least recently active one first.
func (l *Log) Producers() []producers.Producer {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return l.producers.Producers()
}

// ProducerCount returns how many producers Producers returns.
func (l *Log) ProducerCount() int {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return l.producers.Len()
}

// Guard returns the guard of a producer id, for the batch that is to begin its next transaction.
// The caller asks the transaction's coordinator afterwards, and then appends the batch with the
// guard. In between, a marker for the producer, a discarded record and a change of the role destroy
// the guard, and the batch is refused: what the coordinator said may no longer hold.
func (l *Log) Guard(id int64) *producers.Guard {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return l.producers.Guard(id)
}

// Unguard destroys a guard that no append needs any longer.
func (l *Log) Unguard(id int64, g *producers.Guard) {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	l.producers.Unguard(id, g)
}
