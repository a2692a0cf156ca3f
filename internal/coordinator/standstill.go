package coordinator

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Timers of a machine measure how long somebody was not heard of. Twice that says
// nothing about them: while an append takes its time every answer waits for it,
// and who waits for an answer does not speak; and after the broker itself has
// stood still, what was said meanwhile is still to be read. Without this a disk
// or a machine that hangs for longer than a session would cost every group all of
// its members.
const (
	// slowAppend is how long an append may take, and lateAlarm how late a timer
	// may be noticed, before the time does not count.
	slowAppend = time.Second
	lateAlarm  = time.Second
	// thaw is how long everybody has to be heard of after a standstill. Clients
	// send a heartbeat every 3 to 5 s, and those that are overdue at once.
	thaw = 5 * time.Second
)

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// stalled says that an append takes so long that no timer may fire before it ends.
func (p *pipeline) stalled(now time.Time) bool {
	return p.inFlight > 0 && now.Sub(p.since) >= slowAppend
}

// ended is called for every append that ends, before it is counted out. What it
// took is put onto all timers, if it was long; time that several took at once
// counts once.
func (s *shard) ended(now time.Time) {
	p := &s.pipeline
	took := now.Sub(p.since)
	p.since = now
	if took < slowAppend {
		return
	}
	s.timers.delay(took)
	s.logger.Log(level(took), "an append to the coordinator's log took long: nobody's timeout runs meanwhile", zap.Duration("took", took))
}

// level is how loudly to say it: a second is nothing on a busy machine.
func level(stood time.Duration) zapcore.Level {
	if stood < thaw {
		return zap.DebugLevel
	}
	return zap.WarnLevel
}

// thawed puts all timers off if the first one should have fired long ago.
func (s *shard) thawed(now time.Time) bool {
	at, ok := s.timers.wake()
	late := now.Sub(at)
	if !ok || late < lateAlarm {
		return false
	}
	s.timers.delay(late + thaw)
	s.logger.Log(level(late), "the coordinator stood still: everybody gets time to be heard of", zap.Duration("late", late))
	return true
}
