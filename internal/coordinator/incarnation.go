package coordinator

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
)

// lead starts to lead in an epoch.
func (s *shard) lead(epoch int32, log Log) {
	if epoch <= s.epoch {
		return
	}
	s.epoch, s.log, s.halt = epoch, log, writeHalt{}
	s.unloaded.Ended("")
	s.begin()
}

// resign ends the leadership.
func (s *shard) resign(epoch int32) {
	if epoch >= s.epoch {
		s.epoch = epoch
		s.end(idle)
		s.saved = savedTimers{}
	}
}

// begin starts a new incarnation: it discards the machine and loads the log once no earlier append
// can still change it.
func (s *shard) begin() {
	if s.phase == active {
		s.saved = savedTimers{timers: s.timers, since: time.Now()}
	}
	s.end(draining)
	s.loadFailures = 0
	if s.pipeline.inFlight == 0 {
		s.load()
	}
}

// end ends the current incarnation. Waiting clients get ErrNotCoordinator and look for the
// coordinator again; their records may or may not be in the log.
func (s *shard) end(next phase) {
	s.incarnation++
	s.setPhase(next)
	if s.machine != nil {
		s.machine.End()
		s.machine = nil
	}
	s.timers, s.late = newTimers(), false
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
	s.deferred = nil
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

// load reads the log into a new machine, on a goroutine that ends with the incarnation.
func (s *shard) load() {
	s.setPhase(loading)
	ctx, cancel := context.WithCancel(s.r.ctx)
	s.endLoad = cancel
	incarnation, epoch, log, machine := s.incarnation, s.epoch, s.log, s.r.opt.New(s.partition)
	s.r.work.Go(func() {
		defer cancel()
		begin, n := time.Now(), int64(0)
		err := log.Load(ctx, epoch, func(r Record) error {
			n++
			return machine.Apply(r)
		})
		if !s.post(func() { s.loaded(incarnation, machine, n, time.Since(begin), err) }) {
			machine.End()
		}
	})
}

// slowLoad is the time from which a load is logged at info level, as is one that has failed before.
const slowLoad = time.Second

// loaded installs the machine that a load has built, or schedules a retry.
func (s *shard) loaded(incarnation uint64, m Machine, records int64, took time.Duration, err error) {
	if incarnation != s.incarnation {
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
	if again := s.unloaded.Ended(""); again || took > slowLoad {
		level = zap.InfoLevel
	}
	s.logger.Log(level, "coordinator loaded", zap.Int32("epoch", s.epoch), zap.Int64("records", records), zap.Duration("took", took))
	s.machine = m
	s.setPhase(active)
	now := time.Now()
	m.Loaded(now, s.epoch, &s.effects)
	s.applyEffects()
	s.resume(now)
	if s.r.opt.InitialEvent != nil {
		s.notify(s.initialEvent())
	}
}

// initialEvent returns the initial event of the machine, and notes which announcements it includes:
// some of them may still be in the inbox, and are older.
func (s *shard) initialEvent() (event any) {
	for done := false; !done; done = s.knows == s.r.announced.Load() {
		s.knows = s.r.announced.Load()
		event = s.r.opt.InitialEvent(s.partition)
	}
	return event
}

// savedTimers are the timers of a discarded machine, kept for its successor on this broker.
type savedTimers struct {
	timers *timers // nil: none
	since  time.Time
}

// resume gives the timers of a newly loaded machine the time that its predecessor's had left. The
// time without a machine does not count. If it was long, members get stallGrace to be heard from.
func (s *shard) resume(now time.Time) {
	if s.saved.timers == nil {
		return
	}
	away := now.Sub(s.saved.since)
	if away >= slowAppend {
		away += stallGrace
	}
	s.timers.inherit(s.saved.timers, away)
	s.saved = savedTimers{}
	if !s.halt.since.IsZero() {
		s.halt.since, s.halt.lastHalted = now, later(s.halt.lastHalted, now) // the time until now is accounted for
	}
}

func (s *shard) loadFailed(err error) {
	if errors.Is(err, context.Canceled) {
		return // stopped; a new incarnation starts its own load
	}
	s.loadFailures++
	wait := backoff.After(s.loadFailures)
	about := []zap.Field{zap.Int32("epoch", s.epoch), zap.Duration("retry_in", wait), zap.Error(err)}
	if errors.Is(err, ErrNotCoordinator) { // another broker leads, or this one in another epoch; the shard's role changes soon
		s.logger.Debug("the log of a coordinator is not loaded yet", about...)
	} else {
		s.count.failures.Add(1)
		if n, say := s.unloaded.Failed("", err); say {
			s.logger.Error("the log of a coordinator can't be loaded: its "+s.r.opt.Serves+" are unavailable until a retry succeeds",
				append(about, zap.Int("failures", n))...)
		}
	}
	incarnation := s.incarnation
	s.retry = time.AfterFunc(wait, func() {
		s.post(func() {
			if incarnation == s.incarnation {
				s.load()
			}
		})
	})
}
