package grouping

import (
	"errors"
	"time"

	"github.com/chronik-io/chronik/internal/bench/meter"
)

// stopwatch measures the time and the CPU time of a server since its start.
type stopwatch struct {
	pid   int
	began time.Time
	used  time.Duration
}

func startWatch(pid int) (stopwatch, error) {
	used, err := processCPU(pid)
	return stopwatch{pid, time.Now(), used}, err
}

// Span is a duration and the server's CPU time in it.
type Span struct {
	Seconds float64 `json:"seconds"`
	// CPUSeconds is nil if the server's process is unknown.
	CPUSeconds *float64 `json:"server_cpu_seconds,omitempty"`
}

func (s stopwatch) stop() (Span, error) {
	span := Span{Seconds: time.Since(s.began).Seconds()}
	used, err := processCPU(s.pid)
	if err == nil && s.pid != 0 {
		cpu := (used - s.used).Seconds()
		span.CPUSeconds = &cpu
	}
	return span, err
}

// processCPU returns 0 without a process, and on systems that do not report it.
func processCPU(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	used, err := meter.ProcessCPU(pid)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, nil
	}
	return used, err
}

// over scales a span whose ends were read some microseconds beside those of an interval to exactly
// the interval.
func (s Span) over(interval time.Duration) Span {
	if s.CPUSeconds != nil && s.Seconds > 0 {
		cpu := *s.CPUSeconds * interval.Seconds() / s.Seconds
		s.CPUSeconds = &cpu
	}
	s.Seconds = interval.Seconds()
	return s
}
