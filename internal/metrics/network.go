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
	// slow_reader, slow_sender, lagging, bad_frame, shutdown, error.
	Closed *prometheus.CounterVec
	// BytesIn and BytesOut count bytes of the Kafka protocol. By listener.
	BytesIn, BytesOut *prometheus.CounterVec
	// BudgetWaits counts how often a reader had to wait for a byte budget. By
	// budget.
	BudgetWaits *prometheus.CounterVec
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
		BudgetWaits: counter(f, nameBudgetWaits, "Times a connection's reader waited for a byte budget.", "budget"),
	}
}

// Budget is what one scrape says about a byte budget.
type Budget struct {
	Name        string
	Used, Limit int64 // bytes
}

// budgets collects byte budgets on scrape.
type budgets struct {
	read        func() []Budget
	used, limit *prometheus.Desc
}

// RegisterBudgets adds the byte budgets, which read returns on every scrape.
func RegisterBudgets(reg prometheus.Registerer, read func() []Budget) error {
	by := []string{"budget"}
	return reg.Register(&budgets{
		read:  read,
		used:  prometheus.NewDesc(nameBudgetUsed, "Bytes taken from a byte budget.", by, nil),
		limit: prometheus.NewDesc(nameBudgetLimit, "Size of a byte budget.", by, nil),
	})
}

// Describe implements prometheus.Collector.
func (b *budgets) Describe(ch chan<- *prometheus.Desc) {
	ch <- b.used
	ch <- b.limit
}

// Collect implements prometheus.Collector.
func (b *budgets) Collect(ch chan<- prometheus.Metric) {
	for _, x := range b.read() {
		ch <- prometheus.MustNewConstMetric(b.used, prometheus.GaugeValue, float64(x.Used), x.Name)
		ch <- prometheus.MustNewConstMetric(b.limit, prometheus.GaugeValue, float64(x.Limit), x.Name)
	}
}
