package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Seen is how often something was observed, and the sum.
type Seen struct {
	Count   uint64
	Sum     float64
	Buckets []Bucket // by ascending Upper; what is above the last is in Count alone
}

// Bucket counts what was observed up to a bound.
type Bucket struct {
	Upper float64
	Count uint64 // with those of the buckets below
}

// Quantile is the least bound of a bucket that the part q of what was observed, 0
// to 1, is not above: infinite where it is above the last, 0 where nothing was.
func (s Seen) Quantile(q float64) float64 {
	if s.Count == 0 {
		return 0
	}
	for _, b := range s.Buckets {
		if float64(b.Count) >= q*float64(s.Count) {
			return b.Upper
		}
	}
	return math.Inf(1)
}

// Since is what was observed after an earlier look at the same histogram.
func (s Seen) Since(earlier Seen) Seen {
	d := Seen{Count: s.Count - earlier.Count, Sum: s.Sum - earlier.Sum, Buckets: make([]Bucket, len(s.Buckets))}
	for i, b := range s.Buckets {
		d.Buckets[i] = b
		if i < len(earlier.Buckets) {
			d.Buckets[i].Count -= earlier.Buckets[i].Count
		}
	}
	return d
}

// Mean is 0 where nothing was observed.
func (s Seen) Mean() float64 {
	if s.Count == 0 {
		return 0
	}
	return s.Sum / float64(s.Count)
}

// Observed reads a histogram that has one label, by the label's values, for who
// shows it without a scraper.
func Observed(h *prometheus.HistogramVec) map[string]Seen {
	ch := make(chan prometheus.Metric)
	go func() {
		defer close(ch)
		h.Collect(ch)
	}()
	all := make(map[string]Seen)
	for m := range ch {
		var x dto.Metric
		if m.Write(&x) != nil || len(x.GetLabel()) != 1 || x.GetHistogram() == nil {
			continue // it is not of the kind that was asked for
		}
		h := x.GetHistogram()
		seen := Seen{Count: h.GetSampleCount(), Sum: h.GetSampleSum()}
		for _, b := range h.GetBucket() {
			seen.Buckets = append(seen.Buckets, Bucket{b.GetUpperBound(), b.GetCumulativeCount()})
		}
		all[x.GetLabel()[0].GetValue()] = seen
	}
	return all
}
