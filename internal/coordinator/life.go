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
	s.epoch, s.log = epoch, log
	s.begin()
}

// resign ends the leadership.
func (s *shard) resign(epoch int32) {
	if epoch >= s.epoch {
		s.epoch = epoch
		s.end(idle)
	}
}

// begin starts a new life: everything of the last one is thrown away, and the log
// is read once no append of it can change the log any more.
func (s *shard) begin() {
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
	s.machine = nil
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
		s.post(func() { s.loaded(life, machine, n, time.Since(begin), err) })
	})
}

// slowLoad is how long a load may take before it is worth a line in the log.
const slowLoad = time.Second

// loaded takes the machine that a load has made, or tries again later.
func (s *shard) loaded(life uint64, m Machine, records int64, took time.Duration, err error) {
	if life != s.life {
		return
	}
	s.endLoad = nil
	if err != nil {
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
	m.Loaded(time.Now(), &s.effects)
	s.settle()
	if s.r.opt.Hello != nil {
		s.notify(s.r.opt.Hello(s.partition))
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
