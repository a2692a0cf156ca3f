package metrics

import "github.com/prometheus/client_golang/prometheus"

// Findings is the number of findings of a check with a severity. Zeros are also exported.
type Findings struct {
	Check, Severity string
	N               int
}

// RegisterFindings registers the findings of the broker's last checks. Every scrape calls source.
// Checks and severities are fixed.
func RegisterFindings(reg prometheus.Registerer, source func() []Findings) error {
	var s scraped
	n := s.gauge(nameFindings,
		"Problems that the broker found in itself or its machine, by check and severity: bad, warn, note.", "check", "severity")
	s.read = func(send sendFunc) {
		for _, x := range source() {
			send(n, float64(x.N), x.Check, x.Severity)
		}
	}
	return reg.Register(&s)
}
