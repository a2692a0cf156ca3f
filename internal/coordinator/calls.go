package coordinator

import (
	"context"
	"net/netip"
	"time"
)

// caller runs the calls of a shard's machine, each of them at a place of Options.Places. So a shard
// never computes for long on its own goroutine.
//
// A call that takes longer than a slice (see Pause) leaves the queue to the next one and continues
// in the slow lane of its shard, where there is one at a time. It gives its place back at its first
// Pause after each slice, and the calls of other shards get it first. So a call that takes long
// delays each call behind it by a slice and the time to that Pause, and not by its whole work.
type caller struct {
	queue []Call
	busy  bool            // the first call of the queue is in its first slice, possibly for an earlier incarnation
	slow  chan struct{}   // the slow lane: the call that computes there holds its one element; never closed
	ctx   context.Context // of the machine's incarnation; nil before its first call
	stop  context.CancelFunc
}

// slice is how long a call computes before others get its place.
const slice = 5 * time.Millisecond

// call queues a call.
func (s *shard) call(c Call) {
	s.calls.queue = append(s.calls.queue, c)
	s.nextCall()
}

// nextCall starts the next call on a goroutine of its own.
func (s *shard) nextCall() {
	q := &s.calls
	if q.busy || len(q.queue) == 0 {
		return
	}
	c := q.queue[0]
	if q.queue = q.queue[1:]; len(q.queue) == 0 {
		q.queue = nil
	}
	if q.ctx == nil {
		q.ctx, q.stop = context.WithCancel(s.r.ctx)
	}
	if q.slow == nil {
		q.slow = make(chan struct{}, 1)
	}
	q.busy = true
	t := &turn{shard: s, slow: q.slow}
	ctx, incarnation := q.ctx, s.incarnation
	s.r.work.Go(func() {
		result := t.run(ctx, c)
		s.post(func() {
			if incarnation == s.incarnation {
				s.called(c.To, result)
			}
		})
	})
}

// turn is a call that runs. Only its goroutine uses it.
type turn struct {
	shard *shard
	slow  chan struct{} // the slow lane of its queue: capacity 1, full while a call has it
	began time.Time     // of the slice
	place bool          // it has a place
	first bool          // it is at the head of the queue
	lane  bool          // it has the slow lane
}

type turnKey struct{}

// run does the work of a call, also if its client is gone: its ctx has ended then.
func (t *turn) run(ctx context.Context, c Call) any {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.Client != nil {
		defer context.AfterFunc(c.Client, cancel)()
	}
	t.first = true
	t.takePlace(ctx)
	result := c.Do(context.WithValue(ctx, turnKey{}, t))
	t.leavePlace()
	t.leaveQueue()
	if t.lane {
		<-t.slow
	}
	return result
}

func (t *turn) takePlace(ctx context.Context) {
	t.place = t.shard.r.opt.Places.Take(ctx, nil, netip.Prefix{}) == nil
	t.began = time.Now()
}

func (t *turn) leavePlace() {
	if t.place {
		t.shard.r.opt.Places.Leave()
		t.place = false
	}
}

// leaveQueue lets the next call of the queue begin.
func (t *turn) leaveQueue() {
	if t.first {
		t.first = false
		t.shard.post(func() {
			t.shard.calls.busy = false
			t.shard.nextCall()
		})
	}
}

// Pause lets others compute if the call with this ctx has had its place for a slice. The Do of a
// call that may take long calls it every few milliseconds at least. If ctx ends, Pause returns at
// once, and Do must return then. For a ctx that is not that of a call, Pause does nothing.
func Pause(ctx context.Context) {
	t, _ := ctx.Value(turnKey{}).(*turn)
	if t == nil || !t.place || time.Since(t.began) < slice {
		return
	}
	t.leavePlace()
	t.leaveQueue()
	if !t.lane {
		select {
		case t.slow <- struct{}{}:
			t.lane = true
		case <-ctx.Done():
			return
		}
	}
	t.takePlace(ctx)
}

// called hands the result of a call to the machine, as an event of the waiting request.
func (s *shard) called(to Ticket, result any) {
	done := s.tickets[to]
	now := time.Now()
	switch {
	case to == 0:
		s.notify(result)
		return
	case done == nil:
		return // already answered
	case s.machine.Writes(result):
		if err := s.refusal(now); err != nil {
			delete(s.tickets, to)
			s.refuse(request{done: done}, err)
			return
		}
	}
	s.machine.Handle(now, to, result, &s.effects)
	s.applyEffects()
}

// dropCalls discards the queued calls of an incarnation that ends.
func (s *shard) dropCalls() {
	q := &s.calls
	if q.stop != nil {
		q.stop()
	}
	q.queue, q.ctx, q.stop = nil, nil, nil
}
