package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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

// Reported is the newest report that the broker has from a broker of its cluster.
type Reported struct {
	Broker int32
	Age    time.Duration // 0: it is the broker itself
	N      []Findings    // by severity, for all checks together; empty if the report is too old
}

// RegisterReports registers what all brokers of a cluster report, as this one knows it. Every
// scrape calls source.
func RegisterReports(reg prometheus.Registerer, source func() []Reported) error {
	var s scraped
	n := s.gauge(nameReported,
		"Findings of each broker of the cluster, as this broker knows them, by severity; absent if it does not hear that broker.", "broker", "severity")
	age := s.gauge(nameReportAge, "Age of the newest report of each broker of the cluster; 0 for the broker itself.", "broker")
	s.read = func(send sendFunc) {
		for _, x := range source() {
			id := strconv.Itoa(int(x.Broker))
			send(age, x.Age.Seconds(), id)
			for _, f := range x.N {
				send(n, float64(f.N), id, f.Severity)
			}
		}
	}
	return reg.Register(&s)
}
