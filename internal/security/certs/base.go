package certs

import "crypto/tls"

// Base returns what the TLS configurations of all ends have in common, servers and clients: TLS 1.2
// or later, and no resumed sessions, which would outlive the revocation of an authority. Nothing
// else in chronik makes a tls.Config.
func Base() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true}
}
