package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// What secure init makes starts, every client that trusts ca.pem can check the broker, and a
// renewed certificate is served after SIGHUP, without a restart and without an end of connections.
func TestASecuredBrokerServesAndRenews(t *testing.T) {
	at, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "secured")
	secure := func(args ...string) {
		t.Helper()
		name := os.Getenv("CHRONIKD")
		if name == "" {
			name = "chronikd"
		}
		if out, err := exec.Command(name, append([]string{"secure", "init", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	secure("--no-context", "--advertise", "localhost:"+port)
	p, err := start(t.TempDir(), nil, "--config", filepath.Join(dir, "chronikd.yaml"), "--admin-listen", "off")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.end(syscall.SIGKILL) }()
	authority, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	dial := func() *tls.Conn {
		t.Helper()
		c, err := tls.Dial("tcp", "localhost:"+port, &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatalf("%v\n%s", err, p.logged())
		}
		return c
	}
	serial := func(c *tls.Conn) string { return c.ConnectionState().PeerCertificates[0].SerialNumber.String() }
	first := dial()
	defer first.Close()
	before := serial(first)
	secure("--renew")
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for after := before; after == before; { // the signal is handled when it is
		c := dial()
		after = serial(c)
		_ = c.Close()
		if t.Context().Err() != nil {
			t.Fatal("the renewed certificate is not served")
		}
	}
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, p.logged())
	}
}
