package metrics

import "github.com/prometheus/client_golang/prometheus"

// Findings is how many findings a check has of a severity; 0 is worth a series.
type Findings struct {
	Check, Severity string
	N               int
}

// findings collects on scrape, like logs.
type findings struct {
	source func() []Findings
	n      *prometheus.Desc
}

// RegisterFindings adds what the broker's checks found last, asked of source on
// every scrape. Checks and severities are fixed.
func RegisterFindings(reg prometheus.Registerer, source func() []Findings) error {
	return reg.Register(&findings{source: source, n: prometheus.NewDesc(nameFindings,
		"Things that the broker found wrong with itself or its machine, by check and severity: bad, warn, note.", []string{"check", "severity"}, nil)})
}

// Describe implements prometheus.Collector.
func (f *findings) Describe(ch chan<- *prometheus.Desc) { ch <- f.n }

// Collect implements prometheus.Collector.
func (f *findings) Collect(ch chan<- prometheus.Metric) {
	for _, x := range f.source() {
		ch <- prometheus.MustNewConstMetric(f.n, prometheus.GaugeValue, float64(x.N), x.Check, x.Severity)
	}
}
