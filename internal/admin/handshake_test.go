package admin

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// sealed is a port with TLS.
type sealed struct {
	*Server
	address string
	client  *tls.Config
}

// seal starts a port with TLS that has at most 16 connections.
func seal(t *testing.T, o Options) *sealed {
	t.Helper()
	ca, err := certs.NewAuthority("CA", []string{"127.0.0.1"}, time.Now())
	must.OK(t, err)
	pair, err := ca.Leaf("admin", []string{"127.0.0.1"}, time.Now())
	must.OK(t, err)
	own, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	must.OK(t, err)
	config := certs.Base()
	config.Certificates = []tls.Certificate{own}
	o.TLS = func() *tls.Config { return config }
	s, address, _ := served(t, o)
	s.conns.mu.Lock()
	s.conns.most = 16
	s.conns.mu.Unlock()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.CertificatePEM)
	return &sealed{s, address, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}}
}

// dialFrom connects from an address of this machine.
func (s *sealed) dialFrom(t *testing.T, ip string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	c, err := d.Dial("tcp", s.address)
	must.OK(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// get requests /healthz on a connection.
func get(c net.Conn) error {
	if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return err
	}
	return answered(bufio.NewReader(c))
}

func answered(r *bufio.Reader) error {
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "ok\n" {
		return fmt.Errorf("%q, %w", body, err)
	}
	return nil
}

// Clients that send nothing, half of a handshake, or half of a header do not keep operators out,
// and cost no processor time while they wait.
func TestHandshakesKeepNoOperatorOut(t *testing.T) {
	hello := helloBytes(t, 100)
	for name, begin := range map[string]func(s *sealed, c net.Conn) error{
		"nothing":          func(*sealed, net.Conn) error { return nil },
		"half a handshake": func(_ *sealed, c net.Conn) error { _, err := c.Write(hello); return err },
		"half a header": func(s *sealed, c net.Conn) error {
			_, err := io.WriteString(tls.Client(c, s.client), "GET /healthz HTTP/1.1\r\nHost: loc")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := options()
			o.headerTime, o.Places = time.Hour, share.New().Of(share.Logins) // only their number counts
			s := seal(t, o)
			operator := tls.Client(s.dialFrom(t, "127.0.0.2"), s.client)
			must.OK(t, get(operator))
			var silent []net.Conn
			for range 30 {
				c := s.dialFrom(t, "127.0.0.1")
				_ = begin(s, c) // it may have been closed already
				silent = append(silent, c)
			}
			must.OK(t, silent[0].SetReadDeadline(time.Now().Add(patience)))
			if _, err := io.Copy(io.Discard, silent[0]); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the first one is still open")
			}
			if err := get(operator); err != nil {
				t.Errorf("on a connection that waited before: %v", err)
			}
			if err := get(tls.Client(s.dialFrom(t, "127.0.0.3"), s.client)); err != nil {
				t.Errorf("on a new connection: %v", err)
			}
			s.conns.mu.Lock()
			if n := len(s.conns.open); n > 16 {
				t.Errorf("%d connections are open", n)
			}
			s.conns.mu.Unlock()
			for _, c := range silent {
				_ = c.Close()
			}
			s.Stop(context.Background()) // it waits for their goroutines
			if err := everyPlace(o.Places, func() error { return nil }); err != nil {
				t.Errorf("places: %v", err)
			}
		})
	}
}

// everyPlace calls f while all places are taken.
func everyPlace(p *share.Places, f func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	taken := 0
	defer func() {
		for range taken {
			p.Leave()
		}
	}()
	for ; taken < share.Half(); taken++ {
		if err := p.Take(ctx, nil, netip.Prefix{}); err != nil {
			return err
		}
	}
	return f()
}

// helloBytes returns the first bytes of a handshake.
func helloBytes(t *testing.T, n int) []byte {
	t.Helper()
	here, there := net.Pipe()
	go func() { _ = tls.Client(here, &tls.Config{InsecureSkipVerify: true}).Handshake() }() //nolint:gosec // it gets no answer
	b := make([]byte, n)
	if _, err := io.ReadFull(there, b); err != nil {
		t.Fatal(err)
	}
	_, _ = here.Close(), there.Close()
	return b
}

// A handshake computes at a place: when all are taken, it waits for one.
func TestHandshakesTakePlaces(t *testing.T) {
	o, _ := options()
	o.headerTime, o.Places = time.Hour, share.New().Of(share.Logins)
	s := seal(t, o)
	done := make(chan error, 1)
	err := everyPlace(o.Places, func() error {
		go func() { done <- get(tls.Client(s.dialFrom(t, "127.0.0.1"), s.client)) }()
		eventually(t, "the handshake waits", func() bool { return o.Places.Waiting() == 1 })
		return nil
	})
	must.OK(t, err)
	if err := <-done; err != nil {
		t.Errorf("when a place is free: %v", err)
	}
}

// A handshake has a deadline. Failed ones are logged, at most once a minute.
func TestHandshakesHaveADeadline(t *testing.T) {
	o, _ := options()
	core, lines := observer.New(zap.InfoLevel)
	o.headerTime, o.Log = 50*time.Millisecond, zap.New(core)
	s := seal(t, o)
	for range 3 {
		c := s.dialFrom(t, "127.0.0.1")
		must.OK(t, c.SetReadDeadline(time.Now().Add(patience)))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a silent connection: %v", err)
		}
	}
	s.Stop(context.Background())
	if n := lines.FilterMessage("a TLS handshake failed").Len(); n != 1 {
		t.Errorf("%d lines: %v", n, lines.All())
	}
}

func TestPlainTextIsToldToUseTLS(t *testing.T) {
	o, _ := options()
	c := seal(t, o).dialFrom(t, "127.0.0.1")
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); !strings.Contains(string(text), "https://") {
		t.Errorf("%q, %v", text, err)
	}
}

// One request may have so many records and no more; a connection may have many requests.
func TestRecordsOfARequestAreBounded(t *testing.T) {
	o, _ := options()
	s := seal(t, o)
	c := tls.Client(s.dialFrom(t, "127.0.0.1"), s.client)
	send := func(records int) (err error) {
		text := "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Y: " + strings.Repeat("y", records) + "\r\n\r\n"
		for i := 0; i < len(text) && err == nil; i++ {
			_, err = c.Write([]byte{text[i]})
		}
		return err
	}
	r := bufio.NewReader(c)
	for i := range 3 {
		must.OK(t, send(maxRecords/2))
		if err := answered(r); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	err := send(maxRecords)
	if err == nil {
		err = answered(r)
	}
	if err == nil {
		t.Error("a request of too many records is answered")
	}
}
