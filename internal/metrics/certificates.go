package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/view"
)

// RegisterCertificates registers the expiries of certificates. Every scrape calls source. Listeners
// are those of the configuration.
func RegisterCertificates(reg prometheus.Registerer, source func() []view.Certificate) error {
	var s scraped
	expiry := s.gauge(nameExpiry, "Time until the first certificate of a kind expires (server, client-ca); negative afterwards.",
		"listener", "kind")
	s.read = func(send sendFunc) {
		for _, x := range source() {
			send(expiry, time.Until(x.Expires).Seconds(), x.Listener, x.Kind)
		}
	}
	return reg.Register(&s)
}

// RegisterTokenKeys registers the state of the keys that check tokens of OAUTHBEARER. Every scrape
// calls source: read is when they were read last, zero for never, and failed reports whether the
// latest attempt failed.
func RegisterTokenKeys(reg prometheus.Registerer, source func() (read time.Time, failed bool)) error {
	var s scraped
	age := s.gauge(nameKeysAge, "Time since the keys that check tokens (oauth.jwks) were read; absent if they never were.")
	broken := s.gauge(nameKeysFailed, "1 if the latest attempt to read the keys that check tokens failed, else 0.")
	s.read = func(send sendFunc) {
		read, failed := source()
		if !read.IsZero() {
			send(age, time.Since(read).Seconds())
		}
		send(broken, map[bool]float64{true: 1}[failed])
	}
	return reg.Register(&s)
}
