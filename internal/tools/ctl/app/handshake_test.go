package app

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// serveTLS accepts connections until the test ends, and answers nothing after the handshake.
func serveTLS(t *testing.T, config *tls.Config) string {
	t.Helper()
	return serve(t, func(nc net.Conn) {
		s := tls.Server(nc, config)
		if s.Handshake() == nil {
			_, _ = s.Read(make([]byte, 1))
		}
	})
}

// serve calls handle for each connection until the test ends, and then closes the connection.
func serve(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			handle(nc)
			_ = nc.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return l.Addr().String()
}

// Each failure of TLS or of a login has its own remedy, which changes what is wrong.
func TestRemediesOfHandshakes(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	ca, err := certs.NewAuthority("test CA", []string{"127.0.0.1"}, now)
	must.OK(t, err)
	foreign, err := certs.NewAuthority("another CA", []string{"127.0.0.1"}, now)
	must.OK(t, err)
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, text, 0o600))
		return path
	}
	leaf := func(name string, of *certs.Authority) (flags []string, c tls.Certificate) {
		p, err := of.Leaf("127.0.0.1", []string{"127.0.0.1"}, now)
		must.OK(t, err)
		c, err = tls.X509KeyPair(p.Certificate, p.Key)
		must.OK(t, err)
		return []string{"--tls-cert", file(name+".pem", p.Certificate), "--tls-key", file(name+".key", p.Key)}, c
	}
	own, server := leaf("own", ca)
	other, _ := leaf("other", foreign)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.CertificatePEM)
	open := &tls.Config{Certificates: []tls.Certificate{server}, MinVersion: tls.VersionTLS12}
	closed := &tls.Config{Certificates: []tls.Certificate{server}, MinVersion: tls.VersionTLS12, ClientCAs: roots,
		ClientAuth: tls.RequireAndVerifyClientCert}
	late := closed.Clone()
	late.Time = func() time.Time { return now.AddDate(5, 0, 0) }
	trust := []string{"--tls-ca", file("ca.pem", ca.CertificatePEM)}
	sasl := []string{"--sasl", "SCRAM-SHA-512", "--sasl-user", "alice", "--sasl-password", "x"}
	hangsUp := func(nc net.Conn) { _, _ = nc.Read(make([]byte, 1<<12)) }
	for _, c := range []struct {
		name  string
		at    string
		flags [][]string
		want  string
	}{
		{"sasl, without TLS", serveTLS(t, open), [][]string{sasl}, "; it uses TLS there: add --tls-ca"},
		{"without TLS", serveTLS(t, closed), nil, "; it uses TLS there: add --tls-ca"},
		{"an alert", serve(t, func(nc net.Conn) {
			_, _ = io.ReadFull(nc, make([]byte, 4))
			_, _ = nc.Write([]byte{0x15, 3, 3, 0, 2, 2, 10})
		}), [][]string{sasl}, "it answered with an alert of TLS; it uses TLS there: add --tls-ca"},
		{"sasl, and no TLS there", serve(t, hangsUp), [][]string{sasl},
			"; it closed the connection: a limit of connections may be reached"},
		{"a foreign authority", serveTLS(t, open), [][]string{{"--tls"}}, "; give the certificate of the authority that signed"},
		{"no certificate", serveTLS(t, closed), [][]string{trust}, "; it requires a certificate of clients: give one that"},
		{"a foreign certificate", serveTLS(t, closed), [][]string{trust, other}, "; the certificate of --tls-cert is of no authority that"},
		{"an expired certificate", serveTLS(t, late), [][]string{trust, own}, "; the certificate of --tls-cert has expired"},
		{"plain text", serve(t, func(nc net.Conn) { _, _ = io.WriteString(nc, "HTTP/1.1 400 Bad\r\n") }), [][]string{trust},
			"; it does not use TLS there: remove the tls settings"},
		{"it hangs up", serve(t, hangsUp), [][]string{trust}, "; it closed the connection: it may not use TLS there"},
	} {
		flags := []string{"--brokers", c.at, "--timeout", "20s"}
		for _, more := range c.flags {
			flags = append(flags, more...)
		}
		_, err := app(t, flags...).Connect(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || ExitCode(err) != ExitUnreachable {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
