package metadata

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
)

// Subscriber is told of every change, in the order of revisions, by the
// applier's one goroutine, before next is visible through Applier.Image. Its
// first call has everything there is as created. It must not wait for the
// applier, and should wait for nothing else: every later change waits for it. What a
// disk has to do is begun, and waited for by a function that Finish adds. An error is logged and stops nothing: what could not be done for one
// topic must not hide the others.
type Subscriber func(ctx context.Context, prev, next *Image, d *Delta) error

// Applier follows a Store and publishes Images.
//
//	store ── history ──▶ apply ──▶ subscribers, one after the other ──▶ Image() ──▶ WaitFor
//
// One goroutine does all of it. Start starts it; Stop, or the end of the context
// given to Start, ends it. Should the history be gone because the applier was
// slow, it reads the whole store and goes on with the difference.
type Applier struct {
	log   *zap.Logger
	image atomic.Pointer[Image]

	mu          sync.Mutex
	subscribers []subscription
	finish      []func(context.Context, int64) error
	moved       chan struct{} // closed and replaced when image or err changes
	err         error         // why the applier ended; nil while it runs

	stop context.CancelFunc
	done chan struct{}
}

type subscription struct {
	name string
	call Subscriber
}

// NewApplier returns an applier that shows the empty Image.
func NewApplier(log *zap.Logger) *Applier {
	a := &Applier{log: log, moved: make(chan struct{})}
	a.image.Store(Empty())
	return a
}

// Subscribe adds a subscriber; they run in the order in which they were added.
// One that is added after Start is first told of the next change, not of what
// is there. The name is for the log.
func (a *Applier) Subscribe(name string, s Subscriber) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.subscribers = append(a.subscribers, subscription{name, s})
}

// Finish adds a function that waits for what a subscriber does after it has returned, such as
// work for a disk, for the image of one version: WaitFor calls it when that image is shown,
// and returns its error. It is added before Start.
func (a *Applier) Finish(wait func(ctx context.Context, version int64) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.finish = append(a.finish, wait)
}

// Image is the newest image whose subscribers have all run. Never nil.
func (a *Applier) Image() *Image { return a.image.Load() }

// Start reads the store, tells the subscribers of all of it, publishes the
// first Image and goes on in the background. On an error nothing runs. It is
// called once.
func (a *Applier) Start(ctx context.Context, store Store) error {
	next, err := loadStore(ctx, store)
	if err != nil {
		return err
	}
	watch, err := store.Watch(ctx, next.Version()+1)
	if err != nil {
		return fmt.Errorf("watch metadata from revision %d: %w", next.Version()+1, err)
	}
	run, cancel := context.WithCancel(ctx)
	a.stop, a.done = cancel, make(chan struct{})
	a.publish(run, next, Diff(a.Image(), next))
	go a.run(run, store, watch)
	return nil
}

// Stop ends the applier and waits for its goroutine. Image stays readable, a
// waiting WaitFor returns ErrClosed.
func (a *Applier) Stop() {
	if a.stop == nil {
		return
	}
	a.stop()
	<-a.done
}

// WaitFor returns when Image shows the given version or a later one, and what subscribers
// left to be done for exactly this version has been tried; see Finish. It fails with the
// context's error, or with why the applier ended.
func (a *Applier) WaitFor(ctx context.Context, version int64) error {
	for {
		a.mu.Lock()
		moved, err, finish := a.moved, a.err, a.finish
		a.mu.Unlock()
		if a.Image().Version() >= version {
			for _, wait := range finish {
				if err := wait(ctx, version); err != nil {
					return err
				}
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("wait for metadata version %d: %w", version, err)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("wait for metadata version %d, at %d: %w", version, a.Image().Version(), ctx.Err())
		}
	}
}

// Err is why the applier ended, nil while it runs. ErrClosed: it was stopped.
// Anything else means that this broker no longer learns of changes.
func (a *Applier) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Done is closed when the applier ended; Err then says why. It is nil before
// Start.
func (a *Applier) Done() <-chan struct{} { return a.done }

func (a *Applier) run(ctx context.Context, store Store, watch Watcher) {
	defer close(a.done)
	err := a.follow(ctx, store, watch)
	if ctx.Err() != nil || errors.Is(err, ErrClosed) {
		err = ErrClosed
	} else {
		a.log.Error("metadata applier ended: this broker no longer learns of changes", zap.Error(err))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
	close(a.moved)
	a.moved = make(chan struct{})
}

// follow applies the history until an error, which is never nil.
func (a *Applier) follow(ctx context.Context, store Store, watch Watcher) error {
	defer func() { watch.Close() }()
	for {
		batch, err := watch.Next(ctx)
		switch {
		case errors.Is(err, ErrCompacted):
			watch.Close()
			if watch, err = a.resync(ctx, store); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		case batch.Revision != a.Image().Version()+1:
			return fmt.Errorf("metadata history has revision %d after %d", batch.Revision, a.Image().Version())
		}
		next, delta, err := a.Image().Apply(batch)
		if err != nil {
			return fmt.Errorf("apply metadata revision %d: %w", batch.Revision, err)
		}
		a.publish(ctx, next, delta)
	}
}

// resync reads the whole store because the history has a hole. The watcher that
// it returns is valid, if already closed, also with an error.
func (a *Applier) resync(ctx context.Context, store Store) (Watcher, error) {
	next, err := loadStore(ctx, store)
	if err != nil {
		return closedWatcher{}, err
	}
	a.log.Warn("metadata applier fell behind, read everything again",
		zap.Int64("from", a.Image().Version()), zap.Int64("to", next.Version()))
	watch, err := store.Watch(ctx, next.Version()+1)
	if err != nil {
		return closedWatcher{}, fmt.Errorf("watch metadata from revision %d: %w", next.Version()+1, err)
	}
	a.publish(ctx, next, Diff(a.Image(), next))
	return watch, nil
}

// publish runs the subscribers and then shows the image.
func (a *Applier) publish(ctx context.Context, next *Image, d *Delta) {
	prev := a.Image()
	a.mu.Lock()
	subscribers := a.subscribers
	a.mu.Unlock()
	if !d.Empty() {
		for _, s := range subscribers {
			if err := s.call(ctx, prev, next, d); err != nil {
				a.log.Error("metadata subscriber failed", zap.String("subscriber", s.name),
					zap.Int64("version", next.Version()), zap.Error(err))
			}
		}
	}
	a.image.Store(next)
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.moved)
	a.moved = make(chan struct{})
}

func loadStore(ctx context.Context, store Store) (*Image, error) {
	kvs, revision, err := store.Range(ctx, "/")
	if err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	next, err := Load(kvs, revision)
	if err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	return next, nil
}

// closedWatcher stands where there is no watcher to close.
type closedWatcher struct{}

func (closedWatcher) Next(context.Context) (Batch, error) { return Batch{}, ErrClosed }
func (closedWatcher) Close()                              {}
