package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Seen is how often something was observed, and the sum.
type Seen struct {
	Count uint64
	Sum   float64
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
		all[x.GetLabel()[0].GetValue()] = Seen{x.GetHistogram().GetSampleCount(), x.GetHistogram().GetSampleSum()}
	}
	return all
}
