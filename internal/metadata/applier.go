package metadata

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/label"
)

// Subscriber is notified of every change, in the order of revisions, by the applier's goroutine,
// before Applier.Image shows next. One call may cover several revisions: those above prev's up to
// next's. In its first call, everything is in Delta.Created. It must not
// wait for the applier, and should not block, because every later change waits for it. It starts
// disk work in the background; a function added with Finish waits for that.
//
// An error says that the subscriber lacks the change. It does not stop the applier or the other
// subscribers. The subscriber is called again with every later change, and after a pause without
// one, until it succeeds: prev is then the last image that it applied, and the Delta has all that
// it lacks, which may be empty. So a subscriber must be able to apply again what a call that
// failed has applied. What a subscriber has taken note of, such as a log that is missing, is no
// error. Lacking has the subscribers that lack changes.
type Subscriber func(ctx context.Context, prev, next *Image, d *Delta) error

// Applier follows a Store and publishes Images.
//
//	store ── history ──▶ apply ──▶ subscribers, one after the other ──▶ Image() ──▶ WaitFor
//
// One goroutine does all of it. Start starts it; Stop, or the end of Start's context, ends it. The
// applier combines the revisions that wait for it into one Image and one Delta, so a burst of
// changes costs one wake-up of each subscriber. If it was so slow that the history is compacted, it
// reads the whole store and continues with the difference.
type Applier struct {
	log   *zap.Logger
	image atomic.Pointer[Image]

	mu          sync.Mutex
	subscribers []*subscription
	finish      []func(context.Context, int64) error
	moved       chan struct{} // closed and replaced when image or err changes
	err         error         // why the applier ended; nil while it runs

	stop context.CancelFunc
	done chan struct{} // closed by run, as its last act
}

type subscription struct {
	name string
	call Subscriber
	// last is the newest image that it applied if it lacks later ones, otherwise nil. The
	// applier's goroutine writes it and why with mu, and may read them without.
	last *Image
	why  Lack
}

// Lack is a part of the broker that has not applied the newest image.
type Lack struct {
	Part    string    // the name of the subscriber
	Applied int64     // the version that it applied last
	Since   time.Time // of the first failure
	Err     error     // of the newest attempt
}

// retryPause is the pause after which a subscriber that lacks a change is called again.
const retryPause = time.Second

// NewApplier returns an applier that shows the empty Image.
func NewApplier(log *zap.Logger) *Applier {
	a := &Applier{log: log, moved: make(chan struct{})}
	a.image.Store(Empty())
	return a
}

// Subscribe adds a subscriber; subscribers run in the order in which they were added. If it is
// added after Start, its first notification is the next change, without the existing state. The
// name is for the log and for Lacking.
func (a *Applier) Subscribe(name string, s Subscriber) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.subscribers = append(a.subscribers, &subscription{name: name, call: s})
}

// Finish adds a function that waits for work that subscribers continue in the background for one
// version, such as disk work. The version may be any that one of their calls covered. WaitFor calls
// it when Image shows that version or a later one, and returns its error. Finish must be called
// before Start.
func (a *Applier) Finish(wait func(ctx context.Context, version int64) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.finish = append(a.finish, wait)
}

// Image returns the newest image that all subscribers have applied, except those of Lacking. It is
// never nil.
func (a *Applier) Image() *Image { return a.image.Load() }

// Start reads the store, notifies the subscribers of its content, publishes the first Image and
// continues in the background. After an error nothing runs. Start must be called at most once.
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

// Stop ends the applier and waits for its goroutine. Image still works; waiting calls of WaitFor
// return ErrClosed.
func (a *Applier) Stop() {
	if a.stop == nil {
		return
	}
	a.stop()
	<-a.done
}

// WaitFor waits until Image shows the given version or a later one and the functions added with
// Finish have returned for the given version. It fails with the context's error, or with the
// reason why the applier ended.
func (a *Applier) WaitFor(ctx context.Context, version int64) error {
	if err := a.WaitShown(ctx, version); err != nil {
		return err
	}
	a.mu.Lock()
	finish := a.finish
	a.mu.Unlock()
	for _, wait := range finish {
		if err := wait(ctx, version); err != nil {
			return err
		}
	}
	return nil
}

// WaitShown is WaitFor without the functions added with Finish, so it does not wait for a disk.
func (a *Applier) WaitShown(ctx context.Context, version int64) error {
	for {
		a.mu.Lock()
		moved, err := a.moved, a.err
		a.mu.Unlock()
		if a.Image().Version() >= version {
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

// Err returns why the applier ended, or nil while it runs. ErrClosed means that it was stopped.
// After any other error this broker no longer follows metadata changes.
func (a *Applier) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Lacking returns the parts of the broker that lack a change because it failed there.
func (a *Applier) Lacking() (list []Lack) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.subscribers {
		if s.last != nil {
			list = append(list, s.why)
		}
	}
	return list
}

// Done returns a channel that is closed when the applier has ended; Err then returns the reason. It
// is nil before Start.
func (a *Applier) Done() <-chan struct{} { return a.done }

func (a *Applier) run(ctx context.Context, store Store, watch Watcher) {
	label.Goroutine("metadata apply", "")
	defer close(a.done)
	err := a.follow(ctx, store, watch)
	if ctx.Err() != nil || errors.Is(err, ErrClosed) {
		err = ErrClosed
	} else {
		a.log.Error("metadata applier ended, this broker no longer follows metadata changes; restart it", zap.Error(err))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
	close(a.moved)
	a.moved = make(chan struct{})
}

// follow applies the history until an error, which it returns.
func (a *Applier) follow(ctx context.Context, store Store, watch Watcher) error {
	defer func() { watch.Close() }()
	for {
		batch, err := a.next(ctx, watch)
		switch {
		case errors.Is(err, ErrCompacted):
			watch.Close()
			if watch, err = a.resync(ctx, store); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		next, delta, err := a.Image().Apply(gather(watch, []Batch{batch})...)
		if err != nil {
			return fmt.Errorf("apply metadata: %w", err)
		}
		a.publish(ctx, next, delta)
	}
}

// next returns the next change. While it waits for one, it calls the subscribers again that lack
// changes.
func (a *Applier) next(ctx context.Context, watch Watcher) (Batch, error) {
	for len(a.Lacking()) > 0 {
		within, cancel := context.WithTimeout(ctx, retryPause)
		batch, err := watch.Next(within)
		late := within.Err() != nil && errors.Is(err, within.Err())
		cancel()
		if !late || ctx.Err() != nil {
			return batch, err
		}
		img := a.Image()
		for _, s := range a.subscribed() {
			if s.last != nil {
				a.notify(ctx, s, s.last, img, Diff(s.last, img))
			}
		}
	}
	return watch.Next(ctx)
}

// resync reads the whole store because the history was compacted. The returned watcher is valid
// even with an error, but then closed.
func (a *Applier) resync(ctx context.Context, store Store) (Watcher, error) {
	next, err := loadStore(ctx, store)
	if err != nil {
		return closedWatcher{}, err
	}
	a.log.Warn("metadata applier fell behind and reread the store",
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
	for _, s := range a.subscribed() {
		switch {
		case s.last != nil:
			a.notify(ctx, s, s.last, next, Diff(s.last, next))
		case !d.Empty():
			a.notify(ctx, s, prev, next, d)
		}
	}
	a.image.Store(next)
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.moved)
	a.moved = make(chan struct{})
}

func (a *Applier) subscribed() []*subscription {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.subscribers
}

// notify calls a subscriber, and notes whether it lacks the change then.
func (a *Applier) notify(ctx context.Context, s *subscription, prev, next *Image, d *Delta) {
	err := s.call(ctx, prev, next, d)
	lacked, before := s.last != nil, s.why.Err
	a.mu.Lock()
	switch {
	case err == nil:
		s.last, s.why = nil, Lack{}
	case lacked:
		s.why.Err = err
	default:
		s.last, s.why = prev, Lack{Part: s.name, Applied: prev.Version(), Since: time.Now(), Err: err}
	}
	a.mu.Unlock()
	about := []zap.Field{zap.String("subscriber", s.name), zap.Int64("version", next.Version())}
	switch {
	case err == nil && lacked:
		a.log.Info("metadata subscriber has all changes again", about...)
	case err != nil && (!lacked || before.Error() != err.Error()):
		a.log.Error("metadata subscriber failed: this part of the broker lacks a change until it succeeds; see chronikctl cluster health",
			append(about, zap.Error(err))...)
	}
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

// closedWatcher is used when there is no watcher to close.
type closedWatcher struct{}

func (closedWatcher) Next(context.Context) (Batch, error) { return Batch{}, ErrClosed }
func (closedWatcher) Close()                              {}
