package guard

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/security/files"
	"github.com/chronik-io/chronik/internal/security/secret"
)

// Peers dials other brokers and admits them. With TLS, both ends show a certificate that an
// authority in tls.client-ca has signed and whose principal is one of cluster.principals, or
// without these that of this broker's own certificate. A link then proves node, cluster and secret
// for this connection.
type Peers struct {
	connect    func(ctx context.Context, network, address string) (net.Conn, error)
	store      *certs.Store // of the listener for brokers; nil for plain text
	rules      *certs.Rules
	principals *atomic.Pointer[[]string] // see Certificates.brokers
	// Secrets are those of the cluster, the one in use first.
	Secrets []secret.Secret
}

// NewPeers returns how this broker connects with others through a listener. secrets is
// cluster.secret.file. An error explains why no other broker would accept its certificate or
// secret, whatever the date, and the remedy.
func NewPeers(listener, secrets string, c *Certificates,
	connect func(ctx context.Context, network, address string) (net.Conn, error)) (*Peers, error) {
	read, err := ReadSecrets(secrets)
	if err != nil {
		return nil, err
	}
	p := &Peers{Secrets: read, connect: connect, store: c.listeners[listener], rules: c.rules[listener], principals: &c.brokers}
	if p.store == nil {
		return p, nil
	}
	conf, state := p.store.Config(), p.store.Status()
	between := x509.NewCertPool()
	for _, der := range conf.Certificates[0].Certificate[1:] {
		if a, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(a)
		}
	}
	_, err = p.store.Certificate().Verify(x509.VerifyOptions{Roots: conf.ClientCAs, Intermediates: between,
		CurrentTime: state.Timely(time.Now()),
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err == nil {
		_, err = p.rules.Principal(p.store.Certificate())
	}
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("other brokers would not accept the certificate of listener %s: %w; it needs a subject, "+
			"the extended key usages serverAuth and clientAuth, and an authority in %s", listener, err, config.KeyTLSClientCA))
	}
	return p, nil
}

// Dial is link.Options.Dial. An error of certificates is a *link.Mismatch.
func (p *Peers) Dial(ctx context.Context, address string) (net.Conn, error) {
	nc, err := p.connect(ctx, "tcp", address)
	if err != nil || p.store == nil {
		return nc, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	own, conf := p.store.Config(), certs.Base()
	conf.ServerName, conf.RootCAs, conf.Certificates, conf.MinVersion = host, own.ClientCAs, own.Certificates, tls.VersionTLS13
	t := tls.Client(nc, conf)
	err = t.HandshakeContext(ctx)
	if m := link.TLSMismatch(err); m != nil {
		m.Cause = address + ": " + m.Cause
		err = m
	}
	if err == nil {
		err = p.Admit(t, "")
	}
	if err != nil {
		_ = nc.Close() // the first error is the one that counts
		return nil, err
	}
	return t, nil
}

// Admit is link.Options.Admit: only a broker's certificate begins a link. The secret alone does not
// with TLS, and neither does any other certificate of the same authority.
func (p *Peers) Admit(nc net.Conn, _ string) error {
	if p.store == nil {
		return nil
	}
	c, ok := nc.(interface{ ConnectionState() tls.ConnectionState })
	if !ok || len(c.ConnectionState().VerifiedChains) == 0 {
		return &link.Mismatch{Reason: link.NotAdmitted, Cause: "the other end shows no certificate",
			Remedy: "set security: tls and client-certificates: require for the listener of brokers on all of them"}
	}
	return p.isBroker(c.ConnectionState().PeerCertificates[0])
}

// isBroker returns why a verified certificate is not one of a broker.
func (p *Peers) isBroker(shown *x509.Certificate) error {
	name, err := p.rules.Principal(shown)
	if err != nil {
		return err
	}
	allowed := *p.principals.Load()
	if len(allowed) == 0 {
		own, err := p.rules.Principal(p.store.Certificate())
		if err != nil {
			return err
		}
		allowed = []string{own}
	}
	if !slices.Contains(allowed, name) {
		return &link.Mismatch{Reason: link.NotAdmitted, Cause: "the certificate of " + name + " is not one of a broker",
			Remedy: "give all brokers certificates with the same subject, or list theirs in " + config.KeyClusterPrincipal}
	}
	return nil
}

// Trusts is link.Options.Trusts: a link lasts as long as it could begin.
func (p *Peers) Trusts(shown []*x509.Certificate) error {
	switch {
	case p.store == nil:
		return nil
	case !p.store.Trusts(shown):
		return errors.New("its authority was removed from " + config.KeyTLSClientCA)
	}
	return p.isBroker(shown[0])
}

// maxSecrets is how many secrets cluster.secret.file may hold: the one in use, and the one that
// replaces it or that it has replaced.
const maxSecrets = 2

// ReadSecrets returns the lines of cluster.secret.file without white space around them. Brokers
// prove that they know the first, and accept each.
func ReadSecrets(name string) ([]secret.Secret, error) {
	if name == "" {
		return nil, nil
	}
	const fresh = "write 32 random characters to it, the same on all brokers"
	text, _, err := files.ReadSecret(name)
	var all []secret.Secret
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			all = append(all, secret.New(line))
		}
		if err == nil && len(line) > 0 && len(line) < link.MinSecret {
			err = fmt.Errorf("a line has %d characters, at least %d are needed; %s", len(line), link.MinSecret, fresh)
		}
	}
	switch {
	case err != nil:
	case len(all) == 0:
		err = fmt.Errorf("it is empty, at least %d characters are needed; %s", link.MinSecret, fresh)
	case len(all) > maxSecrets:
		err = fmt.Errorf("it has %d lines, at most %d secrets are accepted at a time; remove those that no broker uses any longer",
			len(all), maxSecrets)
	}
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("cluster.secret.file %s: %w", name, err))
	}
	return all, nil
}
