package outbound

import (
	"context"
	"sync"
)

// Work owns the goroutines of queues. Its methods may be called concurrently.
type Work struct {
	ctx  context.Context // ends at Close
	stop context.CancelFunc

	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// NewWork returns a Work without goroutines. The caller must call Close.
func NewWork() *Work {
	w := &Work{}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// Context ends at Close.
func (w *Work) Context() context.Context { return w.ctx }

// Close ends the context and waits for all goroutines.
func (w *Work) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.stop()
	w.group.Wait()
}

// Start runs f on a goroutine that Close waits for. It returns false after Close.
func (w *Work) Start(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.group.Go(f)
	}
	return !w.closed
}
