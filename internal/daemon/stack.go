package daemon

import (
	"context"
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
}

// push adds a room that is running.
func (s *stack) push(name string, fn func(context.Context) error) {
	s.stops = append(s.stops, stop{name, fn})
}

// unwind stops all rooms, the youngest first. The first error is returned, all
// of them are logged; one room that cannot stop does not keep the others.
func (s *stack) unwind(ctx context.Context) error {
	var first error
	for i := len(s.stops) - 1; i >= 0; i-- {
		x, begin := s.stops[i], time.Now()
		err := x.fn(ctx)
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
