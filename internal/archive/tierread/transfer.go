package tierread

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/objects"
)

const (
	// maxAbandoned is how many transfers wait before those leave that have no caller.
	maxAbandoned = 1024
	// maxFailed is of how many failures the Reader knows.
	maxFailed = 1024
)

// load reads a value from the store, and returns about how much memory it takes.
type load func(context.Context, objects.Store) (value any, size int64, err error)

// flight is a transfer. Reader.mu guards its fields, except value and err, which are set before
// done is closed.
type flight struct {
	key     key
	load    load
	ahead   bool   // no caller has asked for it yet
	then    func() // is called with mu held when a flight ahead has succeeded; nil: nothing is
	waiters int
	done    chan struct{} // closed when the flight has ended
	value   any
	err     error
}

// end notifies those who wait. No flight ends twice.
func (f *flight) end(value any, err error) {
	f.value, f.err = value, err
	close(f.done)
}

// failure is that of a transfer, which is not repeated until a time.
type failure struct {
	err   error
	until time.Time
}

// get returns what the cache has under a key, or what a transfer returns.
func (r *Reader) get(ctx context.Context, k key, do load) (any, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	if e := r.cache.get(k); e != nil {
		r.stats.Hits++
		r.mu.Unlock()
		return e.value, nil
	}
	if err := r.failure(k); err != nil {
		r.mu.Unlock()
		return nil, err
	}
	r.stats.Misses++
	f := r.flights[k]
	if f == nil || r.opt.Broken.Has(TransferAlone) {
		f = &flight{key: k, load: do, done: make(chan struct{})}
		r.start(f)
	} else {
		f.ahead = false
		r.stats.Shared++
	}
	f.waiters++
	r.mu.Unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	r.mu.Lock()
	f.waiters--
	r.mu.Unlock()
	select {
	case <-f.done:
		return f.value, f.err
	default:
		return nil, fmt.Errorf("read from the object store, which has not answered yet: %w", context.Cause(ctx))
	}
}

// start runs a flight, at once or after others. The caller holds mu.
func (r *Reader) start(f *flight) {
	r.flights[f.key] = f
	if r.running < r.opt.Transfers {
		r.running++
		r.wg.Go(func() { r.run(f) })
		return
	}
	if len(r.queue) >= maxAbandoned {
		r.queue = slices.DeleteFunc(r.queue, func(f *flight) bool {
			if f.waiters == 0 {
				delete(r.flights, f.key)
			}
			return f.waiters == 0
		})
	}
	r.queue = append(r.queue, f)
}

// run runs a flight, and then those that wait.
func (r *Reader) run(f *flight) {
	for f != nil {
		var value any
		var size int64
		store, err := r.opt.Open()
		if err == nil {
			value, size, err = f.load(r.ctx, &counted{store, &r.got})
		}
		f = r.ended(f, value, size, err)
	}
}

// ended notes how a flight ended, and returns the next one to run, nil if none waits.
func (r *Reader) ended(f *flight, value any, size int64, err error) (next *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flights[f.key] == f {
		delete(r.flights, f.key)
	}
	switch {
	case r.closed:
		value, err = nil, ErrClosed
	case err != nil:
		r.fail(f.key, err)
	case size <= r.cache.limit/2 || f.waiters == 0:
		r.cache.add(&entry{key: f.key, value: value, size: size, ahead: f.ahead})
	}
	f.end(value, err)
	if len(r.queue) > 0 { // those with callers first, which wait for a short time only
		i := max(slices.IndexFunc(r.queue, func(f *flight) bool { return f.waiters > 0 }), 0)
		next = r.queue[i]
		r.queue = slices.Delete(r.queue, i, i+1)
	} else {
		r.running--
	}
	if f.then != nil && err == nil {
		f.then()
	}
	return next
}

// fail notes a failure: of what was transferred, if that is damaged or contradicts, and otherwise,
// also if the object is missing, of all that the object has. The caller holds mu.
func (r *Reader) fail(k key, err error) {
	r.stats.Errors++
	if !format.Unusable(err) || errors.Is(err, objects.ErrNotFound) {
		k = key{nonce: k.nonce, chunk: anyOf}
	}
	now := time.Now()
	if len(r.failed) >= maxFailed {
		for k, f := range r.failed {
			if !now.Before(f.until) {
				delete(r.failed, k)
			}
		}
		if len(r.failed) >= maxFailed {
			clear(r.failed)
		}
	}
	r.failed[k] = failure{err, now.Add(r.opt.Pause)}
}

// failure returns why a transfer failed a short time ago, nil if it did not. The caller holds mu.
func (r *Reader) failure(k key) error {
	for _, k := range [...]key{k, {nonce: k.nonce, chunk: anyOf}} {
		f, ok := r.failed[k]
		if !ok {
			continue
		}
		if time.Now().Before(f.until) {
			return f.err
		}
		delete(r.failed, k)
	}
	return nil
}

// counted counts the bytes that a store returns.
type counted struct {
	objects.Store
	got *atomic.Int64
}

// Get implements objects.Store.
func (c *counted) Get(ctx context.Context, name string, off int64, p []byte) (int, error) {
	n, err := c.Store.Get(ctx, name, off, p)
	c.got.Add(int64(n))
	return n, err
}
