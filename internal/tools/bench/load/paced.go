package load

import (
	"context"
	"time"
)

// paced is the open loop of a worker: records are sent at their intended times, whether responses
// arrive or not, as far as the pipeline allows. Records that cannot be sent in time are sent late,
// and their latency counts from the intended time, so that a stalled broker is charged for every
// record that had to wait (coordinated omission).
func (p *producer) paced(ctx context.Context) error {
	timer, err := newSleeper()
	if err != nil {
		return err
	}
	defer timer.close()
	defer context.AfterFunc(ctx, timer.wake)()
	plan := scheduleOf(p.o.Rate, int(p.index), p.o.Concurrency)
	var k int64
	for ctx.Err() == nil && plan.due(k) < p.window.Until() && p.window.Now() < p.window.Until() {
		if !p.ready(ctx) {
			continue
		}
		if k, err = p.session(ctx, timer, plan, k); err != nil {
			return err
		}
	}
	plan.unsent(p.recorder, p.window.Until(), k)
	return nil
}

// session sends from the k-th record on until the window or the connection ends, and returns the
// first record that it did not send. A receiver reads the responses to flights, whose capacity is
// that of slots.
func (p *producer) session(ctx context.Context, timer *sleeper, plan schedule, k int64) (int64, error) {
	flights, slots := make(chan flight, p.o.Pipeline), make(chan struct{}, p.o.Pipeline)
	received := make(chan struct{})
	go func() {
		defer close(received)
		p.receive(flights, slots)
	}()
	var err error
	for err == nil && ctx.Err() == nil && p.broken.Load() == nil && !p.stale.Load() {
		due := plan.due(k)
		if due >= p.window.Until() {
			break
		}
		now := p.window.Now()
		if due > now {
			if err = timer.sleep(ctx, due-now); err != nil {
				break
			}
			now = p.window.Now()
		}
		if now >= p.window.Until() || ctx.Err() != nil {
			break
		}
		slots <- struct{}{} // waits for a response if the pipeline is full
		if p.broken.Load() != nil || p.stale.Load() {
			break
		}
		if err = p.launch(flights, slots, due, now); err == nil {
			k++
		}
	}
	close(flights)
	<-received
	if lost := p.broken.Swap(nil); p.stale.Swap(false) || lost != nil {
		p.link.close()
	}
	return k, err
}

// launch sends the record that was due. The receiver counts its outcome, or launch does if there is
// no response.
func (p *producer) launch(flights chan<- flight, slots <-chan struct{}, due, now time.Duration) error {
	p.requests.Reset()
	f, err := p.add(due)
	if err != nil {
		return err
	}
	if p.o.Acks != 0 {
		flights <- f
	}
	err = p.link.send(now, p.requests.Bytes())
	var name string
	if err != nil {
		name = p.giveUp(err)
	}
	if p.o.Acks != 0 {
		return nil
	}
	<-slots
	if now = p.window.Now(); err != nil {
		p.recorder.Fail(due, now, name, 1)
	} else {
		p.done(f, now, 0)
	}
	return nil
}

// receive counts the outcomes of flights until the channel is closed, and frees their slots.
func (p *producer) receive(flights <-chan flight, slots <-chan struct{}) {
	for f := range flights {
		p.land(f)
		<-slots
	}
}

// land counts the outcome of one request.
func (p *producer) land(f flight) {
	if name := p.broken.Load(); name != nil {
		p.recorder.Fail(f.began, p.window.Now(), *name, 1)
		return
	}
	frame, ok := p.link.conn.Next()
	var err error
	if !ok {
		if err = p.link.conn.Receive(); err == nil {
			frame, _ = p.link.conn.Next()
		}
	}
	now := p.window.Now()
	if err == nil {
		err = p.answer(f, frame, now)
	}
	if err != nil {
		p.recorder.Fail(f.began, now, p.giveUp(err), 1)
	}
}

// giveUp closes the connection after either goroutine saw it fail, and returns the first failure.
func (p *producer) giveUp(err error) string {
	name := FailureName(err)
	if !p.broken.CompareAndSwap(nil, &name) {
		if first := p.broken.Load(); first != nil {
			return *first
		}
	}
	// The other goroutine finds it closed.
	_ = p.link.conn.Close()
	return name
}
