package network

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// trickle is a connection whose reads return one byte.
type trickle struct{ net.Conn }

func (c trickle) Read(p []byte) (int, error) { return c.Conn.Read(p[:min(len(p), 1)]) }

// limited is a connection that hangs up after some bytes.
type limited struct {
	net.Conn
	left int
}

func (c *limited) Write(p []byte) (int, error) {
	if len(p) <= c.left {
		c.left -= len(p)
		return c.Conn.Write(p)
	}
	_, _ = c.Conn.Write(p[:c.left])
	_ = c.Conn.Close()
	return 0, io.ErrClosedPipe
}

// Records of TLS may be cut anywhere: requests are served when they are whole, and a client that
// hangs up within one leaves nothing.
func TestRecordsThatAreCut(t *testing.T) {
	testCA()
	synctest.Test(t, func(t *testing.T) {
		served := 0
		f := start(t, func(r *Request) { served++; echo(r) }, nil)
		pipe := f.securePipe(t)
		here, there := net.Pipe()
		pipe.conns <- trickle{there}
		c := overTLS(here, nil)
		for i := range int32(3) {
			c.send(t, frame(keyMetadata, 3, i, bytes.Repeat([]byte{7}, 40_000)))
			c.want(t, i)
		}
		_ = c.Conn.(*tls.Conn).NetConn().Close()
		synctest.Wait()
		served = 0
		for n := range 200 {
			raw := pipe.dial()
			c := overTLS(&limited{Conn: raw.Conn, left: n * n / 5}, nil)
			_, err := c.Write(frame(keyMetadata, 3, 1, make([]byte, 5_000)))
			_ = raw.Close()
			synctest.Wait()
			s := f.Stats()
			if err == nil || s.Connections != 0 || s.Unauthenticated != 0 || s.Orphans != 0 || f.places.Held() != 0 {
				if err == nil {
					break // the whole request was sent
				}
				t.Fatalf("cut at %d: %+v, %d places are held", n*n/5, s, f.places.Held())
			}
			if served != 0 {
				t.Fatalf("cut at %d: served", n*n/5)
			}
		}
		f.end(t)
	})
}

// Records that bring no byte of a handshake end it before they cost much.
func TestUselessRecordsEndAHandshake(t *testing.T) {
	hello := wholeHello(t)
	synctest.Test(t, func(t *testing.T) {
		f := start(t, echo, nil)
		pipe := f.securePipe(t)
		c := pipe.dial()
		began := time.Now()
		go func() { _, _ = c.Write(append(hello, bytes.Repeat([]byte{0x14, 3, 3, 0, 1, 1}, 100)...)) }()
		if _, err := io.Copy(io.Discard, c); err != nil || time.Since(began) != 0 {
			t.Errorf("closed after %v, %v", time.Since(began), err)
		}
		_ = c.Close()
		synctest.Wait()
		f.end(t)
	})
}

// Certificates of clients are bounded in size and number.
func TestLargeClientCertificates(t *testing.T) {
	end := today.Add(time.Hour)
	large := &x509.Certificate{Subject: pkix.Name{CommonName: "large"}, NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for range 1000 {
		large.DNSNames = append(large.DNSNames, strings.Repeat("n", 60)+".example")
	}
	chain := testCA().leaf(t, "alice", end)
	for range maxChain {
		chain.Certificate = append(chain.Certificate, testCA().cert.Raw)
	}
	for result, cert := range map[string]*tls.Certificate{"size": testCA().sign(t, large), "certificate": chain} {
		t.Run(result, func(t *testing.T) {
			seen := &recorder{}
			f := start(t, func(*Request) { t.Error("served") }, func(o *Options) { o.Observer = seen })
			c := dialTLS(t, f.secured(t, tls.RequireAndVerifyClientCert, nil), cert)
			c.sendAsync(frame(keyMetadata, 3, 1, nil))
			c.wantClosed(t)
			c.Close()
			f.end(t)
			if !slices.Contains(seen.told, "secure handshake: "+result) {
				t.Errorf("told %q", seen.told)
			}
		})
	}
}

// A connection in a handshake does not hold up the end of the server, wherever the handshake is.
func TestShutdownDuringHandshakes(t *testing.T) {
	testCA()
	prefixes := [][]byte{nil, helloPrefix(t, 3), helloPrefix(t, 100), wholeHello(t)}
	synctest.Test(t, func(t *testing.T) {
		f := start(t, echo, nil)
		pipe := newPipeListener()
		f.serveTLS(t, pipe, tls.RequireAndVerifyClientCert, nil)
		var clients []*client
		for _, p := range prefixes {
			c := pipe.dial()
			go func() {
				_, _ = c.Write(p)
				_, _ = io.Copy(io.Discard, c)
			}()
			clients = append(clients, c)
		}
		synctest.Wait()
		began := time.Now()
		if err := f.Shutdown(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		for _, c := range clients {
			_ = c.Close()
		}
		f.end(t)
	})
}
