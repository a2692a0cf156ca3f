package coordinator

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// door keeps events that write out of a machine while its log would refuse what they
// write. A machine applies its records before they are appended, so an append that is
// refused afterwards costs the whole shard a load; an event that is refused here has
// changed nothing, and events that only read are answered all the while.
//
// The door is shut while the log says that it would refuse an append, and for a pause
// after an append has failed. The pause doubles with every further failure, from
// minRetry to maxRetry, until an append is committed.
type door struct {
	since time.Time     // when it was found shut; zero: open
	seen  time.Time     // until when it is known to have been
	again time.Time     // timers are due no earlier than this, while it is shut
	pause time.Duration // how long the next failure shuts it
	until time.Time     // shut until then because of failure
	cause error         // the failure
}

// shutLook is how often a shard whose timers are due checks whether the door is open.
const shutLook = time.Second

// refusal returns why an event that writes can't be taken now, an ErrRefused; nil if it
// can.
func (s *shard) refusal(now time.Time) error {
	d := &s.door
	err := d.cause
	if !now.Before(d.until) {
		if err = s.log.Ready(s.epoch); err == nil {
			s.open(now)
			return nil
		}
	}
	if d.since.IsZero() {
		d.since = now
	}
	d.seen = later(d.seen, now)
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

// refuse answers a request that writes.
func (s *shard) refuse(r request, err error) {
	s.count.refused.Add(1)
	s.r.refused.log(s.logger, zap.WarnLevel,
		"the coordinator's log accepts no records: requests that need some are refused, others are answered", zap.Error(err))
	s.answer(r.done, nil, err)
}

// open ends the time for which the door was shut. No timer ran meanwhile: a member
// whose heartbeat was refused could not be heard of. A log that refused may have done so for
// up to shutLook after it was last asked; members get that time, too.
func (s *shard) open(now time.Time) {
	d := &s.door
	if d.since.IsZero() {
		return
	}
	shut := d.seen.Sub(d.since)
	if d.seen.After(d.until) {
		shut += min(now.Sub(d.seen), shutLook)
	}
	d.since, d.seen, d.again = time.Time{}, time.Time{}, time.Time{}
	if shut < slowAppend {
		return
	}
	s.timers.delay(shut)
	s.r.opened.log(s.logger, zap.InfoLevel, "the coordinator's log accepts records again", zap.Duration("shut", shut))
}

// failed shuts the door after an append has failed.
func (s *shard) failed(now time.Time, err error) {
	d := &s.door
	d.cause, d.until = err, now.Add(d.pause)
	d.pause = min(2*d.pause, maxRetry)
	if d.since.IsZero() {
		d.since = now
	}
	d.seen = d.until
}

// committed is called when an append is: the next failure is the first again.
func (d *door) committed() { d.pause = minRetry }

// holdsTimers reports whether timers must wait because what they write would be
// refused.
func (s *shard) holdsTimers(now time.Time) bool {
	if s.refusal(now) == nil {
		return false
	}
	s.door.again = now.Add(shutLook)
	return true
}

// digest logs what may happen a thousand times a second in one line: the first at
// once, further ones as a number in the next line, which follows no sooner than
// digestEvery. Its methods may be called concurrently.
type digest struct {
	mu    sync.Mutex
	last  time.Time
	count int64
}

const digestEvery = time.Minute

func (d *digest) log(to *zap.Logger, level zapcore.Level, msg string, fields ...zap.Field) {
	d.mu.Lock()
	now := time.Now()
	d.count++
	n, due := d.count, d.last.IsZero() || now.Sub(d.last) >= digestEvery
	if due {
		d.last, d.count = now, 0
	}
	d.mu.Unlock()
	if due {
		to.Log(level, msg, append(fields, zap.Int64("times", n))...)
	}
}
