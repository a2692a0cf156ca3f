package link

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/security/secret"
)

// overTLS returns the two ends of a connection of TLS.
func overTLS(t *testing.T) (client, server *tls.Conn) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"broker"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	here, there := net.Pipe()
	client = tls.Client(here, &tls.Config{RootCAs: roots, ServerName: "broker", MinVersion: tls.VersionTLS13})
	server = tls.Server(there, &tls.Config{MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, SessionTicketsDisabled: true})
	done := make(chan error)
	go func() { done <- server.Handshake() }()
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	return client, server
}

// A proof fits the connection of TLS that it was made for, and no other: who relays it between two
// connections gains nothing.
func TestAProofFitsOneConnection(t *testing.T) {
	dialer, acceptor := &Hello{Identity: Identity{Node: 1}}, &Hello{Identity: Identity{Node: 2}}
	bindings := make([][]byte, 0, 4)
	for range 2 {
		client, server := overTLS(t)
		for _, nc := range []net.Conn{client, server} {
			b, err := binding(nc)
			if err != nil || len(b) != 32 {
				t.Fatalf("%d bytes, %v", len(b), err)
			}
			bindings = append(bindings, b)
		}
	}
	if !bytes.Equal(bindings[0], bindings[1]) || bytes.Equal(bindings[0], bindings[2]) {
		t.Errorf("bindings %x", bindings)
	}
	p := proof([]secret.Secret{shared}, labelDials, dialer, acceptor, bindings[0])
	if m := prove([]secret.Secret{shared}, labelDials, dialer, acceptor, bindings[1], p); m != nil {
		t.Error(m)
	}
	for _, other := range [][]byte{bindings[2], nil} {
		if prove([]secret.Secret{shared}, labelDials, dialer, acceptor, other, p) == nil {
			t.Error("a proof fits another connection")
		}
	}
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	if b, err := binding(here); b != nil || err != nil {
		t.Errorf("without TLS: %x, %v", b, err)
	}
}
