// Package meter counts and times the outcomes of load generators: which of them are inside the
// measured interval, how many there were and how long each took, per point (see Window.Step) and in
// total.
//
// It promises that an outcome counts if and only if it ended inside the interval, that every such
// outcome is recorded (nothing is sampled or dropped), and that operations in flight at the end of
// the interval are counted separately. Each worker has its own recorder, so that workers share no
// lock; samples move to the histograms in groups. bench/load records, bench reads. The package
// knows neither requests nor brokers.
package meter

import (
	"sync/atomic"
	"time"
)

// Window is the measured interval, on the monotonic clock of the run, from whose start all its
// times count.
type Window struct {
	base     time.Time
	warmup   time.Duration
	duration time.Duration
	step     time.Duration
	until    atomic.Int64
}

// NewWindow returns an interval of duration that starts warmup after Begin.
func NewWindow(warmup, duration time.Duration) *Window {
	return &Window{warmup: warmup, duration: duration, step: stepOf(duration)}
}

// stepOf returns the length of a point: short enough for the curve of a short run to have a shape,
// and long enough for the curve of a long run not to be noise.
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

// Step returns the length of the points of the interval, 100 ms to 1 s. The last point may be
// shorter.
func (w *Window) Step() time.Duration { return w.step }

// Begin starts the clock. The caller must call it once, before any other method and before the
// goroutines that use the window start.
func (w *Window) Begin() {
	w.base = time.Now()
	w.until.Store(int64(w.warmup + w.duration))
}

// Now returns the time since Begin.
func (w *Window) Now() time.Duration { return time.Since(w.base) }

// From returns the start of the interval.
func (w *Window) From() time.Duration { return w.warmup }

// Until returns the end of the interval: workers start nothing at or after it.
func (w *Window) Until() time.Duration { return time.Duration(w.until.Load()) }

// Cut ends the interval now if it has not ended, for an interrupted run.
func (w *Window) Cut() {
	now := int64(w.Now())
	for {
		until := w.until.Load()
		if now >= until || w.until.CompareAndSwap(until, now) {
			return
		}
	}
}

// Elapsed returns the length of the interval, 0 if it was cut in the warm-up.
func (w *Window) Elapsed() time.Duration { return max(w.Until()-w.warmup, 0) }

// Started returns the wall clock time of From.
func (w *Window) Started() time.Time { return w.base.Add(w.warmup) }
