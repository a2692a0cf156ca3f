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
// NewSplitBudget returns one with two queues: callers who need few bytes have an eighth of it for
// themselves, and do not wait behind those who need more.
//
// Every Acquire that returned nil, every TryShare that returned true, and every Share must be
// followed by a Release of the same number of bytes, on every path. A Budget must not be copied;
// its methods are safe for concurrent use and Release never blocks.
type Budget struct {
	size  int64
	few   int64 // up to so many bytes are few; 0: there is one queue
	share int64 // for callers who need few

	mu      sync.Mutex
	held    [kinds]int64
	waiting [kinds]waiters
	stats   BudgetStats
}

// waiters is the queue of the callers of a kind.
type waiters struct {
	first, last *waiter
	n           int
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
	ready      chan struct{} // closed when the bytes are granted
	prev, next *waiter
	granted    bool
}

// NewBudget returns a budget of size bytes; less than one counts as one.
func NewBudget(size int64) *Budget { return &Budget{size: max(size, 1)} }

// NewSplitBudget returns a budget of size bytes, an eighth of which is for callers who need at most
// few bytes, and at most that eighth. They use the rest, too, while no other caller waits. One that
// is larger than the rest is admitted when only they hold bytes.
func NewSplitBudget(size, few int64) *Budget {
	b := NewBudget(size)
	b.share = b.size / smallPart
	b.few = min(few, b.share)
	return b
}

// kind returns the queue of callers who need n bytes.
func (b *Budget) kind(n int64) int {
	if n <= b.few {
		return few
	}
	return many
}

// Acquire takes n bytes. It waits, first come, first served, until they are free. If ctx ends
// first, it takes nothing and returns ctx's error. If n is zero or less, it takes nothing and never
// waits.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	if n <= 0 {
		return nil
	}
	b.mu.Lock()
	if b.waiting[b.kind(n)].first == nil && b.fits(n) {
		b.take(n)
		b.mu.Unlock()
		return nil
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	b.waiting[b.kind(n)].push(w)
	b.stats.Waited++
	b.mu.Unlock()

	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return b.giveUp(w, ctx.Err())
	}
}

// TryAcquire takes n bytes if they are free and no caller of their queue waits, and reports whether
// it did.
func (b *Budget) TryAcquire(n int64) bool {
	if n <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting[b.kind(n)].first != nil || !b.fits(n) {
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
	n = max(min(n, max((b.size-b.used())/8, least)), 0)
	b.take(n)
	return n
}

// TryShare takes n bytes if at least part times as many are free, and reports whether it did: among
// holders that keep their bytes for long, large ones are refused first.
func (b *Budget) TryShare(n, part int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > (b.size-b.used())/part {
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
	held := &b.held[b.kind(n)]
	if *held -= n; *held < 0 {
		if Invariants {
			panic(fmt.Sprintf("bufpool: budget of %d bytes: %d bytes more released than acquired", b.size, -*held))
		}
		*held = 0
	}
	b.admit()
}

// Used returns the number of bytes held now. It exceeds the budget's size only by the one request
// that was admitted alone, and by the least shares.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used()
}

// used is Used. Caller holds mu, like those of all below.
func (b *Budget) used() int64 { return b.held[few] + b.held[many] }

// Stats returns the counters.
func (b *Budget) Stats() BudgetStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Size, s.Used, s.Waiting = b.size, b.used(), b.waiting[few].n+b.waiting[many].n
	return s
}

// giveUp ends a wait whose ctx ended. A grant that came at the same moment is passed on.
func (b *Budget) giveUp(w *waiter, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.Canceled++
	if w.granted {
		b.held[b.kind(w.n)] -= w.n
		b.stats.Acquired--
	} else {
		b.waiting[b.kind(w.n)].remove(w)
	}
	b.admit()
	return err
}

// fits reports whether a caller may have n bytes who is the first of its queue.
func (b *Budget) fits(n int64) bool {
	free := b.size - b.used()
	if b.kind(n) == few {
		return b.held[few]+n <= b.share || b.waiting[many].first == nil && n <= free
	}
	alone := b.held[many] == 0 && b.held[few] <= b.share
	return alone || n <= min(free, b.size-b.share-b.held[many])
}

func (b *Budget) take(n int64) {
	b.held[b.kind(n)] += n
	b.stats.Acquired++
	b.stats.Peak = max(b.stats.Peak, b.used())
}

// admit serves those who need more first: while they wait, the others have only their share.
func (b *Budget) admit() {
	for _, kind := range [...]int{many, few} {
		for w := b.waiting[kind].first; w != nil && b.fits(w.n); w = b.waiting[kind].first {
			b.waiting[kind].remove(w)
			b.take(w.n)
			w.granted = true
			close(w.ready)
		}
	}
}

func (q *waiters) push(w *waiter) {
	w.prev = q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	q.n++
}

func (q *waiters) remove(w *waiter) {
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	q.n--
}
