package coordinator

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// writeHalt rejects events that write while the log would refuse their records. A machine applies
// records before they are appended, so a failed append costs the whole shard a reload. An event
// rejected here has changed nothing, and events that only read are still answered.
//
// It is in force while the log reports that it would refuse an append, and for a pause after an
// append has failed. The pause grows with every further failure (backoff), until an append is
// committed.
type writeHalt struct {
	since      time.Time // since when it is in force; zero: it is not
	lastHalted time.Time // until when it is known to be in force, which may be in the future
	nextCheck  time.Time // while it is in force, timers and deferred events wait until then
	failures   int       // appends that failed since one was committed
	until      time.Time // in force until then because an append failed
	cause      error     // the failed append's error
}

// Ending is implemented by events of which every record is a Marker. While the log accepts only
// markers, they are handled.
type Ending interface{ EndsTransaction() }

// haltCheckInterval is how often a shard with due timers checks whether the halt has ended.
const haltCheckInterval = time.Second

// refusal returns an ErrRefused if an event that writes can't be handled now, otherwise nil.
func (s *shard) refusal(now time.Time) error {
	d := &s.halt
	err := d.cause
	if !now.Before(d.until) {
		if err = s.log.Ready(s.epoch, false); err == nil {
			s.resumeWrites(now)
			return nil
		}
	}
	if d.since.IsZero() {
		d.since = now
	}
	d.lastHalted = later(d.lastHalted, now)
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

// eventRefusal returns an ErrRefused if a request's event that writes can't be handled now,
// otherwise nil. Readers wait for the end of a transaction, so its marker is not refused with other
// records.
func (s *shard) eventRefusal(now time.Time, event any) error {
	err := s.refusal(now)
	if _, marker := event.(Ending); err == nil || !marker || now.Before(s.halt.until) || s.log.Ready(s.epoch, true) != nil {
		return err
	}
	return nil
}

// refuse answers a request that writes with err.
func (s *shard) refuse(r request, err error) {
	s.count.refused.Add(1)
	level := zap.WarnLevel
	if errors.Is(err, ErrNotCoordinator) {
		level = zap.DebugLevel // another broker leads: the shard's role changes soon
	}
	s.limited.Log(level, "coordinator log accepts no records, refusing requests that write", zap.Error(err))
	s.answer(r.done, nil, err)
}

// resumeWrites ends the halt. No timer ran meanwhile, because the heartbeats of live members were
// refused. The log may have refused for up to haltCheckInterval after the last check; timers also
// get that time.
func (s *shard) resumeWrites(now time.Time) {
	d := &s.halt
	if d.since.IsZero() {
		return
	}
	shut := d.lastHalted.Sub(d.since)
	if d.lastHalted.After(d.until) {
		shut += min(now.Sub(d.lastHalted), haltCheckInterval)
	}
	d.since, d.lastHalted, d.nextCheck = time.Time{}, time.Time{}, time.Time{}
	if shut < slowAppend {
		return
	}
	s.timers.delay(shut)
	s.limited.Info("coordinator log accepts records again", zap.Duration("shut", shut))
}

// haltWrites begins the halt, or extends it, after an append has failed.
func (s *shard) haltWrites(now time.Time, err error) {
	d := &s.halt
	d.failures++
	d.cause, d.until = err, now.Add(backoff.After(d.failures))
	if d.since.IsZero() {
		d.since = now
	}
	d.lastHalted = d.until
}

// committed notes that an append was committed.
func (d *writeHalt) committed() { d.failures = 0 }

// holdsTimers reports whether timers and deferred events must wait because their records would be
// refused.
func (s *shard) holdsTimers(now time.Time) bool {
	if s.refusal(now) == nil {
		return false
	}
	s.halt.nextCheck = now.Add(haltCheckInterval)
	return true
}

// limitedInterval is the least time between two lines of a shard's limited log with the same
// message.
const limitedInterval = time.Minute

// limited returns a logger that writes the first line of a message in each limitedInterval, for
// events that may happen a thousand times a second. Loggers derived from it share that limit.
func limited(l *zap.Logger) *zap.Logger {
	return l.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, limitedInterval, 1, 0)
	}))
}
