package daemon

import (
	"context"
	"fmt"
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
}

// push adds a running component. fn should return when its context ends.
func (s *stack) push(name string, fn func(context.Context) error) {
	s.stops = append(s.stops, stop{name: name, fn: fn})
}

// pushDisk is push for a component that writes something at its stop that makes the next start
// quick. It has a time limit of its own, so that slow components above it take nothing from it.
func (s *stack) pushDisk(name string, fn func(context.Context) error) {
	s.stops = append(s.stops, stop{name, fn, true})
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
	for i := len(s.stops) - 1; i >= 0; i-- {
		x, begin, until := s.stops[i], time.Now(), drain
		if x.disk {
			if disk == nil {
				disk, cancel = context.WithTimeout(ctx, t.disk)
				defer cancel() //nolint:gocritic // once
			}
			until = disk
		}
		err := x.within(until, t.grace)
		s.log.Debug("stopped", zap.String("component", x.name), zap.Duration("took", time.Since(begin)), zap.Error(err))
		if err != nil {
			s.log.Error("component did not stop cleanly; the next start recovers as after a crash",
				zap.String("component", x.name), zap.Error(err))
			if first == nil {
				first = err
			}
		}
	}
	s.stops = nil
	return first
}

// within runs the stop and returns its error, or an error of its own if the stop has not returned
// when grace has passed since the end of ctx.
func (x *stop) within(ctx context.Context, grace time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- x.fn(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(grace):
		return fmt.Errorf("%s did not stop in time, possibly because a disk does not respond: %w", x.name, ctx.Err())
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
