package kv

import (
	"context"
	"fmt"
	"sync"

	"github.com/chronik-io/chronik/internal/metadata"
)

const (
	defaultHistory = 4096
	historyBytes   = 16 << 20
)

// history is the recent past, for watchers. It is bounded in transactions and bytes. A watcher that
// falls behind it must reread the store. Watchers have no buffers of their own.
type history struct {
	limit   int
	batches []metadata.Batch // revisions without a gap; the last is the state's
	bytes   int64
}

func (h *history) add(b metadata.Batch) {
	h.batches = append(h.batches, b)
	h.bytes += BatchSize(b)
	drop := 0
	for drop < len(h.batches)-1 && (len(h.batches)-drop > h.limit || h.bytes > historyBytes) {
		h.bytes -= BatchSize(h.batches[drop])
		drop++
	}
	clear(h.batches[:drop]) // the array is reused until append needs a new one
	h.batches = h.batches[drop:]
}

// BatchSize returns the approximate memory of a batch in bytes.
func BatchSize(b metadata.Batch) int64 {
	n := int64(64)
	for _, e := range b.Events {
		n += int64(len(e.Key)+len(e.Value)) + 64
	}
	return n
}

// Watcher reads the history of a View. It implements metadata.Watcher.
type Watcher struct {
	view   *View
	next   int64
	once   sync.Once
	closed chan struct{} // closed by Close
}

// Follow returns a watcher from a revision on, whether or not the store is closed.
func (v *View) Follow(from int64) *Watcher {
	return &Watcher{view: v, next: from, closed: make(chan struct{})}
}

// Close implements metadata.Watcher.
func (w *Watcher) Close() { w.once.Do(func() { close(w.closed) }) }

// Next implements metadata.Watcher.
func (w *Watcher) Next(ctx context.Context) (metadata.Batch, error) {
	for {
		b, moved, err := w.Poll()
		if err != nil || moved == nil {
			return b, err
		}
		select {
		case <-moved:
		case <-w.closed:
			return metadata.Batch{}, metadata.ErrClosed
		case <-w.view.stop:
			return metadata.Batch{}, metadata.ErrClosed
		case <-ctx.Done():
			return metadata.Batch{}, ctx.Err()
		}
	}
}

// Poll returns the next batch, or a channel that is closed when there may be one. It does not
// block, and works after the store has closed.
func (w *Watcher) Poll() (metadata.Batch, <-chan struct{}, error) {
	select {
	case <-w.closed:
		return metadata.Batch{}, nil, metadata.ErrClosed
	default:
	}
	v := w.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	if w.next > v.state.revision {
		return metadata.Batch{}, v.moved, nil
	}
	first := v.state.revision - int64(len(v.past.batches)) + 1
	if w.next < first {
		return metadata.Batch{}, nil, fmt.Errorf("watch from revision %d, the oldest kept is %d: %w", w.next, first, metadata.ErrCompacted)
	}
	b := v.past.batches[w.next-first]
	w.next++
	return b, nil, nil
}
