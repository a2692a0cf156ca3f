package daemon

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/network"
)

// stack lists the started components so that they are stopped in reverse order, also if the start
// fails half way. One goroutine uses it.
type stack struct {
	log   *zap.Logger
	stops []stop
}

type stop struct {
	name string
	fn   func(context.Context) error
	disk bool // see pushDisk
	lock bool // see pushLock
}

// push adds a running component. fn should return when its context ends.
func (s *stack) push(name string, fn func(context.Context) error) {
	s.stops = append(s.stops, stop{name: name, fn: fn})
}

// pushDisk is push for a component that writes something at its stop that makes the next start
// quick. It has a time limit of its own, so that slow components above it take nothing from it.
func (s *stack) pushDisk(name string, fn func(context.Context) error) {
	s.stops = append(s.stops, stop{name: name, fn: fn, disk: true})
}

// pushLock is push for a lock of what the components above it write. An abandoned component may
// still write there, so the lock is not released before all of them have returned, which may be
// after unwind.
func (s *stack) pushLock(name string, release func() error) {
	s.stops = append(s.stops, stop{name: name, fn: func(context.Context) error { return release() }, lock: true})
}

// times are the limits of a stop.
type times struct {
	drain time.Duration // for all components of push together
	disk  time.Duration // for all components of pushDisk together
	grace time.Duration // after a context has ended, until a component is abandoned
}

// unwind stops all components, the youngest first. It logs all errors and returns the first; a
// component that fails to stop does not hold up the others. A component that does not return when
// its context ends is abandoned. All contexts end with ctx.
func (s *stack) unwind(ctx context.Context, t times) error {
	drain, cancel := context.WithTimeout(ctx, t.drain)
	defer cancel()
	var disk context.Context
	var first error
	var abandoned []<-chan struct{} // closed when the component has returned
	for i := len(s.stops) - 1; i >= 0; i-- {
		x, begin, until := s.stops[i], time.Now(), drain
		if x.disk {
			if disk == nil {
				disk, cancel = context.WithTimeout(ctx, t.disk)
				defer cancel() //nolint:gocritic // once
			}
			until = disk
		}
		if x.lock && len(abandoned) > 0 {
			go releaseAfter(slices.Clone(abandoned), x, s.log)
			continue
		}
		hangs, err := x.within(until, t.grace)
		if hangs != nil {
			abandoned = append(abandoned, hangs)
		}
		s.log.Debug("stopped", zap.String("component", x.name), zap.Duration("took", time.Since(begin)), zap.Error(err))
		if err != nil {
			message := "component did not stop cleanly"
			if x.disk {
				message += "; the next start recovers as after a crash"
			}
			s.log.Error(message, zap.String("component", x.name), zap.Error(err))
			if first == nil {
				first = err
			}
		}
	}
	s.stops = nil
	return first
}

// releaseAfter releases a lock when all abandoned components have returned.
func releaseAfter(abandoned []<-chan struct{}, lock stop, log *zap.Logger) {
	for _, returned := range abandoned {
		<-returned
	}
	if err := lock.fn(context.Background()); err != nil {
		log.Error("not released after a component that did not stop in time has returned; the end of the process releases it",
			zap.String("component", lock.name), zap.Error(err))
		return
	}
	log.Info("released late, because a component did not stop in time", zap.String("component", lock.name))
}

// within runs the stop and returns its error. If it has not returned when grace has passed since
// the end of ctx, within returns an error of its own, and a channel that is closed when it has.
func (x *stop) within(ctx context.Context, grace time.Duration) (hangs <-chan struct{}, err error) {
	var failed error
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		failed = x.fn(ctx)
	}()
	select {
	case <-returned:
		return nil, failed
	case <-ctx.Done():
	}
	select {
	case <-returned:
		return nil, failed
	case <-time.After(grace):
		return returned, fmt.Errorf("%s did not stop in time, possibly because a disk does not respond: %w", x.name, ctx.Err())
	}
}

// ending is a stop that any number of callers wait for, each with a limit of its own. The earliest
// limit is that of the stop.
type ending struct {
	once  sync.Once
	limit limit
	ended chan struct{} // closed when the stop has ended
	err   error         // of the stop; guarded by ended
}

func newEnding() *ending {
	return &ending{ended: make(chan struct{}), limit: limit{Context: context.Background(), done: make(chan struct{})}}
}

// limit is a context that ends with the first of several others, with the error of that one.
type limit struct {
	context.Context // without an end
	once            sync.Once
	done            chan struct{} // closed by end
	err             error         // guarded by done
}

// end ends the context.
func (l *limit) end(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.done)
	})
}

// Done implements context.Context.
func (l *limit) Done() <-chan struct{} { return l.done }

// Err implements context.Context.
func (l *limit) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// graces is how many graces a caller waits for the stop after its context has ended. A stop can
// take longer if several components hang, or if the program's logger blocks.
const graces = 3

// wait begins the stop unless another call has, and returns its error, or one of its own if the
// stop has not ended some graces after ctx.
func (e *ending) wait(ctx context.Context, grace time.Duration, stop func(context.Context) error) error {
	e.once.Do(func() {
		go func() {
			e.err = stop(&e.limit)
			close(e.ended)
		}()
	})
	defer context.AfterFunc(ctx, func() { e.limit.end(ctx.Err()) })()
	select {
	case <-e.ended:
		return e.err
	case <-ctx.Done():
	}
	select {
	case <-e.ended:
		return e.err
	case <-time.After(graces * grace):
		return fmt.Errorf("stop: it has not ended, and its directories stay in use until it has: %w", ctx.Err())
	}
}

// releaseInterval is the time that appends with acks=all get, while the broker stops, until the
// other replicas have them, here and at the brokers to which they were passed on.
const releaseInterval = 500 * time.Millisecond

// stopClients ends the connections of clients after the requests that were accepted are answered,
// or when ctx ends.
func stopClients(ctx context.Context, r *components, server *network.Server) error {
	r.coordinators.Stop()
	passed := r.handlers.Forwarder()
	if passed != nil {
		passed.Release()
	}
	r.replicas.Purgatory().Close() // fetches that wait for records are answered now
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(releaseInterval)
		defer tick.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-tick.C:
				r.replicas.Release()
				if passed != nil {
					passed.Release()
				}
			}
		}
	}()
	err := server.Shutdown(ctx)
	close(stopped)
	<-ended
	return err
}
