package coordinator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/series"
)

// phase is what a shard is doing.
type phase int32

const (
	idle     phase = iota // another broker leads, or none
	draining              // appends of an earlier incarnation have not ended yet
	loading
	active
)

// shard is one partition. It is an actor: callers add to the inbox or to the requests under mu, and
// start run if it is not running. Everything else happens in run, which returns when there is no
// work.
type shard struct {
	r         *Runtime
	partition int32
	logger    *zap.Logger
	limited   *zap.Logger // see limited
	count     counters

	mu       sync.Mutex
	running  bool
	closed   bool
	blocked  bool      // requests must wait: appends are in flight and the open batch is full
	inbox    []func()  // bounded by appends in flight, one load, call and alarm, sends, changes of leadership and broadcasts
	requests []request // bounded by Options.MaxWaiting

	// Only the goroutine of run uses the fields below.

	phase phase
	epoch int32 // of the last Lead or Resign
	log   Log
	// incarnation counts machines: results for an earlier incarnation are ignored.
	incarnation  uint64
	machine      Machine
	knows        uint64 // how many calls of Announce its initial event includes
	effects      Effects
	timers       *timers
	alarm        *time.Timer
	alarmAt      time.Time // zero: not set
	late         bool      // timers are due, and wait because the shard is overfull
	saved        savedTimers
	halt         writeHalt
	calls        caller
	deferred     []any // events that the machine has deferred
	endLoad      context.CancelFunc
	retry        *time.Timer
	loadFailures int // in a row
	unloaded     series.Failures

	lastTicket Ticket
	tickets    map[Ticket]func(any, error)

	pipeline pipeline
	batch    groupcommit.Batch // appends of this turn, and of what was sent
}

// request is an event with a client that waits for the response.
type request struct {
	event any
	done  func(any, error)
}

func newShard(r *Runtime, partition int32) *shard {
	return &shard{
		r: r, partition: partition, epoch: -1, tickets: map[Ticket]func(any, error){}, timers: newTimers(),
		logger:  r.opt.Logger.With(zap.Int32("partition", partition)),
		limited: r.limited.With(zap.Int32("partition", partition)), pipeline: newPipeline(),
	}
}

// post hands f to the actor. It returns false if the shard is closed and f was dropped.
func (s *shard) post(f func()) (taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.inbox = append(s.inbox, f)
	s.startLocked()
	return true
}

func (s *shard) submit(event any, done func(any, error)) {
	if s.count.waiting.Add(1) > int64(s.r.opt.MaxWaiting) {
		s.answer(done, nil, ErrBusy)
		return
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.answer(done, nil, ErrNotCoordinator)
		return
	}
	s.requests = append(s.requests, request{event, done})
	if !s.blocked {
		s.startLocked()
	}
	s.mu.Unlock()
}

func (s *shard) answer(done func(any, error), response any, err error) {
	s.count.waiting.Add(-1)
	done(response, err)
}

// close posts the actor's last job.
func (s *shard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inbox = append(s.inbox, func() { s.end(idle) })
	s.closed, s.blocked = true, false
	s.startLocked()
}

func (s *shard) startLocked() {
	if !s.running {
		s.running = true
		s.r.workers.start(s)
	}
}

// run works until the inbox and the requests are empty.
func (s *shard) run() {
	for {
		s.mu.Lock()
		s.blocked = s.full() && !s.closed
		inbox, requests := s.inbox, s.requests
		if s.blocked {
			requests = nil
		}
		if len(inbox) == 0 && len(requests) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.inbox = nil
		if !s.blocked {
			s.requests = nil
		}
		s.mu.Unlock()
		for _, f := range inbox {
			f()
		}
		if s.late { // before the next requests, of which a single one may fill the shard again
			s.fire()
		}
		s.serve(requests)
		s.handleDeferred()
		s.flush()
		s.release()
		s.batch.HandOff()
		s.setAlarm()
	}
}

// serve handles requests until the shard is full; the others return to the head of the queue.
func (s *shard) serve(requests []request) {
	for i, r := range requests {
		if s.full() {
			s.mu.Lock()
			s.requests = append(requests[i:len(requests):len(requests)], s.requests...)
			s.mu.Unlock()
			return
		}
		s.handle(r)
	}
}

func (s *shard) handle(r request) {
	switch s.phase {
	case idle:
		s.answer(r.done, nil, ErrNoShard)
	case draining, loading:
		s.answer(r.done, nil, ErrLoading)
	case active:
		now := time.Now()
		if s.machine.Writes(r.event) {
			if err := s.eventRefusal(now, r.event); err != nil {
				s.refuse(r, err)
				return
			}
		}
		s.count.events.Add(1)
		s.lastTicket++
		s.tickets[s.lastTicket] = r.done
		s.machine.Handle(now, s.lastTicket, r.event, &s.effects)
		s.applyEffects()
	}
}

// notify hands an event without a ticket to the machine.
func (s *shard) notify(event any) {
	if s.phase == active {
		s.machine.Handle(time.Now(), 0, event, &s.effects)
		s.applyEffects()
	}
}

// fire fires due timers, unless their time must be extended, see standstill.go, or their records
// would be refused. If the shard is too full for all of them, run calls it again when an append has
// ended. They are late because of the shard itself, so their time is not extended. A timer that one
// of them sets for the present fires in a later call: requests are handled in between.
func (s *shard) fire() {
	s.alarmAt = time.Time{}
	now, late := time.Now(), s.late
	s.late = false
	if s.phase != active || s.pipeline.stalled(now) || s.holdsTimers(now) || !late && s.extendForStandstill(now) {
		return
	}
	for most := len(s.timers.queue); most > 0 && s.phase == active; most-- {
		if s.late = s.overfull(); s.late {
			return
		}
		key, ok := s.timers.next(now)
		if !ok {
			return
		}
		s.machine.Fire(now, key, &s.effects)
		s.applyEffects()
	}
}

// applyEffects applies the effects of the machine's last event.
func (s *shard) applyEffects() {
	s.queueEffects(&s.effects)
	for _, t := range s.effects.Timers {
		s.timers.set(t)
	}
	for _, c := range s.effects.Calls {
		s.call(c)
	}
	s.deferred = append(s.deferred, s.effects.Deferred...)
	s.effects.reset()
}

// handleDeferred handles deferred events until the shard is full. If the log would refuse their
// records, they wait until the next check of the halt.
func (s *shard) handleDeferred() {
	n := 0
	for ; n < len(s.deferred) && !s.full(); n++ {
		now := time.Now()
		if s.holdsTimers(now) {
			break
		}
		s.machine.Handle(now, 0, s.deferred[n], &s.effects)
		s.applyEffects()
	}
	clear(s.deferred[:n])
	if s.deferred = s.deferred[n:]; len(s.deferred) == 0 {
		s.deferred = nil
	}
}

// setAlarm wakes the actor for its next timer, or for the next check of the halt if deferred events
// wait for it. Deferred events that wait because the shard is full continue when an append ends.
func (s *shard) setAlarm() {
	at, ok := s.timers.wake()
	if len(s.deferred) > 0 && !s.halt.nextCheck.IsZero() {
		at, ok = time.Time{}, true
	}
	at = later(at, s.halt.nextCheck)
	switch {
	case !ok || s.alarmAt.Equal(at):
	case s.alarmAt.IsZero() && (s.overfull() || s.pipeline.stalled(time.Now())): // until the append ends
	case s.alarm == nil:
		s.alarm = time.AfterFunc(time.Until(at), func() { s.post(s.fire) })
		s.alarmAt = at
	default:
		s.alarm.Reset(time.Until(at))
		s.alarmAt = at
	}
}

// counters back Stats. The actor writes them, any goroutine may read them.
type counters struct {
	phase, epoch                                           atomic.Int32
	waiting, events, appends, records, failures, loadNanos atomic.Int64
	loaded, refused                                        atomic.Int64
}
