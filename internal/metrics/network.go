package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/chronik-io/chronik/internal/view"
)

// Network holds the metrics of listeners and connections. The label listener is a listener's
// configured name.
type Network struct {
	// Connections is the number of open connections. By listener.
	Connections *prometheus.GaugeVec
	// Accepted counts opened connections. By listener.
	Accepted *prometheus.CounterVec
	// Refused counts connections closed immediately after accept, and failed accepts. By listener
	// and reason: total, listener, per_ip, unauthenticated, rate, files, draining.
	Refused *prometheus.CounterVec
	// Closed counts closed connections. By listener and reason: client, idle, slow_reader,
	// slow_sender, lagging, bad_frame, shutdown, error, link, limit, handshake, login, expired,
	// session.
	Closed *prometheus.CounterVec
	// Handshakes counts TLS handshakes. By listener and result: ok, or why they failed.
	Handshakes *prometheus.CounterVec
	// Logins counts logins with SASL. By listener, mechanism (empty if the listener does not have
	// it) and result: ok, again, failed.
	Logins *prometheus.CounterVec
	// BytesIn and BytesOut count bytes of the Kafka protocol. By listener.
	BytesIn, BytesOut *prometheus.CounterVec
	// BudgetWaits counts how often a reader waited for a byte budget. By budget.
	BudgetWaits *prometheus.CounterVec
}

// NewNetwork creates the metrics and registers them; reg may be nil.
func NewNetwork(reg prometheus.Registerer) *Network {
	f := promauto.With(reg)
	return &Network{
		Connections: gauge(f, nameConnections, "Open client connections.", "listener"),
		Accepted:    counter(f, nameAccepted, "Accepted client connections.", "listener"),
		Refused:     counter(f, nameRefused, "Connections refused at accept, by reason.", "listener", "reason"),
		Closed:      counter(f, nameClosed, "Closed connections, by reason.", "listener", "reason"),
		Handshakes:  counter(f, nameHandshakes, "TLS handshakes, by result.", "listener", "result"),
		Logins: counter(f, nameLogins, "Logins with SASL and with client certificates (SSL), by mechanism and result.",
			"listener", "mechanism", "result"),
		BytesIn:     counter(f, nameBytesIn, "Bytes of requests read.", "listener"),
		BytesOut:    counter(f, nameBytesOut, "Bytes of responses written.", "listener"),
		BudgetWaits: counter(f, nameBudgetWaits, "Number of times that a connection's reader waited for a byte budget.", "budget"),
	}
}

// Logins describes the clients that have not logged in, for one scrape.
type Logins struct{ Unauthenticated, Delayed int }

// RegisterLogins registers the gauges of Logins. Every scrape calls source.
func RegisterLogins(reg prometheus.Registerer, source func() Logins) error {
	var s scraped
	unauthenticated := s.gauge(nameUnauthenticated, "Connections that have not completed their TLS handshake and login.")
	delayed := s.gauge(nameLoginsDelayed, "Failed logins whose answer is delayed.")
	s.read = func(send sendFunc) {
		x := source()
		send(unauthenticated, float64(x.Unauthenticated))
		send(delayed, float64(x.Delayed))
	}
	return reg.Register(&s)
}

// Places describes the places of a class of work, for one scrape.
type Places struct {
	Class   string
	Waiting int
	Seconds float64 // for which the class had places, all together
}

// RegisterPlaces registers the places for work that computes for long. Every scrape calls source,
// which also returns how many places there are.
func RegisterPlaces(reg prometheus.Registerer, source func() ([]Places, int)) error {
	var s scraped
	places := s.gauge(namePlaces, "Places for work that computes for long: half of the processors.")
	waiting := s.gauge(namePlacesWaiting, "Pieces of work that wait for a place, by class.", "class")
	seconds := s.counter(namePlacesSeconds, "Seconds for which places were taken, by class.", "class")
	s.read = func(send sendFunc) {
		all, n := source()
		send(places, float64(n))
		for _, x := range all {
			send(waiting, float64(x.Waiting), x.Class)
			send(seconds, x.Seconds, x.Class)
		}
	}
	return reg.Register(&s)
}

// RegisterBudgets registers the byte budgets. Every scrape calls source.
func RegisterBudgets(reg prometheus.Registerer, source func() []view.Budget) error {
	var s scraped
	used := s.gauge(nameBudgetUsed, "Bytes used of a byte budget.", "budget")
	limit := s.gauge(nameBudgetLimit, "Size of a byte budget in bytes.", "budget")
	s.read = func(send sendFunc) {
		for _, x := range source() {
			send(used, float64(x.Used), x.Name)
			send(limit, float64(x.Limit), x.Name)
		}
	}
	return reg.Register(&s)
}
