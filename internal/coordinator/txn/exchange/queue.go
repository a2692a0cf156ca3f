package exchange

import (
	"context"
	"runtime"
	"sync"
	"time"
)

const (
	// maxWaiting bounds the orders that wait for a broker, and maxQuestions the questions.
	maxWaiting   = 100_000
	maxQuestions = 100_000
	// maxCall bounds the orders of a call, and the partitions of the questions of one.
	maxCall = 1000
)

// queue hands items to serve, in the order in which they came, all that wait at a time but at most
// maxCall. At most runners calls of serve run at a time, on goroutines of their own, which stay
// until the Exchange is closed: starting one for each transaction costs more than its work.
type queue[T any] struct {
	x       *Exchange
	runners int
	bound   int
	serve   func([]T)
	wake    chan struct{} // a value for each runner that was parked and has work

	mu      sync.Mutex
	pending []T
	serving int  // items
	running int  // runners
	parked  int  // runners that wait for wake
	over    bool // a runner has seen the end of the Exchange: nothing is added any longer
}

func newQueue[T any](x *Exchange, runners, bound int, serve func([]T)) *queue[T] {
	return &queue[T]{x: x, runners: runners, bound: bound, serve: serve, wake: make(chan struct{}, runners)}
}

// add adds an item, and returns false if there are too many, or after Close.
func (q *queue[T]) add(item T) bool {
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
		if !q.x.start(q.run) {
			return false
		}
		q.running++
	}
	q.pending = append(q.pending, item)
	return true
}

// waiting returns how many items were added and not served yet.
func (q *queue[T]) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending) + q.serving
}

func (q *queue[T]) run() {
	for {
		runtime.Gosched() // the caller of add often adds the next ones now
		for q.serveSome() {
		}
		if !q.park() {
			return
		}
	}
}

// serveSome serves the items that wait, and returns false if there are none.
func (q *queue[T]) serveSome() bool {
	q.mu.Lock()
	n := min(len(q.pending), maxCall)
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

// park waits for the next item. It returns false when the Exchange is closed and everything that
// was added is served.
func (q *queue[T]) park() bool {
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
	case <-q.x.ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	return len(q.pending) > 0
}

// collector collects one result for each of several requests.
type collector[T any] struct {
	mu      sync.Mutex
	results []*T
	left    int
	over    bool
	all     chan struct{}
}

func newCollector[T any](n int) *collector[T] {
	c := &collector[T]{results: make([]*T, n), left: n, all: make(chan struct{})}
	if n == 0 {
		close(c.all)
	}
	return c
}

// set notes the result of a request. After take it has no effect.
func (c *collector[T]) set(i int, result T) {
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

// wait waits for all results, at most until ctx ends or, if limit is not 0, for that long.
func (c *collector[T]) wait(ctx context.Context, limit time.Duration) {
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

// take returns the results, and missing for each that has not come.
func (c *collector[T]) take(missing T) []T {
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
