package coordinator

import (
	"context"
	"net/netip"
	"time"
)

// caller runs the calls of a shard's machine one after another, in the order of the requests, and
// each of them at a place of Options.Places. So a shard never computes for long on its own
// goroutine, and slow calls delay only other calls: those of the same shard, and those of all
// shards if no place is free.
type caller struct {
	queue []Call
	busy  bool            // a call is running, possibly for an earlier incarnation
	ctx   context.Context // of the machine's incarnation; nil before its first call
	stop  context.CancelFunc
}

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
	q.busy = true
	ctx, incarnation := q.ctx, s.incarnation
	s.r.work.Go(func() {
		var result any
		if s.r.opt.Places.Take(ctx, nil, netip.Prefix{}) == nil {
			result = c.Do(ctx)
			s.r.opt.Places.Leave()
		}
		s.post(func() {
			s.calls.busy = false
			if incarnation == s.incarnation {
				s.called(c.To, result)
			}
			s.nextCall()
		})
	})
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
