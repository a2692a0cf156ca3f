package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Distribution is the content of a histogram: the number and sum of observations, and its buckets.
type Distribution struct {
	Count   uint64
	Sum     float64
	Buckets []Bucket // by ascending Upper; observations above the last bucket are only in Count
}

// Bucket counts the observations up to a bound.
type Bucket struct {
	Upper float64
	Count uint64 // cumulative
}

// Quantile returns the upper bound of the bucket that contains the q-quantile (0 ≤ q ≤ 1): infinite
// if it is above the last bucket, 0 without observations.
func (s Distribution) Quantile(q float64) float64 {
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

// Since returns the observations since an earlier read of the same histogram.
func (s Distribution) Since(earlier Distribution) Distribution {
	d := Distribution{Count: s.Count - earlier.Count, Sum: s.Sum - earlier.Sum, Buckets: make([]Bucket, len(s.Buckets))}
	for i, b := range s.Buckets {
		d.Buckets[i] = b
		if i < len(earlier.Buckets) {
			d.Buckets[i].Count -= earlier.Buckets[i].Count
		}
	}
	return d
}

// Mean returns the mean of the observations, 0 without observations.
func (s Distribution) Mean() float64 {
	if s.Count == 0 {
		return 0
	}
	return s.Sum / float64(s.Count)
}

// Distributions returns the distributions of a histogram with one label, by the label's values, for
// components that show them without Prometheus. The goroutine that collects them ends with the
// last one.
func Distributions(h *prometheus.HistogramVec) map[string]Distribution {
	ch := make(chan prometheus.Metric)
	go func() {
		defer close(ch)
		h.Collect(ch)
	}()
	all := make(map[string]Distribution)
	for m := range ch {
		var x dto.Metric
		if m.Write(&x) != nil || len(x.GetLabel()) != 1 || x.GetHistogram() == nil {
			continue // not a histogram with one label
		}
		all[x.GetLabel()[0].GetValue()] = distributionOf(x.GetHistogram())
	}
	return all
}

// DistributionOf returns the distribution of one series of a histogram, by the values of its
// labels.
func DistributionOf(h *prometheus.HistogramVec, labels ...string) Distribution {
	var x dto.Metric
	if m, ok := h.WithLabelValues(labels...).(prometheus.Metric); !ok || m.Write(&x) != nil {
		return Distribution{} // not a histogram
	}
	return distributionOf(x.GetHistogram())
}

func distributionOf(h *dto.Histogram) Distribution {
	seen := Distribution{Count: h.GetSampleCount(), Sum: h.GetSampleSum()}
	for _, b := range h.GetBucket() {
		seen.Buckets = append(seen.Buckets, Bucket{b.GetUpperBound(), b.GetCumulativeCount()})
	}
	return seen
}

// Estimate returns the q-quantile (0 ≤ q ≤ 1) under the assumption that observations are spread
// evenly within their bucket, as Prometheus's histogram_quantile does. For observations above the
// last bucket it returns that bucket's bound; without observations, 0.
func (s Distribution) Estimate(q float64) float64 {
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

// Merge returns the observations of both, which must have the same buckets, like the series of one
// histogram.
func (s Distribution) Merge(other Distribution) Distribution {
	if len(s.Buckets) == 0 {
		return other
	}
	sum := Distribution{Count: s.Count + other.Count, Sum: s.Sum + other.Sum, Buckets: make([]Bucket, len(s.Buckets))}
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
