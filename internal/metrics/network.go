package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Network is what listeners and connections report. The label listener is a
// listener's configured name.
type Network struct {
	// Connections is the number of open ones. By listener.
	Connections *prometheus.GaugeVec
	// Accepted counts opened connections. By listener.
	Accepted *prometheus.CounterVec
	// Refused counts connections closed right after accept, and failed
	// accepts. By listener and reason: total, per_ip, files, draining.
	Refused *prometheus.CounterVec
	// Closed counts ended connections. By listener and reason: client, idle,
	// slow_reader, bad_frame, shutdown, error.
	Closed *prometheus.CounterVec
	// BytesIn and BytesOut count bytes of the Kafka protocol. By listener.
	BytesIn, BytesOut *prometheus.CounterVec
	// BudgetUsed and BudgetLimit are bytes of each byte budget; BudgetWaits
	// counts how often a reader had to wait for one. By budget.
	BudgetUsed, BudgetLimit *prometheus.GaugeVec
	BudgetWaits             *prometheus.CounterVec
}

// NewNetwork makes the metrics and registers them; reg may be nil.
func NewNetwork(reg prometheus.Registerer) *Network {
	f := promauto.With(reg)
	return &Network{
		Connections: gauge(f, nameConnections, "Open client connections.", "listener"),
		Accepted:    counter(f, nameAccepted, "Accepted client connections.", "listener"),
		Refused:     counter(f, nameRefused, "Connections refused at accept, by reason.", "listener", "reason"),
		Closed:      counter(f, nameClosed, "Connections that ended, by reason.", "listener", "reason"),
		BytesIn:     counter(f, nameBytesIn, "Bytes of requests read.", "listener"),
		BytesOut:    counter(f, nameBytesOut, "Bytes of responses written.", "listener"),
		BudgetUsed:  gauge(f, nameBudgetUsed, "Bytes taken from a byte budget.", "budget"),
		BudgetLimit: gauge(f, nameBudgetLimit, "Size of a byte budget.", "budget"),
		BudgetWaits: counter(f, nameBudgetWaits, "Times a connection's reader waited for a byte budget.", "budget"),
	}
}
