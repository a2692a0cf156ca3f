package meter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/pause"
)

// Stopwatch measures the time and the CPU time of a server since its start.
type Stopwatch struct {
	pid   int
	began time.Time
	used  time.Duration
}

// StartWatch starts a stopwatch for the process pid; 0 means that the process is unknown.
func StartWatch(pid int) (Stopwatch, error) {
	used, err := processCPU(pid)
	return Stopwatch{pid, time.Now(), used}, err
}

// Span is a duration and the CPU time of a process in it.
type Span struct {
	Seconds float64 `json:"seconds"`
	// CPUSeconds is nil if the process is unknown or the system does not report CPU times.
	CPUSeconds *float64 `json:"server_cpu_seconds,omitempty"`
}

// String returns the duration and, if it is known, the CPU time.
func (s Span) String() string {
	if s.CPUSeconds == nil {
		return fmt.Sprintf("%.2f s", s.Seconds)
	}
	return fmt.Sprintf("%.2f s (CPU %.2f s)", s.Seconds, *s.CPUSeconds)
}

// Stop returns the times since the start. It may be called repeatedly.
func (s Stopwatch) Stop() (Span, error) {
	span := Span{Seconds: time.Since(s.began).Seconds()}
	used, err := processCPU(s.pid)
	if err == nil && used > 0 {
		cpu := (used - s.used).Seconds()
		span.CPUSeconds = &cpu
	}
	return span, err
}

// processCPU returns 0 without a process, and on systems that do not report CPU times.
func processCPU(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	used, err := ProcessCPU(pid)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, nil
	}
	return used, err
}

// over scales a span whose ends differ by some microseconds from those of an interval to exactly
// the interval.
func (s Span) over(interval time.Duration) Span {
	if s.CPUSeconds != nil && s.Seconds > 0 {
		cpu := *s.CPUSeconds * interval.Seconds() / s.Seconds
		s.CPUSeconds = &cpu
	}
	s.Seconds = interval.Seconds()
	return s
}

// Measure waits for the end of the interval and returns its length with the CPU time that each
// process used in it; a pid of 0 stands for an unknown process. If ctx ends, the interval also
// ends.
func (w *Window) Measure(ctx context.Context, pids ...int) ([]Span, error) {
	w.SleepUntil(ctx, w.From())
	watches, errs := make([]Stopwatch, len(pids)), make([]error, len(pids))
	for i, pid := range pids {
		watches[i], errs[i] = StartWatch(pid)
	}
	if !w.SleepUntil(ctx, w.Until()) {
		w.Cut()
	}
	spans := make([]Span, len(pids))
	for i := range spans {
		if errs[i] == nil {
			spans[i], errs[i] = watches[i].Stop()
		}
		spans[i] = spans[i].over(w.Elapsed())
	}
	return spans, errors.Join(errs...)
}

// SleepUntil waits until t on the window's clock, or until ctx ends. It reports whether it reached
// t.
func (w *Window) SleepUntil(ctx context.Context, t time.Duration) bool {
	return pause.Wait(ctx.Done(), t-w.Now())
}
