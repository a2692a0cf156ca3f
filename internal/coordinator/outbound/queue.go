package outbound

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// Queue hands items to a function, in the order in which they came, all that wait at a time but at
// most so many. It calls the function on goroutines of its own, which stay until the Work ends:
// starting one for each item costs more than its work. Its methods may be called concurrently.
type Queue[T any] struct {
	work    *Work
	runners int
	bound   int
	most    int
	serve   func([]T)
	wake    chan struct{} // a value for each runner that was parked and has work

	mu      sync.Mutex
	pending []T
	serving int  // items
	running int  // runners
	parked  int  // runners that wait for wake
	over    bool // a runner has seen the end of the Work: nothing is added any longer
}

// NewQueue returns an empty queue. At most runners calls of serve run at a time, each with at most
// most items, and at most bound items wait or are being served.
func NewQueue[T any](w *Work, runners, bound, most int, serve func([]T)) *Queue[T] {
	return &Queue[T]{work: w, runners: runners, bound: bound, most: most, serve: serve, wake: make(chan struct{}, runners)}
}

// Add adds an item, and returns false if there are too many, or after Close.
func (q *Queue[T]) Add(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over || len(q.pending)+q.serving >= q.bound {
		return false
	}
	switch {
	case q.parked > 0:
		q.parked--
		q.wake <- struct{}{}
	case q.running < q.runners:
		if !q.work.Start(q.run) {
			return false
		}
		q.running++
	}
	q.pending = append(q.pending, item)
	return true
}

// Waiting returns how many items were added and not served yet.
func (q *Queue[T]) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending) + q.serving
}

func (q *Queue[T]) run() {
	for {
		runtime.Gosched() // the caller of Add often adds the next ones now
		for q.serveSome() {
		}
		if !q.park() {
			return
		}
	}
}

// serveSome serves the items that wait, and returns false if there are none.
func (q *Queue[T]) serveSome() bool {
	q.mu.Lock()
	n := min(len(q.pending), q.most)
	items := q.pending[:n:n]
	if q.pending = q.pending[n:]; len(q.pending) == 0 {
		q.pending = nil
	}
	q.serving += n
	q.mu.Unlock()
	if n == 0 {
		return false
	}
	q.serve(items)
	q.mu.Lock()
	q.serving -= n
	q.mu.Unlock()
	return true
}

// park waits for the next item. It returns false when the Work has ended and everything that
// was added is served.
func (q *Queue[T]) park() bool {
	q.mu.Lock()
	if len(q.pending) > 0 || q.over {
		more := len(q.pending) > 0
		q.mu.Unlock()
		return more
	}
	q.parked++
	q.mu.Unlock()
	select {
	case <-q.wake:
		return true
	case <-q.work.ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	return len(q.pending) > 0
}

// Collector collects one result for each of several requests. Its methods may be called
// concurrently.
type Collector[T any] struct {
	mu      sync.Mutex
	results []*T
	left    int
	over    bool
	all     chan struct{} // closed with the last result
}

// NewCollector returns a Collector of n results.
func NewCollector[T any](n int) *Collector[T] {
	c := &Collector[T]{results: make([]*T, n), left: n, all: make(chan struct{})}
	if n == 0 {
		close(c.all)
	}
	return c
}

// Set notes the result of a request. After Take it has no effect.
func (c *Collector[T]) Set(i int, result T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.results[i] != nil {
		return
	}
	c.results[i] = &result
	if c.left--; c.left == 0 {
		close(c.all)
	}
}

// Wait waits for all results, at most until ctx ends or, if limit is not 0, for that long.
func (c *Collector[T]) Wait(ctx context.Context, limit time.Duration) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	select {
	case <-c.all:
	case <-ctx.Done():
	}
}

// Take returns the results, and missing for each that has not come.
func (c *Collector[T]) Take(missing T) []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	list := make([]T, len(c.results))
	for i, r := range c.results {
		if list[i] = missing; r != nil {
			list[i] = *r
		}
	}
	return list
}
