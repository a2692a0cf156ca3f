package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

func histogram(f promauto.Factory, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func gauge(f promauto.Factory, name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func counter(f promauto.Factory, name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// scraped collects gauges and counters whose values are read on every scrape, so that 10,000 idle
// partitions cost nothing between scrapes.
type scraped struct {
	descs  []*prometheus.Desc
	totals map[*prometheus.Desc]bool // those that are counters
	read   func(send sendFunc)
}

// sendFunc sends the value of a gauge, with the values of its labels.
type sendFunc func(d *prometheus.Desc, v float64, labels ...string)

// gauge adds a gauge.
func (s *scraped) gauge(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(name, help, labels, nil)
	s.descs = append(s.descs, d)
	return d
}

// counter is gauge for a value that only grows.
func (s *scraped) counter(name, help string, labels ...string) *prometheus.Desc {
	d := s.gauge(name, help, labels...)
	if s.totals == nil {
		s.totals = make(map[*prometheus.Desc]bool)
	}
	s.totals[d] = true
	return d
}

// Describe implements prometheus.Collector.
func (s *scraped) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range s.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *scraped) Collect(ch chan<- prometheus.Metric) {
	s.read(func(d *prometheus.Desc, v float64, labels ...string) {
		kind := prometheus.GaugeValue
		if s.totals[d] {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	})
}
