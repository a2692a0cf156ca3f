package link

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// overTLS returns the two ends of a connection of TLS.
func overTLS(t *testing.T) (client, server *tls.Conn) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"broker"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	must.OK(t, err)
	leaf, err := x509.ParseCertificate(der)
	must.OK(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	here, there := net.Pipe()
	client = tls.Client(here, &tls.Config{RootCAs: roots, ServerName: "broker", MinVersion: tls.VersionTLS13})
	server = tls.Server(there, &tls.Config{MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, SessionTicketsDisabled: true})
	done := make(chan error)
	go func() { done <- server.Handshake() }()
	must.OK(t, client.Handshake())
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
	p, sealed := dials(shared, dialer, acceptor, bindings[0]), seal(shared, dialer, acceptor, bindings[0])
	if m := prove(shared, dialer, acceptor, bindings[1], p); m != nil {
		t.Error(m)
	}
	for _, other := range [][]byte{bindings[2], nil} {
		if prove(shared, dialer, acceptor, other, p) == nil {
			t.Error("a proof fits another connection")
		}
		if _, err := unseal(shared, dialer, other, sealed); err == nil {
			t.Error("a hello can be read on another connection")
		}
	}
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	if b, err := binding(here); b != nil || err != nil {
		t.Errorf("without TLS: %x, %v", b, err)
	}
}

// tlsDial connects brokers with TLS, each time with a certificate that is valid for an hour.
func tlsDial(t *testing.T, n *network) func(context.Context, string) (net.Conn, error) {
	return func(_ context.Context, address string) (net.Conn, error) {
		client, server := overTLS(t)
		n.mu.Lock()
		b := n.brokers[address]
		n.mu.Unlock()
		go accept(server, b.Links)
		return client, nil
	}
}

// Frames of all sizes arrive whole, and a link ends with the certificate that it began with: then
// the ends show newer ones.
func TestALinkOverTLS(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		with := func(o *Options) { o.Secrets, o.Dial = shared, tlsDial(t, n) }
		a, b := n.add(t, 1, with), n.add(t, 2, with)
		p := a.Peer(target(2))
		synctest.Wait()
		for _, size := range []int{0, 1, tlsRecord - 100, tlsRecord, 3*tlsRecord + 1, 3 << 20} {
			body := bytes.Repeat([]byte{byte(size), 2, 3}, size/3+1)[:size]
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			got, err := p.Call(ctx, 1, body)
			cancel()
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d bytes came back of %d, %v", len(got), size, err)
			}
		}
		time.Sleep(59 * time.Minute)
		if broken := a.of(Broken); len(broken) > 0 {
			t.Errorf("it has ended early: %v", broken[0].Err)
		}
		time.Sleep(2 * time.Minute)
		if broken := a.of(Broken); len(broken) != 1 || !errors.Is(broken[0].Err, errCertificate) || len(a.of(Connected)) != 2 {
			t.Errorf("ended %v, connected %d times", broken, len(a.of(Connected)))
		}
		p.Close()
		a.end(t)
		b.end(t)
	})
}

// A link ends when the certificate that it began with is not accepted any more, and so does one
// that begins afterwards with such a certificate. Others stay.
func TestALinkEndsWithTheTrustInItsCertificate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		var refused atomic.Pointer[x509.Certificate]
		why := errors.New("its authority was removed")
		trusts := func(shown []*x509.Certificate) error {
			if r := refused.Load(); r != nil && r.Equal(shown[0]) {
				return why
			}
			return nil
		}
		with := func(o *Options) { o.Secrets, o.Dial, o.Trusts = shared, tlsDial(t, n), trusts }
		a, b := n.add(t, 1, with), n.add(t, 2, with)
		p := a.Peer(target(2))
		synctest.Wait()
		a.EndUntrusted()
		synctest.Wait()
		if broken := a.of(Broken); len(broken) > 0 {
			t.Fatalf("a link with a trusted certificate has ended: %v", broken[0].Err)
		}
		state, _ := tlsState(p.session().nc)
		refused.Store(state.PeerCertificates[0])
		b.EndUntrusted() // the dialer has shown none
		a.EndUntrusted()
		time.Sleep(time.Second)
		if broken := a.of(Broken); len(broken) != 1 || !errors.Is(broken[0].Err, errUntrusted) || !errors.Is(broken[0].Err, why) ||
			len(a.of(Connected)) != 2 {
			t.Errorf("ended %v, connected %d times", broken, len(a.of(Connected)))
		}
		if s := p.session(); s == nil || s.Err() != nil {
			t.Error("no new link was begun with another certificate")
		}
		p.Close()
		a.end(t)
		b.end(t)
	})
}

// What was verified while its authority was removed ends at once.
func TestALinkOfARemovedAuthorityDoesNotBegin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNetwork()
		with := func(o *Options) {
			o.Secrets, o.Dial, o.Trusts = shared, tlsDial(t, n), func([]*x509.Certificate) error { return io.EOF }
		}
		a, b := n.add(t, 1, with), n.add(t, 2, with)
		p := a.Peer(target(2))
		time.Sleep(time.Second)
		broken := a.of(Broken)
		if len(broken) == 0 || !errors.Is(broken[0].Err, errUntrusted) || len(broken) != len(a.of(Connected)) {
			t.Errorf("ended %d of %d links", len(broken), len(a.of(Connected)))
		}
		p.Close()
		a.end(t)
		b.end(t)
	})
}

// The end of a process ends a connection of TLS without its alert, and maybe within a record. It
// counts as the end of any other connection.
func TestAnEndWithinARecordIsAnEnd(t *testing.T) {
	for _, last := range [][]byte{nil, {0x17}, {0x17, 3, 3, 0, 100, 1, 2, 3}} {
		client, server := overTLS(t)
		c := newConn(client, true, &Options{Silence: time.Minute})
		done := make(chan error)
		go func() {
			_, err := c.Next()
			done <- err
		}()
		_, err := server.NetConn().Write(last)
		must.OK(t, errors.Join(err, server.NetConn().Close()))
		if err := <-done; !errors.Is(err, io.EOF) {
			t.Errorf("after %x: %v", last, err)
		}
	}
}
