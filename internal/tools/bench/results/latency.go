package results

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency summarizes a histogram of times. The values are microseconds with the precision of the
// histogram, three significant digits.
type Latency struct {
	Count int64   `json:"count"`
	Min   float64 `json:"min_us"`
	Mean  float64 `json:"mean_us"`
	P50   float64 `json:"p50_us"`
	P90   float64 `json:"p90_us"`
	P95   float64 `json:"p95_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p99_9_us"`
	P9999 float64 `json:"p99_99_us"`
	Max   float64 `json:"max_us"`
}

// LatencyOf summarizes h, whose values are multiples of unit. For a nil or empty histogram all
// fields are 0.
func LatencyOf(h *hdrhistogram.Histogram, unit time.Duration) Latency {
	if h == nil || h.TotalCount() == 0 {
		return Latency{}
	}
	scale := micros(unit)
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) * scale }
	return Latency{
		Count: h.TotalCount(), Min: float64(h.Min()) * scale, Mean: h.Mean() * scale,
		P50: at(50), P90: at(90), P95: at(95), P99: at(99), P999: at(99.9), P9999: at(99.99), Max: float64(h.Max()) * scale,
	}
}
