package bufpool

import (
	"context"
	"fmt"
	"sync"
)

// Budget bounds how many bytes its holders have together. It is a weighted semaphore that is
// strictly first come, first served, so that small requests do not starve a large one before them.
// A request larger than the whole budget is admitted alone, when nothing else is held.
//
// Every Acquire that returned nil, every TryShare that returned true, and every Share must be
// followed by a Release of the same number of bytes, on every path. A Budget must not be copied;
// its methods are safe for concurrent use and Release never blocks.
type Budget struct {
	size int64

	mu     sync.Mutex
	used   int64
	first  *waiter
	last   *waiter
	queued int
	stats  BudgetStats
}

// BudgetStats are the counters of a Budget since its creation, and its present state.
type BudgetStats struct {
	Size, Used, Peak int64  // bytes
	Waiting          int    // callers that wait in Acquire now
	Acquired         uint64 // successful calls of Acquire, TryAcquire, Share and TryShare
	Waited           uint64 // calls of Acquire that had to wait
	Canceled         uint64 // calls of Acquire that ended with their context
}

type waiter struct {
	n          int64
	ready      chan struct{}
	prev, next *waiter
	granted    bool
}

// NewBudget returns a budget of size bytes; less than one counts as one.
func NewBudget(size int64) *Budget { return &Budget{size: max(size, 1)} }

// Acquire takes n bytes. It waits, first come, first served, until they are free. If ctx ends
// first, it takes nothing and returns ctx's error. If n is zero or less, it takes nothing and never
// waits.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	if n <= 0 {
		return nil
	}
	b.mu.Lock()
	if b.first == nil && b.fits(n) {
		b.take(n)
		b.mu.Unlock()
		return nil
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	b.push(w)
	b.stats.Waited++
	b.mu.Unlock()

	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return b.giveUp(w, ctx.Err())
	}
}

// TryAcquire takes n bytes if they are free and no caller waits, and reports whether it did.
func (b *Budget) TryAcquire(n int64) bool {
	if n <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first != nil || !b.fits(n) {
		return false
	}
	b.take(n)
	return true
}

// Share takes up to n bytes without waiting, and returns how many. It takes at most an eighth of
// the free bytes, so that holders that keep their share for long leave some to others, but at least
// least, even if that many are not free. It is for work that can do with less.
func (b *Budget) Share(n, least int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = max(min(n, max((b.size-b.used)/8, least)), 0)
	b.take(n)
	return n
}

// TryShare takes n bytes if at least part times as many are free, and reports whether it did: among
// holders that keep their bytes for long, large ones are refused first.
func (b *Budget) TryShare(n, part int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > (b.size-b.used)/part {
		return false
	}
	b.take(max(n, 0))
	return true
}

// Release returns n bytes and admits the callers that have waited longest.
func (b *Budget) Release(n int64) {
	if n <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.used < 0 {
		if Invariants {
			panic(fmt.Sprintf("bufpool: budget of %d bytes: %d bytes more released than acquired", b.size, -b.used))
		}
		b.used = 0
	}
	b.admit()
}

// Used returns the number of bytes held now. It exceeds the budget's size only by the one request
// that was admitted alone, and by the least shares.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Stats returns the counters.
func (b *Budget) Stats() BudgetStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Size, s.Used, s.Waiting = b.size, b.used, b.queued
	return s
}

// giveUp ends a wait whose ctx ended. A grant that came at the same moment is passed on.
func (b *Budget) giveUp(w *waiter, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.Canceled++
	if w.granted {
		b.used -= w.n
		b.stats.Acquired--
	} else {
		b.remove(w)
	}
	b.admit()
	return err
}

func (b *Budget) fits(n int64) bool { return b.used == 0 || n <= b.size-b.used }

func (b *Budget) take(n int64) {
	b.used += n
	b.stats.Acquired++
	b.stats.Peak = max(b.stats.Peak, b.used)
}

func (b *Budget) admit() {
	for w := b.first; w != nil && b.fits(w.n); w = b.first {
		b.remove(w)
		b.take(w.n)
		w.granted = true
		close(w.ready)
	}
}

func (b *Budget) push(w *waiter) {
	w.prev = b.last
	if b.last == nil {
		b.first = w
	} else {
		b.last.next = w
	}
	b.last = w
	b.queued++
}

func (b *Budget) remove(w *waiter) {
	if w.prev == nil {
		b.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		b.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	b.queued--
}
