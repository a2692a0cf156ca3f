package daemon

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// stack holds what was started, so that it is stopped in the opposite order,
// also where the start fails half way. It is used by one goroutine.
type stack struct {
	log   *zap.Logger
	stops []stop
}

type stop struct {
	name string
	fn   func(context.Context) error
	disk bool // see pushDisk
}

// push adds a room that is running. Its stop should end with the context.
func (s *stack) push(name string, fn func(context.Context) error) {
	s.stops = append(s.stops, stop{name: name, fn: fn})
}

// pushDisk is push for a room that leaves something on the disk which makes the next start
// quick. It has time of its own, however long the rooms above it took.
func (s *stack) pushDisk(name string, fn func(context.Context) error) {
	s.stops = append(s.stops, stop{name, fn, true})
}

// times bound a stop.
type times struct {
	drain time.Duration // all rooms but those of pushDisk, together
	disk  time.Duration // those, together
	grace time.Duration // a room whose context has ended, until the others go on without it
}

// unwind stops all rooms, the youngest first. The first error is returned, all
// of them are logged; one room that cannot stop does not keep the others. One that
// does not end with its context is left behind, with what it waits for.
func (s *stack) unwind(t times) error {
	drain, cancel := context.WithTimeout(context.Background(), t.drain)
	defer cancel()
	var disk context.Context
	var first error
	for i := len(s.stops) - 1; i >= 0; i-- {
		x, begin, ctx := s.stops[i], time.Now(), drain
		if x.disk {
			if disk == nil {
				disk, cancel = context.WithTimeout(context.Background(), t.disk)
				defer cancel() //nolint:gocritic // once
			}
			ctx = disk
		}
		err := x.within(ctx, t.grace)
		s.log.Debug("stopped", zap.String("room", x.name), zap.Duration("took", time.Since(begin)), zap.Error(err))
		if err != nil {
			s.log.Error("stop", zap.String("room", x.name), zap.Error(err))
			if first == nil {
				first = err
			}
		}
	}
	s.stops = nil
	return first
}

// within runs the stop and returns its error, or one where it has not ended some time after
// the context has.
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
		return fmt.Errorf("%s did not stop in time, perhaps because a disk does not answer: %w", x.name, ctx.Err())
	}
}
