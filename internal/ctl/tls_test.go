package ctl_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/chronik-io/chronik/pkg/chronik"
)

// tlsProxy is the script command tlsproxy NAME. It starts a TLS listener in front of a broker, sets
// NAME to its address and writes ca.pem, with a certificate for "broker.test" only.
func tlsProxy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: tlsproxy NAME")
	}
	pair, authority, err := certificate("broker.test")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), authority, 0o600))
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	ts.Check(err)
	b, err := chronik.Start(context.Background(), chronik.Options{Settings: map[string]string{"advertise": l.Addr().String()}})
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

// certificate returns a self-signed certificate, also as PEM.
func certificate(name string) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	text := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &text, &text, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		nil
}
