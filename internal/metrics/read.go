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
		all[x.GetLabel()[0].GetValue()] = seenOf(x.GetHistogram())
	}
	return all
}

// ObservedOne reads one series of a histogram, by the values of its labels.
func ObservedOne(h *prometheus.HistogramVec, labels ...string) Seen {
	var x dto.Metric
	if m, ok := h.WithLabelValues(labels...).(prometheus.Metric); !ok || m.Write(&x) != nil {
		return Seen{} // it is not of the kind that was asked for
	}
	return seenOf(x.GetHistogram())
}

func seenOf(h *dto.Histogram) Seen {
	seen := Seen{Count: h.GetSampleCount(), Sum: h.GetSampleSum()}
	for _, b := range h.GetBucket() {
		seen.Buckets = append(seen.Buckets, Bucket{b.GetUpperBound(), b.GetCumulativeCount()})
	}
	return seen
}

// Estimate returns the q-quantile (0 ≤ q ≤ 1) under the assumption that observations are
// spread evenly within their bucket, as Prometheus's histogram_quantile does. For
// observations above the last bucket it returns that bucket's bound; 0 if nothing was
// observed.
func (s Seen) Estimate(q float64) float64 {
	if s.Count == 0 {
		return 0
	}
	rank := q * float64(s.Count)
	lower, below := 0.0, uint64(0)
	for _, b := range s.Buckets {
		if n := b.Count - below; n > 0 && float64(b.Count) >= rank {
			return lower + (b.Upper-lower)*(rank-float64(below))/float64(n)
		}
		lower, below = b.Upper, b.Count
	}
	return lower
}

// Merge returns the observations of both. They must have the same buckets, as the series
// of one histogram have.
func (s Seen) Merge(other Seen) Seen {
	if len(s.Buckets) == 0 {
		return other
	}
	sum := Seen{Count: s.Count + other.Count, Sum: s.Sum + other.Sum, Buckets: make([]Bucket, len(s.Buckets))}
	for i, b := range s.Buckets {
		sum.Buckets[i] = b
		if i < len(other.Buckets) {
			sum.Buckets[i].Count += other.Buckets[i].Count
		}
	}
	return sum
}

// Total returns the sum of all series of a counter.
func Total(c *prometheus.CounterVec) float64 {
	ch := make(chan prometheus.Metric)
	go func() {
		defer close(ch)
		c.Collect(ch)
	}()
	sum := 0.0
	for m := range ch {
		var x dto.Metric
		if m.Write(&x) == nil {
			sum += x.GetCounter().GetValue()
		}
	}
	return sum
}
