package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/chronik-io/chronik/internal/security/certs"
)

// Shown is what a server shows in a TLS handshake.
type Shown struct {
	Chain []*x509.Certificate // the server's own first; never empty
	// Refusal is why a client with the present settings refuses the server, with a remedy; empty if
	// it accepts it.
	Refusal string
}

// Certificates opens a TLS connection to an address, even without TLS settings, and returns what
// the server shows. It closes the connection after the handshake and sends nothing else.
func (a *App) Certificates(ctx context.Context, at string) (*Shown, error) {
	config, err := a.Settings.TLSConfig()
	if err != nil {
		return nil, Usage("%w", err)
	}
	if config == nil {
		config = certs.Base()
	}
	host, _, err := net.SplitHostPort(at)
	if err != nil {
		host, at = at, net.JoinHostPort(at, "9092") // the settings were checked: only the port is missing
	}
	config.ServerName = cmp.Or(config.ServerName, host)
	accept := config.InsecureSkipVerify
	config.InsecureSkipVerify = true // a certificate that is refused is also shown
	var s *Shown
	config.VerifyConnection = func(state tls.ConnectionState) error {
		s = &Shown{Chain: state.PeerCertificates}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(a.Settings.Timeout(), dialTime))
	defer cancel()
	c, err := a.dial(ctx, "tcp", at)
	if err == nil {
		// After it has shown its certificates, the server may still refuse the client's.
		err = tls.Client(c, config).HandshakeContext(ctx)
		_ = c.Close()
	}
	if s == nil {
		remedy := "it may not use TLS there: give its TLS port with --brokers"
		if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
			remedy = "is the name right?"
		}
		return nil, WithCode(ExitUnreachable, fmt.Errorf("no certificate from %s: %w; %s", at, err, remedy))
	}
	if err := verify(s.Chain, config); err != nil && !accept {
		s.Refusal = strings.TrimPrefix(err.Error(), "x509: ") + "; " + tlsRemedy(certs.Explain(err), a.ownCertificate())
	}
	return s, nil
}

// verify checks a server's certificates as a client does in the handshake.
func verify(chain []*x509.Certificate, config *tls.Config) error {
	o := x509.VerifyOptions{Roots: config.RootCAs, DNSName: config.ServerName, Intermediates: x509.NewCertPool()}
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(o)
	return err
}
