package coordinator

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// writeGate rejects events that write while the log would refuse their records. A machine applies
// records before they are appended, so a failed append costs the whole shard a reload. An event
// rejected here has changed nothing, and events that only read are still answered.
//
// The gate is closed while the log reports that it would refuse an append, and for a pause after an
// append has failed. The pause grows with every further failure (backoff), until an append is
// committed.
type writeGate struct {
	since      time.Time // when it was first seen closed; zero: open
	lastClosed time.Time // until when it is known to be closed, which may be in the future
	nextCheck  time.Time // while it is closed, timers and deferred events wait until then
	failures   int       // appends that failed since one was committed
	until      time.Time // closed until then because an append failed
	cause      error     // the failed append's error
}

// Ending is implemented by events of which every record is a Marker. While the log accepts only
// markers, they are handled.
type Ending interface{ EndsTransaction() }

// gateCheckInterval is how often a shard with due timers checks whether the gate is open.
const gateCheckInterval = time.Second

// refusal returns an ErrRefused if an event that writes can't be handled now, otherwise nil.
func (s *shard) refusal(now time.Time) error {
	d := &s.gate
	err := d.cause
	if !now.Before(d.until) {
		if err = s.log.Ready(s.epoch, false); err == nil {
			s.openGate(now)
			return nil
		}
	}
	if d.since.IsZero() {
		d.since = now
	}
	d.lastClosed = later(d.lastClosed, now)
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

// eventRefusal returns an ErrRefused if a request's event that writes can't be handled now,
// otherwise nil. Readers wait for the end of a transaction, so its marker is not refused with other
// records.
func (s *shard) eventRefusal(now time.Time, event any) error {
	err := s.refusal(now)
	if _, marker := event.(Ending); err == nil || !marker || now.Before(s.gate.until) || s.log.Ready(s.epoch, true) != nil {
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

// openGate ends the time for which the gate was closed. No timer ran meanwhile, because the
// heartbeats of live members were refused. The log may have refused for up to gateCheckInterval
// after the last check; timers get that time too.
func (s *shard) openGate(now time.Time) {
	d := &s.gate
	if d.since.IsZero() {
		return
	}
	shut := d.lastClosed.Sub(d.since)
	if d.lastClosed.After(d.until) {
		shut += min(now.Sub(d.lastClosed), gateCheckInterval)
	}
	d.since, d.lastClosed, d.nextCheck = time.Time{}, time.Time{}, time.Time{}
	if shut < slowAppend {
		return
	}
	s.timers.delay(shut)
	s.limited.Info("coordinator log accepts records again", zap.Duration("shut", shut))
}

// closeGate closes the gate after an append has failed.
func (s *shard) closeGate(now time.Time, err error) {
	d := &s.gate
	d.failures++
	d.cause, d.until = err, now.Add(backoff.After(d.failures))
	if d.since.IsZero() {
		d.since = now
	}
	d.lastClosed = d.until
}

// committed notes that an append was committed.
func (d *writeGate) committed() { d.failures = 0 }

// holdsTimers reports whether timers and deferred events must wait because their records would be
// refused.
func (s *shard) holdsTimers(now time.Time) bool {
	if s.refusal(now) == nil {
		return false
	}
	s.gate.nextCheck = now.Add(gateCheckInterval)
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
