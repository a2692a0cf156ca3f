package coordinator

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
)

// lead begins to lead in an epoch.
func (s *shard) lead(epoch int32, log Log) {
	if epoch <= s.epoch {
		return
	}
	s.epoch, s.log, s.door = epoch, log, door{pause: minRetry}
	s.begin()
}

// resign ends the leadership.
func (s *shard) resign(epoch int32) {
	if epoch >= s.epoch {
		s.epoch = epoch
		s.end(idle)
		s.left = leftover{}
	}
}

// begin starts a new life: everything of the last one is thrown away, and the log
// is read once no append of it can change the log any more.
func (s *shard) begin() {
	if s.phase == active {
		s.left = leftover{timers: s.timers, since: time.Now()}
	}
	s.end(draining)
	s.retryAfter = minRetry
	if s.pipeline.inFlight == 0 {
		s.load()
	}
}

// end ends the present life. Whoever waits is told to look for the coordinator
// again: what they asked for may or may not be in the log.
func (s *shard) end(next phase) {
	s.life++
	s.setPhase(next)
	if s.machine != nil {
		s.machine.End()
		s.machine = nil
	}
	s.timers = newTimers()
	if s.alarm != nil {
		s.alarm.Stop()
		s.alarm, s.alarmAt = nil, time.Time{}
	}
	if s.endLoad != nil {
		s.endLoad()
		s.endLoad = nil
	}
	if s.retry != nil {
		s.retry.Stop()
		s.retry = nil
	}
	s.dropCalls()
	s.pipeline.drop()
	s.effects.reset()
	tickets := s.tickets
	s.tickets = map[Ticket]func(any, error){}
	for _, done := range tickets {
		s.answer(done, nil, ErrNotCoordinator)
	}
}

func (s *shard) setPhase(p phase) {
	s.phase = p
	s.count.phase.Store(int32(p))
	s.count.epoch.Store(s.epoch)
}

// load reads the log into a new machine, on a goroutine of its own that ends with
// the life it is for.
func (s *shard) load() {
	s.setPhase(loading)
	ctx, cancel := context.WithCancel(s.r.ctx)
	s.endLoad = cancel
	life, epoch, log, machine := s.life, s.epoch, s.log, s.r.opt.New(s.partition)
	s.r.work.Go(func() {
		defer cancel()
		begin, n := time.Now(), int64(0)
		err := log.Load(ctx, epoch, func(r Record) error {
			n++
			return machine.Apply(r)
		})
		if !s.post(func() { s.loaded(life, machine, n, time.Since(begin), err) }) {
			machine.End()
		}
	})
}

// slowLoad is how long a load may take before it is worth a line in the log.
const slowLoad = time.Second

// loaded takes the machine that a load has made, or tries again later.
func (s *shard) loaded(life uint64, m Machine, records int64, took time.Duration, err error) {
	if life != s.life {
		m.End()
		return
	}
	s.endLoad = nil
	if err != nil {
		m.End()
		s.loadFailed(err)
		return
	}
	s.count.loaded.Store(records)
	s.count.loadNanos.Store(int64(took))
	level := zap.DebugLevel // there are many, and most are short
	if took > slowLoad {
		level = zap.InfoLevel
	}
	s.logger.Log(level, "coordinator loaded", zap.Int32("epoch", s.epoch), zap.Int64("records", records), zap.Duration("took", took))
	s.machine = m
	s.setPhase(active)
	now := time.Now()
	m.Loaded(now, &s.effects)
	s.applyEffects()
	s.resume(now)
	if s.r.opt.Hello != nil {
		s.notify(s.r.opt.Hello(s.partition))
	}
}

// leftover is what a machine's timers had left when it was thrown away for another one
// of the same broker.
type leftover struct {
	timers *timers // nil: there was none
	since  time.Time
}

// resume gives the timers of a machine that was just loaded the times that its
// predecessor's had left. The time without a machine does not count, and where it was
// long, members get some to be heard of.
func (s *shard) resume(now time.Time) {
	if s.left.timers == nil {
		return
	}
	away := now.Sub(s.left.since)
	if away >= slowAppend {
		away += thaw
	}
	s.timers.inherit(s.left.timers, away)
	s.left = leftover{}
	if !s.door.since.IsZero() {
		s.door.since, s.door.seen = now, later(s.door.seen, now) // what came before is counted
	}
}

func (s *shard) loadFailed(err error) {
	if errors.Is(err, context.Canceled) {
		return // a stop; a new life has its own load
	}
	s.count.failures.Add(1)
	s.logger.Error("the coordinator's log can't be loaded: its groups are unavailable until it can", zap.Int32("epoch", s.epoch),
		zap.Duration("again_in", s.retryAfter), zap.Error(err))
	life := s.life
	s.retry = time.AfterFunc(s.retryAfter, func() {
		s.post(func() {
			if life == s.life {
				s.load()
			}
		})
	})
	s.retryAfter = min(2*s.retryAfter, maxRetry)
}
