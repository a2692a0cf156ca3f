package ctl_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// tlsProxy is the script command tlsproxy NAME. It starts a TLS listener in front of a broker, sets
// NAME to its address and writes ca.pem, with a certificate for "broker.test" only.
func tlsProxy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: tlsproxy NAME")
	}
	authority, err := certs.NewAuthority("test CA", []string{"broker.test"}, time.Now())
	ts.Check(err)
	leaf, err := authority.Leaf("broker.test", []string{"broker.test"}, time.Now())
	ts.Check(err)
	pair, err := tls.X509KeyPair(leaf.Certificate, leaf.Key)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), authority.CertificatePEM, 0o600))
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	ts.Check(err)
	b, err := chronik.OpenMemory(context.Background(), chronik.Options{Settings: map[string]string{"advertise": l.Addr().String()}})
	ts.Check(err)
	ts.Defer(func() { ts.Check(b.Close()) })
	ts.Defer(func() { ts.Check(l.Close()) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the script is over
			}
			go pipe(c, b.Addr())
		}
	}()
	ts.Setenv(args[0], l.Addr().String())
}

// pipe forwards bytes in both directions until either side is closed.
func pipe(c net.Conn, to string) {
	defer c.Close()
	d, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer d.Close()
	go func() {
		_, _ = io.Copy(d, c) // the other direction ends with it
		_ = d.Close()
	}()
	_, _ = io.Copy(c, d)
}
