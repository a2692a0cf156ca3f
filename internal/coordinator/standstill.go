package coordinator

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Timers of a machine measure how long a member has not been heard from. In two cases the silence
// says nothing about the member. While an append is slow, every response waits for it, and a client
// that waits for a response sends nothing. After the broker itself has stood still, requests sent
// meanwhile are still unread. Without this, a disk or a machine that hangs for longer than a
// session would cost every group all of its members.
const (
	// slowAppend is how long an append may take, and lateAlarm how late a timer may fire, before
	// the time no longer counts.
	slowAppend = time.Second
	lateAlarm  = time.Second
	// stallGrace is how long members have to be heard from after a standstill. Clients send a
	// heartbeat every 3 to 5 s, and overdue heartbeats at once.
	stallGrace = 5 * time.Second
)

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// stalled reports whether an append is so slow that no timer may fire before it ends.
func (p *pipeline) stalled(now time.Time) bool {
	return p.inFlight > 0 && now.Sub(p.since) >= slowAppend
}

// extendForSlowAppend extends all timers by the duration of an append that was slow. It must be
// called for every append that ends, before inFlight is decremented. Overlapping time of several
// appends counts once.
func (s *shard) extendForSlowAppend(now time.Time) {
	p := &s.pipeline
	took := now.Sub(p.since)
	p.since = now
	if took < slowAppend {
		return
	}
	s.timers.delay(took)
	s.logger.Log(level(took), "append to coordinator log was slow, member timeouts extended", zap.Duration("took", took))
}

// level returns the log level for a standstill: on a busy machine, a second is normal.
func level(stood time.Duration) zapcore.Level {
	if stood < stallGrace {
		return zap.DebugLevel
	}
	return zap.WarnLevel
}

// extendForStandstill extends all timers if the first one is long overdue, and reports whether it
// did.
func (s *shard) extendForStandstill(now time.Time) bool {
	at, ok := s.timers.wake()
	late := now.Sub(at)
	if !ok || late < lateAlarm {
		return false
	}
	s.timers.delay(late + stallGrace)
	s.logger.Log(level(late), "coordinator stood still, member timeouts extended", zap.Duration("late", late))
	return true
}
