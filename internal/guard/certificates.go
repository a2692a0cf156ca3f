package guard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/security/files"
	"github.com/chronik-io/chronik/internal/view"
)

// reloadEvery is how often the files of certificates are checked. A change is taken after at most
// twice this time, see certs.Store.Reload. Notifications of the kernel would miss switched symbolic
// links, with which Kubernetes and certbot replace files.
const reloadEvery = 400 * time.Millisecond

// minToken is the minimum length of the admin port's token in bytes.
const minToken = 32

// adminListener is the name of the admin port in findings and metrics, which no listener can have.
const adminListener = "admin port"

// Certificates holds the certificates of a broker: those of its TLS listeners by name, and those of
// the admin port.
type Certificates struct {
	listeners map[string]*certs.Store
	rules     map[string]*certs.Rules // of client certificates, by listener
	admin     *certs.Store            // nil without TLS
	all       []*certs.Store
	// brokers are cluster.principals; empty: the one of this broker's own certificate. SIGHUP
	// replaces it.
	brokers atomic.Pointer[[]string]

	mu   sync.Mutex
	ends []func() // see OnChange
}

// OpenCertificates loads the files of a configuration. Errors name the listener, the file and the
// remedy.
func OpenCertificates(cfg *config.Config, log *zap.Logger) (*Certificates, error) {
	c := &Certificates{listeners: make(map[string]*certs.Store), rules: make(map[string]*certs.Rules)}
	c.brokers.Store(&cfg.Security.ClusterPrincipals)
	open := func(name string, t *config.TLS, auth tls.ClientAuthType, names []string) (*certs.Store, error) {
		s, err := certs.Open(name, certs.Config{
			Certificate: t.Certificate, Key: t.Key, ClientCA: t.ClientCA, ClientAuth: auth,
			MinVersion: t.MinVersion, CipherSuites: t.CipherSuites, Names: names,
		}, time.Now, log)
		if err != nil {
			return nil, exit.With(exit.Usage, fmt.Errorf("certificates of %s: %w", name, err))
		}
		c.all = append(c.all, s)
		return s, nil
	}
	var errs []error
	for _, l := range cfg.Listeners {
		if l.TLS == nil {
			continue
		}
		s, err := open(l.Name, l.TLS, clientAuth(l.ClientCertificates), advertisedNames(&l))
		errs = append(errs, err)
		c.listeners[l.Name] = s
		if c.rules[l.Name], err = certs.ParseRules(l.TLS.PrincipalRules); err != nil {
			errs = append(errs, exit.With(exit.Usage, fmt.Errorf("%s of listener %s: %w", config.KeyTLSRules, l.Name, err)))
		}
	}
	if t := cfg.AdminSecurity.TLS; t != nil && cfg.AdminListen != "" {
		auth := tls.NoClientCert
		if t.ClientCA != "" {
			auth = tls.VerifyClientCertIfGiven // a token is also enough
		}
		s, err := open(adminListener, t, auth, nil)
		errs = append(errs, err)
		c.admin = s
	}
	return c, errors.Join(errs...)
}

func clientAuth(c config.ClientCertificates) tls.ClientAuthType {
	switch c {
	case config.CertificatesRequest:
		return tls.VerifyClientCertIfGiven
	case config.CertificatesRequire:
		return tls.RequireAndVerifyClientCert
	}
	return tls.NoClientCert
}

// advertisedNames returns the host that clients of a listener dial; none if it is not configured.
func advertisedNames(l *config.Listener) []string {
	if l.Advertise == "" {
		return nil
	}
	host, _ := config.HostPort(l.Advertise)
	return []string{host}
}

// Listener returns the certificate of a listener; nil for plain text.
func (c *Certificates) Listener(name string) *certs.Store { return c.listeners[name] }

// Any reports whether there are certificates.
func (c *Certificates) Any() bool { return len(c.all) > 0 }

// OnChange has end called after a change of the files, or of the brokers that are admitted: it ends
// connections that could not begin now.
func (c *Certificates) OnChange(end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, end)
}

func (c *Certificates) changed() {
	c.mu.Lock()
	ends := slices.Clone(c.ends)
	c.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// Run takes changed files until ctx ends: every reloadEvery, and at once for each value of now.
// For these it also calls reread, which reports whether other brokers are admitted than before.
func (c *Certificates) Run(ctx context.Context, now <-chan struct{}, reread func() bool) {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-now:
			asked = true
		case <-tick.C:
		}
		changed := false
		for _, s := range c.all {
			changed = s.Reload(asked) || changed
		}
		if asked {
			changed = reread() || changed
		}
		if changed {
			c.changed()
		}
	}
}

// TLSOf returns the network's options of a listener; nil for plain text.
func (c *Certificates) TLSOf(name string) *network.TLSOptions {
	s := c.listeners[name]
	if s == nil {
		return nil
	}
	return &network.TLSOptions{Config: s.Config, Principal: c.rules[name].Principal, Trusts: s.Trusts}
}

// AdminTLS returns the configuration of the admin port; nil for plain text.
func (c *Certificates) AdminTLS() func() *tls.Config {
	if c.admin == nil {
		return nil
	}
	return c.admin.Config
}

// AdminTrusts returns what decides whether an authority of the admin port has signed a certificate;
// nil if it asks for none.
func (c *Certificates) AdminTrusts() func([]*x509.Certificate) bool {
	if c.admin == nil || c.admin.Config().ClientCAs == nil {
		return nil
	}
	return c.admin.Trusts
}

// Facts is the health source of certificates.
func (c *Certificates) Facts(f *checks.Facts) {
	f.Certificates = c.View()
	for _, s := range c.all {
		st := s.Status()
		f.CertificateFiles = append(f.CertificateFiles, checks.CertificateFile{Listener: st.Listener, File: st.File, Problem: st.Problem,
			Warnings: st.Warnings, Stranger: st.Stranger})
	}
}

// Untimely returns an error for each certificate that clients refuse now because of its dates. A
// broker starts with it, and reports it.
func (c *Certificates) Untimely() error {
	var errs []error
	for _, s := range c.all {
		if err := s.Untimely(); err != nil {
			errs = append(errs, exit.With(exit.Usage, err))
		}
	}
	return errors.Join(errs...)
}

// View returns when the certificates expire, in no order.
func (c *Certificates) View() (all []view.Certificate) {
	for _, s := range c.all {
		st := s.Status()
		for kind, at := range st.Expires {
			x := view.Certificate{Listener: st.Listener, Kind: kind, File: st.File, Expires: at}
			if kind == certs.KindServer {
				x.Begins = st.Begins
			}
			all = append(all, x)
		}
	}
	return all
}

// AdminToken returns the hash of the admin port's token; nil without one.
func AdminToken(cfg *config.Config) (*[sha256.Size]byte, error) {
	name := cfg.AdminSecurity.TokenFile
	if name == "" {
		return nil, nil
	}
	text, _, err := files.ReadSecret(name)
	if text = bytes.TrimSpace(text); err == nil && len(text) < minToken {
		err = fmt.Errorf("it has %d characters, at least %d are needed; write random ones to it: openssl rand -hex 32", len(text), minToken)
	}
	if err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("%s %s: %w", config.KeyAdminTokenFile, name, err))
	}
	sum := sha256.Sum256(text)
	return &sum, nil
}

// Reread takes what read, the configuration of now, says about the principals of other brokers, and
// reports whether that has changed. The other settings need a restart, so it logs which of them
// differ from cfg, with which the broker runs. A configuration that could not start a broker
// changes nothing.
func (c *Certificates) Reread(cfg *config.Config, read func() (*config.Config, error), log *zap.Logger) bool {
	next, err := read()
	if err != nil {
		log.Error("the configuration was not read again, and a restart would fail; correct it and send SIGHUP: cluster.principals stay as "+
			"they are until then", zap.Strings("errors", strings.Split(err.Error(), "\n")))
		return false
	}
	others := slices.DeleteFunc(cfg.Changed(next), func(name string) bool { return name == config.KeyClusterPrincipal })
	if len(others) > 0 {
		log.Warn("changed settings are effective after a restart", zap.Strings("settings", others))
	}
	principals := next.Security.ClusterPrincipals
	before := c.brokers.Swap(&principals)
	if slices.Equal(*before, principals) {
		return false
	}
	log.Info("certificates of other brokers are checked against the changed cluster.principals",
		zap.Strings("before", *before), zap.Strings("now", principals))
	return true
}
