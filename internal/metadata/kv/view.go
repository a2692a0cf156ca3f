package kv

import (
	"context"
	"fmt"
	"sync"

	"github.com/chronik-io/chronik/internal/metadata"
)

// View is a State with its recent history, for concurrent readers and watchers. One writer, the
// back end's goroutine, changes it through Apply, Commit and Replace. Readers see a change only
// after one of these calls; a back end calls them when the change is durable. The only lock is the
// view's own; no code blocks while it holds it.
type View struct {
	stop  <-chan struct{} // closed when the store closes
	mu    sync.RWMutex
	state *State // only the writer changes it, and reads it without mu
	past  history
	moved chan struct{} // closed and replaced when the revision grows
}

// NewView returns a view of a state. It keeps the last limit transactions for watchers, and at most
// 16 MiB of them; 0 means 4,096. When stop is closed, calls return ErrClosed.
func NewView(state *State, limit int, stop <-chan struct{}) *View {
	if limit <= 0 {
		limit = defaultHistory
	}
	return &View{stop: stop, state: state, past: history{limit: limit}, moved: make(chan struct{})}
}

// State returns the state. Only the writer may use it.
func (v *View) State() *State { return v.state }

// Commit shows a group of the view's state.
func (v *View) Commit(g *Group) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range g.admitted {
		v.past.add(v.state.Replay(t))
	}
	if len(g.admitted) > 0 {
		v.wakeLocked()
	}
}

// Apply decides transactions in order, each against the state after those before it, and shows
// those that are admitted. It keeps their slices.
func (v *View) Apply(txns []metadata.Txn) []Outcome {
	g, outcomes := v.state.Begin(), make([]Outcome, len(txns))
	for i, t := range txns {
		outcomes[i] = g.Add(t)
	}
	v.Commit(g)
	return outcomes
}

// Replace shows another state, which must not be older. The history is lost: a watcher of an
// earlier revision gets ErrCompacted.
func (v *View) Replace(state *State) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.state, v.past = state, history{limit: v.past.limit}
	v.wakeLocked()
}

func (v *View) wakeLocked() {
	close(v.moved)
	v.moved = make(chan struct{})
}

// Revision returns the revision that readers see.
func (v *View) Revision() int64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.state.revision
}

// Get implements metadata.Store.
func (v *View) Get(ctx context.Context, key string) (metadata.KV, int64, error) {
	if err := v.readable(ctx); err != nil {
		return metadata.KV{}, 0, fmt.Errorf("get %s: %w", key, err)
	}
	found, revision := v.Key(key)
	return found, revision, nil
}

// Key is Get that works even if the store is closed.
func (v *View) Key(key string) (metadata.KV, int64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.state.Get(key), v.state.revision
}

// Range implements metadata.Store.
func (v *View) Range(ctx context.Context, prefix string) ([]metadata.KV, int64, error) {
	if err := v.readable(ctx); err != nil {
		return nil, 0, fmt.Errorf("range %s: %w", prefix, err)
	}
	kvs, revision := v.All(prefix)
	return kvs, revision, nil
}

// All returns all keys with a prefix in order and their revision, even if the store is closed.
func (v *View) All(prefix string) ([]metadata.KV, int64) {
	kvs, revision := v.list(prefix)
	Sort(kvs) // without the lock, for which the writer waits
	return kvs, revision
}

func (v *View) list(prefix string) ([]metadata.KV, int64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.state.list(prefix), v.state.revision
}

func (v *View) readable(ctx context.Context) error {
	select {
	case <-v.stop:
		return metadata.ErrClosed
	default:
		return ctx.Err()
	}
}

// WaitFor implements metadata.Store.
func (v *View) WaitFor(ctx context.Context, revision int64) error {
	for {
		v.mu.RLock()
		has, moved := v.state.revision, v.moved
		v.mu.RUnlock()
		if has >= revision {
			return nil
		}
		select {
		case <-moved:
		case <-v.stop:
			return fmt.Errorf("wait for metadata revision %d: %w", revision, metadata.ErrClosed)
		case <-ctx.Done():
			return fmt.Errorf("wait for metadata revision %d: %w", revision, ctx.Err())
		}
	}
}

// Watch implements metadata.Store. It may be called for a future revision.
func (v *View) Watch(ctx context.Context, from int64) (metadata.Watcher, error) {
	if err := v.readable(ctx); err != nil {
		return nil, fmt.Errorf("watch from revision %d: %w", from, err)
	}
	return v.Follow(from), nil
}
