package metrics

import "github.com/prometheus/client_golang/prometheus"

// Expiry is the time until the first certificate of a listener's kind expires: "server", or
// "client-ca" for the authorities of client certificates. It is negative afterwards.
type Expiry struct {
	Listener, Kind string
	Seconds        float64
}

// RegisterCertificates registers the expiries of certificates. Every scrape calls source. Listeners
// are those of the configuration.
func RegisterCertificates(reg prometheus.Registerer, source func() []Expiry) error {
	var s scraped
	expiry := s.gauge(nameExpiry, "Time until the first certificate of a kind expires (server, client-ca); negative afterwards.",
		"listener", "kind")
	s.read = func(send sendFunc) {
		for _, x := range source() {
			send(expiry, x.Seconds, x.Listener, x.Kind)
		}
	}
	return reg.Register(&s)
}
