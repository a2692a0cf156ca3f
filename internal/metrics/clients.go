package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/view"
)

// RegisterClients registers the metrics that clients pushed. Every scrape calls source. The
// metric's own name is a label: clients choose it, and two of them may choose different types for
// one name.
func RegisterClients(reg prometheus.Registerer, source func() view.ClientMetrics) error {
	var s scraped
	labels := []string{"metric", "client_id", "client_instance_id", "topic", "partition", "node", "attributes"}
	clients := s.gauge(nameClientInstances, "Clients that are asked for their metrics and were heard of lately.")
	value := s.gauge(nameClientMetric, "Metrics that clients pushed: gauges, and sums that may fall.", labels...)
	total := s.counter(nameClientMetricTotal, "Sums that clients pushed and that only grow, since the client's first push to this broker.",
		labels...)
	omitted := s.counter(nameClientMetricsOmitted, "Values of clients' metrics that were not stored, or made room for others, because there are too many, and those that are no numbers.")
	s.read = func(send sendFunc) {
		now := source()
		send(clients, float64(now.Clients))
		send(omitted, float64(now.Omitted))
		for i := range now.Series {
			c := &now.Series[i]
			d := value
			if c.Total {
				d = total
			}
			send(d, c.Value, c.Metric, c.ClientID, c.Instance, c.Topic, c.Partition, c.Node, c.Attributes)
		}
	}
	return reg.Register(&s)
}
