package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEstimateIsWithinTheBucket(t *testing.T) {
	s := Distribution{Count: 10, Buckets: []Bucket{{1, 0}, {2, 4}, {4, 8}}} // two are above 4
	for q, want := range map[float64]float64{0.2: 1.5, 0.4: 2, 0.6: 3, 0.8: 4, 0.99: 4, 1: 4} {
		if got := s.Estimate(q); got != want {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
	for _, none := range []Distribution{{}, {Buckets: []Bucket{{1, 0}, {2, 0}}}} {
		if got := none.Estimate(0.5); got != 0 {
			t.Errorf("%+v: %v", none, got)
		}
	}
}

func TestMergeAddsUp(t *testing.T) {
	a := Distribution{Count: 3, Sum: 1.5, Buckets: []Bucket{{1, 2}, {2, 3}}}
	b := Distribution{Count: 2, Sum: 8, Buckets: []Bucket{{1, 0}, {2, 1}}}
	for _, got := range []Distribution{a.Merge(b), b.Merge(a)} {
		if got.Count != 5 || got.Sum != 9.5 || got.Buckets[0] != (Bucket{1, 2}) || got.Buckets[1] != (Bucket{2, 4}) {
			t.Errorf("%+v", got)
		}
	}
	if got := (Distribution{}).Merge(a); got.Count != 3 || a.Buckets[0].Count != 2 {
		t.Errorf("%+v, and %+v", got, a)
	}
}

func TestOneSeriesAndTheSumOfAll(t *testing.T) {
	r := NewRequests(prometheus.NewRegistry())
	r.Seconds.WithLabelValues("Produce").Observe(0.25)
	r.Seconds.WithLabelValues("Fetch").Observe(1)
	if got := DistributionOf(r.Seconds, "Produce"); got.Count != 1 || got.Sum != 0.25 || len(got.Buckets) == 0 {
		t.Errorf("%+v", got)
	}
	r.Count.WithLabelValues("Produce", "NONE").Add(3)
	r.Count.WithLabelValues("Fetch", "NONE").Add(4)
	if got := Total(r.Count); got != 7 {
		t.Error(got)
	}
}
