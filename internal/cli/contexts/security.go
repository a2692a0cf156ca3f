package contexts

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/security/files"
	"github.com/chronik-io/chronik/internal/security/secret"
)

// Encrypted reports whether connections use TLS.
func (s Settings) Encrypted() bool {
	return s.Bool(TLS) || s.Bool(TLSInsecure) || s.Get(TLSCA)+s.Get(TLSCert)+s.Get(TLSServerName) != ""
}

// TLSConfig returns the TLS configuration, or nil without TLS.
func (s Settings) TLSConfig() (*tls.Config, error) {
	if !s.Encrypted() {
		return nil, nil
	}
	c := certs.Base()
	c.ServerName, c.InsecureSkipVerify = s.Get(TLSServerName), s.Bool(TLSInsecure)
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

// Password returns the SASL password or token from its setting or its file, or an empty one.
func (s Settings) Password() (secret.Secret, error) {
	if s.Get(SASLPasswordFile) == "" || s.Get(SASLPassword) != "" {
		return secret.Of(s.Get(SASLPassword)), nil
	}
	return s.firstLine(SASLPasswordFile, "password")
}

// Exposed returns an error with a remedy for each file that holds a secret of these settings and
// that others than its owner may be able to read. chronikd refuses such files; here they are only
// worth a warning, because people may share a machine with those whom they trust.
func (s Settings) Exposed() (all []error) {
	secrets := []struct{ what, path string }{{"contexts file ", s.file}}
	for _, name := range []string{SASLPasswordFile, AdminTokenFile, TLSKey} {
		secrets = append(secrets, struct{ what, path string }{s.Source(name) + ": ", s.Get(name)})
	}
	for _, x := range secrets {
		if err := files.Exposed(x.path); err != nil {
			all = append(all, fmt.Errorf("%s%s: %w", x.what, x.path, err))
		}
	}
	return all
}

// firstLine returns the first line of the file that a setting names.
func (s Settings) firstLine(setting, what string) (secret.Secret, error) {
	path := s.Get(setting)
	text, err := os.ReadFile(path)
	if err != nil {
		return secret.Secret{}, fmt.Errorf("%s: %s: %w; give a file whose first line is the %s", s.Source(setting), path, bare(err), what)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return secret.Of(strings.TrimSuffix(line, "\r")), nil
}

// AdminToken returns the token of the admin port from its file, or an empty one.
func (s Settings) AdminToken() (secret.Secret, error) {
	path := s.Get(AdminTokenFile)
	if path == "" {
		return secret.Secret{}, nil
	}
	return s.firstLine(AdminTokenFile, "token")
}
