package load

import (
	"context"
	"time"
)

// each calls send repeatedly until the window or ctx ends: at the intended times if there is a
// rate, otherwise without a pause. It returns the first error of send.
func (k *maker) each(ctx context.Context, send func(began time.Duration) error) error {
	if k.o.Rate > 0 {
		return k.paced(ctx, send)
	}
	for ctx.Err() == nil {
		now := k.window.Now()
		if now >= k.window.Until() {
			return nil
		}
		if err := send(now); err != nil {
			return err
		}
	}
	return nil
}

func (k *maker) paced(ctx context.Context, send func(began time.Duration) error) error {
	timer, err := newSleeper()
	if err != nil {
		return err
	}
	defer timer.close()
	defer context.AfterFunc(ctx, timer.wake)()
	plan := scheduleOf(k.o.Rate, int(k.index), k.o.Concurrency)
	var n int64
	defer func() { plan.unsent(k.recorder, k.window.Until(), n) }()
	now := k.window.Now()
	for ctx.Err() == nil {
		due := plan.due(n)
		if due > now {
			// The clock is read only now, so that records that are due together are sent together.
			if now = k.window.Now(); due > now {
				if err := timer.sleep(ctx, due-now); err != nil {
					return err
				}
				now = k.window.Now()
			}
		}
		if due >= k.window.Until() || now >= k.window.Until() {
			return nil
		}
		if err := send(due); err != nil {
			return err
		}
		n++
		if n%64 == 0 {
			now = k.window.Now()
		}
	}
	return nil
}
