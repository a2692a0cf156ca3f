package report

import (
	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency sums up a histogram of nanoseconds. The values are microseconds, as
// exact as the histogram: three digits.
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

const nanosPerMicro = 1000

// LatencyOf sums up h, which counts nanoseconds. A nil or empty one gives zeros
// and Count 0.
func LatencyOf(h *hdrhistogram.Histogram) Latency {
	if h == nil || h.TotalCount() == 0 {
		return Latency{}
	}
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / nanosPerMicro }
	return Latency{
		Count: h.TotalCount(), Min: float64(h.Min()) / nanosPerMicro, Mean: h.Mean() / nanosPerMicro,
		P50: at(50), P90: at(90), P95: at(95), P99: at(99), P999: at(99.9), P9999: at(99.99), Max: float64(h.Max()) / nanosPerMicro,
	}
}
