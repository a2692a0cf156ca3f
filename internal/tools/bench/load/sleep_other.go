//go:build !linux

package load

import (
	"context"
	"sync"
	"time"
)

// sleeper wakes a worker at intended times, with the precision of the runtime's timers.
type sleeper struct {
	once  sync.Once
	woken chan struct{} // closed by wake, once
}

func newSleeper() (*sleeper, error) { return &sleeper{woken: make(chan struct{})}, nil }

// sleep waits for d. It returns early if ctx ends.
func (s *sleeper) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.woken:
	case <-ctx.Done():
	}
	return nil
}

// wake ends the current sleep and all later ones.
func (s *sleeper) wake() { s.once.Do(func() { close(s.woken) }) }

func (s *sleeper) close() {}
