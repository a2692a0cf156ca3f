package contexts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Options returns the client options for brokers and SASL; the dialer needs TLSConfig, too. An
// error names a file that cannot be used.
func (s Settings) Options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(s.Seeds()...)}
	mechanism, err := s.mechanism()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

// Encrypted reports whether connections use TLS.
func (s Settings) Encrypted() bool {
	return s.Bool(TLS) || s.Bool(TLSInsecure) || s.Get(TLSCA)+s.Get(TLSCert)+s.Get(TLSServerName) != ""
}

// TLSConfig returns the TLS configuration, or nil without TLS.
func (s Settings) TLSConfig() (*tls.Config, error) {
	if !s.Encrypted() {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.Get(TLSServerName), InsecureSkipVerify: s.Bool(TLSInsecure)}
	if path := s.Get(TLSCA); path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w; give a PEM file of certificates", s.Source(TLSCA), path, bare(err))
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s contains no certificate; give a PEM file of certificates", s.Source(TLSCA), path)
		}
	}
	if s.Get(TLSCert) != "" {
		pair, err := tls.LoadX509KeyPair(s.Get(TLSCert), s.Get(TLSKey))
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %s with key %s: %w; give two PEM files that belong together", s.Source(TLSCert),
				s.Get(TLSCert), s.Get(TLSKey), bare(err))
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// mechanism returns the SASL mechanism, or nil.
func (s Settings) mechanism() (sasl.Mechanism, error) {
	if s.Get(SASL) == "" {
		return nil, nil
	}
	password, err := s.Password()
	if err != nil {
		return nil, err
	}
	user := s.Get(SASLUser)
	switch s.Get(SASL) {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	}
	return oauth.Oauth(func(context.Context) (oauth.Auth, error) { return oauth.Auth{Token: password}, nil }), nil
}

// Password returns the SASL password or token from its setting or its file, or "".
func (s Settings) Password() (string, error) {
	path := s.Get(SASLPasswordFile)
	if path == "" || s.Get(SASLPassword) != "" {
		return s.Get(SASLPassword), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w; give a file whose first line is the password", s.Source(SASLPasswordFile), path, bare(err))
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSuffix(line, "\r"), nil
}
