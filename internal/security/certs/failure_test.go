package certs

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// ends has the configurations of the ends of a handshake.
type ends struct{ client, server tls.Config }

// socketPair returns the ends of a TCP connection, which close with the test.
func socketPair(t *testing.T) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	here, err = net.Dial("tcp", l.Addr().String())
	must.OK(t, err)
	there, err = l.Accept()
	must.OK(t, err)
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	return here, there
}

// failed returns the error of a client whose handshake with a server fails, or its first read.
func failed(t *testing.T, e *ends) error {
	t.Helper()
	here, there := socketPair(t) // in a pipe, ends that both send an alert would wait for each other
	done := make(chan struct{})
	go func() {
		defer close(done)
		s := tls.Server(there, &e.server)
		_ = s.Handshake() // the client's error is the one that counts
	}()
	c := tls.Client(here, &e.client)
	err := c.Handshake()
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	<-done // it reads no further, so its alert is not lost to a reset
	return err
}

// What a failure says about the two ends is known from the error of one of them, for both versions.
func TestFailures(t *testing.T) {
	a := authority(t)
	foreign, err := NewAuthority("another CA", []string{"localhost"}, now)
	must.OK(t, err)
	pair := func(of *Authority, at time.Time) []tls.Certificate {
		p, err := of.Leaf("localhost", []string{"localhost"}, at)
		must.OK(t, err)
		c, err := tls.X509KeyPair(p.Certificate, p.Key)
		must.OK(t, err)
		return []tls.Certificate{c}
	}
	pool := func(of *Authority) *x509.CertPool {
		p := x509.NewCertPool()
		p.AppendCertsFromPEM(of.CertificatePEM)
		return p
	}
	later := func() time.Time { return now.AddDate(5, 0, 0) }
	// always shows a certificate, also one that the server's list of authorities leaves out.
	always := func(e *ends, shown []tls.Certificate) {
		e.client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown[0], nil }
	}
	for name, c := range map[string]struct {
		change func(*ends)
		want   Failure // with TLS 1.3
		old    Failure // with TLS 1.2, if it is another
	}{
		"their authority":               {func(e *ends) { e.client.RootCAs = pool(foreign) }, TheirAuthority, 0},
		"their name":                    {func(e *ends) { e.client.ServerName = "127.0.0.1" }, TheirName, 0},
		"their date":                    {func(e *ends) { e.client.Time = later }, TheirDate, 0},
		"none is shown":                 {func(e *ends) { e.client.Certificates = nil }, OursMissing, Disagreed},
		"another's, which is not shown": {func(e *ends) { e.client.Certificates = pair(foreign, now) }, OursMissing, Disagreed},
		"another's":                     {func(e *ends) { always(e, pair(foreign, now)) }, OursAuthority, 0},
		"an expired one":                {func(e *ends) { e.server.Time = later }, OursExpired, 0},
		"another version": {func(e *ends) {
			e.server.MinVersion, e.client.MaxVersion = tls.VersionTLS13, tls.VersionTLS12
		}, OtherVersion, 0},
		"no common protocol": {func(e *ends) {
			e.client.NextProtos, e.server.NextProtos = []string{"a"}, []string{"b"}
		}, OtherAlert, 0},
	} {
		for version, want := range map[uint16]Failure{tls.VersionTLS13: c.want, tls.VersionTLS12: cmp.Or(c.old, c.want)} {
			e := ends{
				client: tls.Config{RootCAs: pool(a), ServerName: "localhost", Certificates: pair(a, now),
					MinVersion: tls.VersionTLS12, MaxVersion: version},
				server: tls.Config{Certificates: pair(a, now), ClientCAs: pool(a), ClientAuth: tls.RequireAndVerifyClientCert,
					MinVersion: tls.VersionTLS12},
			}
			c.change(&e)
			if err := failed(t, &e); Explain(err) != want {
				t.Errorf("%s, %s: %d, want %d: %v", name, tls.VersionName(version), Explain(err), want, err)
			}
		}
	}
}

// A listener without TLS: bytes of another protocol, the alert of a broker of chronik, the end.
func TestFailuresWithoutTLS(t *testing.T) {
	for answer, want := range map[string]Failure{
		"HTTP/1.1 400 Bad Request\r\n": PlainText,
		"\x15\x03\x01\x00\x02\x02\x28": Disagreed,
		"":                             NoFailure,
	} {
		here, there := socketPair(t)
		go func() {
			_, _ = there.Read(make([]byte, 1<<12))
			_, _ = io.WriteString(there, answer)
			_ = there.Close()
		}()
		err := tls.Client(here, &tls.Config{ServerName: "localhost", MinVersion: tls.VersionTLS12}).Handshake()
		_ = here.Close()
		if err == nil || Explain(err) != want {
			t.Errorf("%q: %d, want %d: %v", answer, Explain(err), want, err)
		}
	}
	if Explain(nil) != NoFailure {
		t.Error("no error is a failure")
	}
}
