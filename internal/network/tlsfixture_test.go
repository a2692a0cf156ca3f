package network

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"
)

// authority signs certificates of tests.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{}
	leaf := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotAfter: today.Add(24 * time.Hour)})
	a.key, a.cert = leaf.PrivateKey.(*ecdsa.PrivateKey), leaf.Leaf
	return a
}

// sign makes a certificate; an authority without a key signs itself.
func (a *authority) sign(t testing.TB, c *x509.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c.SerialNumber, c.NotBefore = big.NewInt(time.Now().UnixNano()), today.Add(-time.Hour)
	parent, signer := a.cert, a.key
	if signer == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	must(t, err)
	leaf, err := x509.ParseCertificate(der)
	must(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) leaf(t testing.TB, name string, ends time.Time) *tls.Certificate {
	t.Helper()
	return a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{"broker"}, NotAfter: ends,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// shared by all tests: keys take time.
var testCA = sync.OnceValue(func() *authority { return newAuthority(new(testing.B), "test CA") })

// secured makes the server listen with TLS, and returns the address.
func (f *fixture) secured(t testing.TB, client tls.ClientAuthType, change func(*Listener)) string {
	t.Helper()
	ln := listen(t)
	f.serveTLS(t, ln, client, change)
	return ln.Addr().String()
}

func (f *fixture) serveTLS(t testing.TB, ln net.Listener, client tls.ClientAuthType, change func(*Listener)) {
	t.Helper()
	ca := testCA()
	cfg := &tls.Config{Certificates: []tls.Certificate{*ca.leaf(t, "server", today.Add(time.Hour))}, ClientAuth: client,
		ClientCAs: ca.pool(), MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true}
	l := &Listener{Name: "secure", TLS: &TLSOptions{
		Config: func() *tls.Config { return cfg },
		Principal: func(c *x509.Certificate) (string, error) {
			if c.Subject.CommonName == "nobody" {
				return "", errors.New("no rule fits")
			}
			return "User:" + c.Subject.CommonName, nil
		},
	}}
	if change != nil {
		change(l)
	}
	must(t, f.Serve(l, ln))
}

// securePipe makes the server listen in memory with TLS. Tests with a clock of their own call
// testCA before that clock begins.
func (f *fixture) securePipe(t testing.TB) *pipeListener {
	t.Helper()
	pipe := newPipeListener()
	f.serveTLS(t, pipe, tls.NoClientCert, nil)
	return pipe
}

// startSecure starts a server that listens in memory with TLS, and whose Observer remembers.
func startSecure(t testing.TB) (f *fixture, pipe *pipeListener, seen *recorder) {
	t.Helper()
	seen = &recorder{}
	f = start(t, echo, func(o *Options) { o.Observer = seen })
	pipe = f.securePipe(t)
	return f, pipe, seen
}

// today is the time for certificates in tests with a clock of their own.
var today = time.Now()

// dialTLS connects; the handshake is done with the first byte. cert may be nil.
func dialTLS(t testing.TB, addr string, cert *tls.Certificate) *client {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	must(t, err)
	return overTLS(nc, cert)
}

func overTLS(nc net.Conn, cert *tls.Certificate) *client {
	cfg := &tls.Config{RootCAs: testCA().pool(), ServerName: "broker", MinVersion: tls.VersionTLS12,
		Time: func() time.Time { return today }}
	if cert != nil {
		cfg.Certificates = []tls.Certificate{*cert}
	}
	return &client{tls.Client(nc, cfg)}
}
