package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/view"
)

// RegisterForward registers the metrics of requests that are passed to other brokers. Every scrape
// calls source.
func RegisterForward(reg prometheus.Registerer, source func() []view.Forwarding) error {
	var s scraped
	passed := s.counter(nameForwarded, "Requests of listeners with `route: forward`, by the broker that serves them. The result is "+
		"passed if it is answered or waits, lost if the connection broke before the answer, refused if it was not sent.", "broker", "result")
	tunnels := s.gauge(nameForwardTunnels, "Open connections to another broker, each for one connection of a client.", "broker")
	s.read = func(send sendFunc) {
		for _, x := range source() {
			broker := strconv.Itoa(int(x.Broker))
			send(passed, float64(x.Passed-x.Lost), broker, "passed")
			send(passed, float64(x.Lost), broker, "lost")
			send(passed, float64(x.Refused), broker, "refused")
			send(tunnels, float64(x.Tunnels), broker)
		}
	}
	return reg.Register(&s)
}
