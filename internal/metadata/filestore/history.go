package filestore

import (
	"context"
	"fmt"
	"sync"

	"github.com/chronik-io/chronik/internal/metadata"
)

// history is the recent past, for watchers. It is bounded in transactions and bytes. A watcher that
// falls behind it must reread the store. Watchers have no buffers of their own.
type history struct {
	limit   int
	batches []metadata.Batch // revisions without a gap; the last is the store's
	bytes   int64
}

func (h *history) add(b metadata.Batch) {
	h.batches = append(h.batches, b)
	h.bytes += batchSize(b)
	drop := 0
	for drop < len(h.batches)-1 && (len(h.batches)-drop > h.limit || h.bytes > historyBytes) {
		h.bytes -= batchSize(h.batches[drop])
		drop++
	}
	clear(h.batches[:drop]) // the array is reused until append needs a new one
	h.batches = h.batches[drop:]
}

func batchSize(b metadata.Batch) int64 {
	n := int64(64)
	for _, e := range b.Events {
		n += int64(len(e.Key)+len(e.Value)) + 64
	}
	return n
}

// Watch implements metadata.Store. It may be called for a future revision.
func (s *Store) Watch(ctx context.Context, from int64) (metadata.Watcher, error) {
	if err := s.readable(ctx); err != nil {
		return nil, fmt.Errorf("watch from revision %d: %w", from, err)
	}
	return s.watch(from), nil
}

func (s *Store) watch(from int64) *watcher {
	return &watcher{store: s, next: from, closed: make(chan struct{})}
}

type watcher struct {
	store  *Store
	next   int64
	once   sync.Once
	closed chan struct{}
}

func (w *watcher) Close() { w.once.Do(func() { close(w.closed) }) }

func (w *watcher) Next(ctx context.Context) (metadata.Batch, error) {
	for {
		b, moved, err := w.poll()
		if err != nil || moved == nil {
			return b, err
		}
		select {
		case <-moved:
		case <-w.closed:
			return metadata.Batch{}, metadata.ErrClosed
		case <-w.store.stop:
			return metadata.Batch{}, metadata.ErrClosed
		case <-ctx.Done():
			return metadata.Batch{}, ctx.Err()
		}
	}
}

// poll returns the next batch, or a channel to wait on.
func (w *watcher) poll() (metadata.Batch, <-chan struct{}, error) {
	select {
	case <-w.closed:
		return metadata.Batch{}, nil, metadata.ErrClosed
	default:
	}
	s := w.store
	s.mu.RLock()
	defer s.mu.RUnlock()
	if w.next > s.state.revision {
		return metadata.Batch{}, s.moved, nil
	}
	first := s.state.revision - int64(len(s.history.batches)) + 1
	if w.next < first {
		return metadata.Batch{}, nil, fmt.Errorf("watch from revision %d, the oldest kept is %d: %w", w.next, first, metadata.ErrCompacted)
	}
	b := s.history.batches[w.next-first]
	w.next++
	return b, nil, nil
}
