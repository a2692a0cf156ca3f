// Package meter counts and times what load generators do: which outcomes lie
// inside the measured interval, how many there were, how long each took, point
// by point (see Window.Step) and in all.
//
// It promises that an outcome counts exactly when it ended inside the interval,
// that every such outcome is recorded (nothing is sampled or dropped), and that
// what was in flight when the interval ended is counted apart. A worker records
// into a Lane of its own, so that workers share no lock; samples move to the
// histograms in bunches. bench/load records, bench reads. The package knows
// neither requests nor brokers.
package meter

import (
	"sync/atomic"
	"time"
)

// Window is the measured interval, on the monotonic clock of the run that all its
// times count from.
type Window struct {
	base     time.Time
	warmup   time.Duration
	duration time.Duration
	step     time.Duration
	until    atomic.Int64
}

// NewWindow is an interval of duration that starts warmup after Begin.
func NewWindow(warmup, duration time.Duration) *Window {
	return &Window{warmup: warmup, duration: duration, step: stepOf(duration)}
}

// stepOf is the length of one point, so that the curve of a short run has a shape, and
// that of a long one is not noise.
func stepOf(duration time.Duration) time.Duration {
	switch {
	case duration >= 30*time.Second:
		return time.Second
	case duration > 10*time.Second:
		return 250 * time.Millisecond
	default:
		return 100 * time.Millisecond
	}
}

// Step is the length of the points that the interval is divided into, 100 ms to 1 s. The
// last point may be shorter.
func (w *Window) Step() time.Duration { return w.step }

// Begin starts the clock. It is called once, before any other method and before
// the goroutines that use the window start.
func (w *Window) Begin() {
	w.base = time.Now()
	w.until.Store(int64(w.warmup + w.duration))
}

// Now is the time since Begin.
func (w *Window) Now() time.Duration { return time.Since(w.base) }

// From is the start of the interval.
func (w *Window) From() time.Duration { return w.warmup }

// Until is the end of the interval: workers begin nothing at or after it.
func (w *Window) Until() time.Duration { return time.Duration(w.until.Load()) }

// Cut ends the interval now if it has not ended: a run that is interrupted.
func (w *Window) Cut() {
	now := int64(w.Now())
	for {
		until := w.until.Load()
		if now >= until || w.until.CompareAndSwap(until, now) {
			return
		}
	}
}

// Elapsed is the length of the interval, 0 when it was cut in the warm-up.
func (w *Window) Elapsed() time.Duration { return max(w.Until()-w.warmup, 0) }

// Started is the wall clock at From.
func (w *Window) Started() time.Time { return w.base.Add(w.warmup) }
