package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/view"
)

// RegisterAudit registers the counters of the audit log. Every scrape calls source.
func RegisterAudit(reg prometheus.Registerer, source func() view.Audit) error {
	var s scraped
	lines := s.counter(nameAuditLines, "Lines of the audit log, by result.", "result")
	counted := s.counter(nameAuditCounted, "Events that the audit log has only counted.")
	s.read = func(send sendFunc) {
		x := source()
		send(lines, float64(x.Written), "written")
		send(lines, float64(x.Dropped), "dropped")
		send(counted, float64(x.Counted))
	}
	return reg.Register(&s)
}
