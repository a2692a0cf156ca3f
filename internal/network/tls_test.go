package network

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/share"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// Requests of all sizes are served over TLS, in order, and answers of many pieces arrive whole.
func TestTLSServesRequests(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), 60_000)
	f := start(t, func(r *Request) {
		if r.Key != keyMetadata {
			echo(r)
			return
		}
		// Pieces that are smaller, larger and as large as a record.
		var parts [][]byte
		for rest, n := long, 1; len(rest) > 0; n = n*3 + 1 {
			n = min(n, len(rest))
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		r.RespondRaw(parts, nil)
	}, nil)
	defer f.end(t)
	addr := f.secured(t, tls.NoClientCert, nil)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := dialTLS(t, addr, nil)
		c.Conn = tls.Client(c.Conn.(*tls.Conn).NetConn(), &tls.Config{RootCAs: testCA().pool(), ServerName: "broker", MaxVersion: version,
			MinVersion: version})
		big := bytes.Repeat([]byte{7}, 300_000)
		c.sendAsync(frame(protocol.KeyProduce, 3, 1, []byte("small")), frame(protocol.KeyProduce, 3, 2, big),
			frame(keyMetadata, 3, 3, nil), frame(protocol.KeyProduce, 3, 4, []byte("last")))
		if got := c.want(t, 1); string(got) != "small" {
			t.Errorf("got %q", got)
		}
		if got := c.want(t, 2); !bytes.Equal(got, big) {
			t.Error("a large request has another answer")
		}
		if got := c.want(t, 3); !bytes.Equal(got, long) {
			t.Error("the pieces of an answer are mixed up")
		}
		c.want(t, 4)
		if n := f.Stats().Unauthenticated; n != 0 {
			t.Errorf("%d connections count as unauthenticated", n)
		}
		c.Close()
	}
}

// The server ends a connection of TLS as TLS wants it, so that the client knows that no answer is
// missing.
func TestTLSEndsWithCloseNotify(t *testing.T) {
	f := start(t, echo, nil)
	raw := &lastRecord{Conn: dial(t, f.secured(t, tls.NoClientCert, nil)).Conn}
	c := &client{tls.Client(raw, &tls.Config{RootCAs: testCA().pool(), ServerName: "broker", MinVersion: tls.VersionTLS12,
		MaxVersion: tls.VersionTLS12})} // alerts have a type of their own
	defer c.Close()
	c.send(t, frame(keyMetadata, 3, 1, nil))
	c.want(t, 1)
	done := make(chan error)
	go func() { done <- f.Shutdown(context.Background()) }()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read %d, %v, want the end", n, err)
	}
	if len(raw.last) == 0 || raw.last[0] != 21 {
		t.Errorf("the last record is %x, no alert", raw.last)
	}
	c.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	f.end(t)
}

// lastRecord remembers the last bytes that were read.
type lastRecord struct {
	net.Conn
	last []byte
}

func (l *lastRecord) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.last = slices.Clone(p[:n])
	}
	return n, err
}

// Close does not wait for clients that don't read, not even for the last record of TLS.
func TestCloseWithTLS(t *testing.T) {
	p := newParked()
	f := start(t, p.handle, nil)
	addr := f.secured(t, tls.NoClientCert, nil)
	ready := dialTLS(t, addr, nil)
	ready.send(t, frame(keyMetadata, 3, 1, nil))
	r := p.next()
	silent := dial(t, addr) // in the handshake
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	echo(r)
	ready.Close()
	silent.Close()
	f.end(t)
}

// A client that speaks something else than the listener is closed, and the log says what to
// change, once.
func TestWrongProtocolForTLS(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	seen := &recorder{}
	f := start(t, echo, func(o *Options) { o.Log, o.Observer = zap.New(core), seen })
	addr := f.secured(t, tls.NoClientCert, nil)
	for range 2 {
		c := dial(t, addr)
		c.send(t, frame(keyMetadata, 3, 1, nil))
		c.wantClosed(t)
		c.Close()
	}
	f.end(t)
	if got := logs.FilterMessage("closing a connection, its TLS handshake failed").All(); len(got) != 1 ||
		got[0].ContextMap()["error"] != errPlainText.Error()+"; set security.protocol=SSL at the client" {
		t.Errorf("logged %v", got)
	}
	for _, want := range []string{"secure handshake: plain_text", "secure closed: handshake"} {
		if n := countOf(seen.told, want); n != 2 {
			t.Errorf("%q was told %d times", want, n)
		}
	}
}

func countOf(list []string, what string) (n int) {
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

// Client certificates: whose is accepted, who the client is then, and when its session ends.
func TestClientCertificates(t *testing.T) {
	other := newAuthority(t, "another CA")
	ends := time.Now().Add(time.Hour).Truncate(time.Second)
	alice, nobody, stranger := testCA().leaf(t, "alice", ends), testCA().leaf(t, "nobody", ends), other.leaf(t, "alice", ends)
	for _, c := range []struct {
		name      string
		auth      tls.ClientAuthType
		cert      *tls.Certificate
		principal string // empty: refused
		result    string
	}{
		{"required", tls.RequireAndVerifyClientCert, alice, "User:alice", "ok"},
		{"missing", tls.RequireAndVerifyClientCert, nil, "", "certificate"},
		{"of another authority", tls.RequireAndVerifyClientCert, stranger, "", "certificate"},
		{"without a rule", tls.RequireAndVerifyClientCert, nobody, "", "principal"},
		{"requested", tls.VerifyClientCertIfGiven, alice, "User:alice", "ok"},
		{"requested and missing", tls.VerifyClientCertIfGiven, nil, Anonymous, "ok"},
		{"not requested", tls.NoClientCert, alice, Anonymous, "ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var session *Session
			seen := &recorder{}
			f := start(t, func(r *Request) { session = r.Session; echo(r) }, func(o *Options) { o.Observer = seen })
			conn := dialTLS(t, f.secured(t, c.auth, nil), c.cert)
			conn.sendAsync(frame(keyMetadata, 3, 1, nil))
			if c.principal == "" {
				conn.wantClosed(t)
			} else {
				conn.want(t, 1)
			}
			conn.Close()
			f.end(t)
			if !slices.Contains(seen.told, "secure handshake: "+c.result) {
				t.Errorf("told %q", seen.told)
			}
			failed := slices.Contains(seen.told, "secure login with SSL as User:ANONYMOUS, failed: true")
			if failed != (c.principal == "") {
				t.Errorf("a failed login: %v; told %q", failed, seen.told)
			}
			switch {
			case c.principal == "" && session != nil:
				t.Errorf("a refused client is %+v", session)
			case c.principal == "":
			case session.Principal != c.principal:
				t.Errorf("the client is %s", session.Principal)
			case c.principal != Anonymous && (session.Mechanism != "SSL" || !session.Expires.Equal(ends)):
				t.Errorf("the session is %+v, want one until %v", session, ends)
			}
		})
	}
}

// A client's connection ends when the authority of its certificate is removed, with what is parked
// for it; those of others stay. A handshake that was under way meanwhile fails.
func TestARemovedAuthorityEndsItsConnections(t *testing.T) {
	alice := testCA().leaf(t, "alice", today.Add(time.Hour))
	var removed atomic.Bool
	parked, gone := make(chan struct{}), make(chan struct{})
	f := start(t, func(r *Request) {
		if r.Session.Principal == Anonymous {
			echo(r)
			return
		}
		r.OnClose(func() {
			r.Respond(body("nothing new"))
			close(gone)
		})
		close(parked)
	}, nil)
	addr := f.secured(t, tls.VerifyClientCertIfGiven, func(l *Listener) {
		l.TLS.Trusts = func(shown []*x509.Certificate) bool { return shown[0].Subject.CommonName == "alice" && !removed.Load() }
	})
	stays, goes := dialTLS(t, addr, nil), dialTLS(t, addr, alice)
	goes.sendAsync(frame(keyMetadata, 3, 1, nil))
	stays.sendAsync(frame(keyMetadata, 3, 1, nil))
	stays.want(t, 1)
	<-parked
	f.EndUntrusted() // nothing has changed
	removed.Store(true)
	f.EndUntrusted()
	<-gone
	late := dialTLS(t, addr, alice)
	late.sendAsync(frame(keyMetadata, 3, 1, nil))
	late.wantClosed(t)
	stays.sendAsync(frame(keyMetadata, 3, 2, nil))
	stays.want(t, 2)
	f.end(t)
}

// A client that does not trust the server is distinguished from others.
func TestClientRefusesTheServer(t *testing.T) {
	seen := &recorder{}
	f := start(t, echo, func(o *Options) { o.Observer = seen })
	nc := dial(t, f.secured(t, tls.NoClientCert, nil)).Conn
	c := tls.Client(nc, &tls.Config{RootCAs: newAuthority(t, "another").pool(), ServerName: "broker", MinVersion: tls.VersionTLS13})
	if err := c.Handshake(); err == nil {
		t.Fatal("the client trusts an unknown authority")
	}
	_ = c.Close()
	f.waitNone()
	f.end(t)
	if !slices.Contains(seen.told, "secure handshake: client_refused") {
		t.Errorf("told %q", seen.told)
	}
}

// OpenSSL sends the alert of a client that does not trust the server without encryption, and
// closes the connection.
func TestClientRefusesTheServerAsOpenSSLDoes(t *testing.T) {
	seen := &recorder{}
	f := start(t, echo, func(o *Options) { o.Observer = seen })
	nc := dial(t, f.secured(t, tls.NoClientCert, nil)).Conn
	alert := &atAnswer{Conn: nc, send: []byte{21, 3, 3, 0, 2, 2, 48}}
	c := tls.Client(alert, &tls.Config{RootCAs: newAuthority(t, "another").pool(), ServerName: "broker", MinVersion: tls.VersionTLS13})
	if err := c.Handshake(); err == nil {
		t.Fatal("the client has no answer")
	}
	f.waitNone()
	f.end(t)
	if !slices.Contains(seen.told, "secure handshake: client_refused") {
		t.Errorf("told %q", seen.told)
	}
}

// A client refuses the certificate only by a fatal alert that says so, and it hides no verdict of
// the broker.
func TestWhatIsARefusalByTheClient(t *testing.T) {
	remote := func(alert tls.AlertError) error { return &net.OpError{Op: "remote error", Err: alert} }
	for name, c := range map[string]struct {
		err   error
		plain []byte
		want  string
	}{
		"by an alert":             {remote(48), nil, ClientRefused},
		"another alert":           {remote(70), nil, "protocol"},
		"by a plain alert":        {io.ErrUnexpectedEOF, []byte{2, 42}, ClientRefused},
		"another plain alert":     {net.ErrClosed, []byte{2, 70}, "broken"},
		"a warning":               {net.ErrClosed, []byte{1, 48}, "broken"},
		"the client's is refused": {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, []byte{2, 48}, resultCertificate},
		"the broker is busy":      {share.ErrFull, []byte{2, 48}, "busy"},
	} {
		var r Records
		if c.plain != nil {
			r.Count([]byte{21, 3, 3, 0, 2, c.plain[0]})
			r.Count(append(c.plain[1:], 22, 3, 3))
		}
		if got := handshakeResult(explainHandshake(c.err, r.Alert)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// atAnswer is a connection on which something is sent when the first answer has arrived, and
// nothing else than what was sent before.
type atAnswer struct {
	net.Conn
	send []byte
}

func (a *atAnswer) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	if err == nil && a.send != nil {
		_, err = a.Conn.Write(a.send)
		a.send = nil
		return 0, errors.Join(err, io.EOF, a.Conn.Close())
	}
	return n, err
}

// waitNone waits until all connections have ended on their own.
func (f *fixture) waitNone() {
	for f.Stats().Connections > 0 {
		runtime.Gosched()
	}
}

// Clients that say nothing, or stop in the middle, are closed at the deadline. However many of them
// there are, they keep no handshake place meanwhile.
func TestHandshakeTakesNoPlaceWhileItWaits(t *testing.T) {
	prefixes := [][]byte{}
	for _, n := range []int{0, 1, 3, 5, 100, 150} {
		prefixes = append(prefixes, helloPrefix(t, n))
	}
	testCA()
	synctest.Test(t, func(t *testing.T) {
		f, pipe, seen := startSecure(t)
		began := time.Now()
		for _, p := range prefixes {
			c := pipe.dial()
			t.Cleanup(func() { c.Close() })
			if len(p) > 0 {
				c.send(t, p)
			}
		}
		c := overTLS(pipe.dial().Conn, nil)
		c.send(t, frame(keyMetadata, 3, 1, nil))
		c.want(t, 1)
		synctest.Wait()
		if s := f.Stats(); f.places.Held() != 0 || s.Unauthenticated != len(prefixes) || time.Since(began) > 0 {
			t.Errorf("%d places are held, %d clients are unauthenticated", f.places.Held(), s.Unauthenticated)
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		synctest.Wait()
		if n := f.Stats().Connections; n != len(prefixes)+1 {
			t.Errorf("%d connections before the deadline", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := f.Stats().Connections; n != 1 {
			t.Errorf("%d connections after the deadline", n)
		}
		c.send(t, frame(keyMetadata, 3, 2, nil)) // its own deadline does not count any more
		c.want(t, 2)
		_ = c.Conn.(*tls.Conn).NetConn().Close()
		synctest.Wait()
		f.end(t)
		if n := countOf(seen.told, "secure handshake: late"); n != len(prefixes) {
			t.Errorf("%d of %d handshakes were late: %q", n, len(prefixes), seen.told)
		}
	})
}

// wholeHello returns the ClientHello of a client's handshake.
func wholeHello(t *testing.T) []byte {
	t.Helper()
	testCA()
	head := helloPrefix(t, 5)
	return helloPrefix(t, 5+int(head[3])<<8+int(head[4]))
}

// helloPrefix returns the first n bytes of a client's handshake.
func helloPrefix(t *testing.T, n int) []byte {
	t.Helper()
	here, there := net.Pipe()
	go func() { _ = overTLS(there, nil).Conn.(*tls.Conn).Handshake() }()
	p := make([]byte, n)
	if _, err := io.ReadFull(here, p); err != nil {
		t.Fatal(err)
	}
	_, _ = here.Close(), there.Close()
	return p
}

// The connections that have not logged in are bounded, in all and for each address; those that have
// don't count.
func TestUnauthenticatedConnectionsAreBounded(t *testing.T) {
	for name, bound := range map[string]func(*Options){
		"in all":     func(o *Options) { o.MaxUnauthenticated = 3 },
		"an address": func(o *Options) { o.MaxUnauthenticatedPerIP = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			seen := &recorder{}
			f := start(t, echo, func(o *Options) { o.Observer, o.roomAfter = seen, time.Hour; bound(o) })
			addr := f.secured(t, tls.NoClientCert, nil)
			for range 5 {
				c := dialTLS(t, addr, nil)
				t.Cleanup(func() { c.Close() })
				c.send(t, frame(keyMetadata, 3, 1, nil))
				c.want(t, 1)
			}
			var silent []*client
			for range 3 {
				silent = append(silent, dial(t, addr))
			}
			for f.Stats().Unauthenticated < 3 {
				runtime.Gosched()
			}
			c := dial(t, addr)
			c.wantClosed(t)
			c.Close()
			silent[0].Close()
			for f.Stats().Unauthenticated > 2 {
				runtime.Gosched()
			}
			c = dialTLS(t, addr, nil)
			c.send(t, frame(keyMetadata, 3, 1, nil))
			c.want(t, 1)
			c.Close()
			for _, c := range silent {
				c.Close()
			}
			f.end(t)
			if n := countOf(seen.told, "secure refused: unauthenticated"); n != 1 {
				t.Errorf("%d were refused", n)
			}
			if s := f.Stats(); s.Unauthenticated != 0 || f.crowds.visitors.Len() != 0 {
				t.Errorf("%d unauthenticated connections are left", s.Unauthenticated)
			}
		})
	}
}

// A link takes a connection of TLS with what has arrived behind the request.
func TestHijackWithTLS(t *testing.T) {
	f, taker := startForBrokers(t, echo, &counts{})
	addr := f.secured(t, tls.RequireAndVerifyClientCert, func(l *Listener) { l.Brokers = true })
	c := dialTLS(t, addr, testCA().leaf(t, "node-1", time.Now().Add(time.Hour)))
	c.send(t, append(hello(), "early"...))
	nc := <-taker.conns
	got := make([]byte, 5)
	if _, err := io.ReadFull(nc, got); err != nil || string(got) != "early" {
		t.Errorf("%q, %v", got, err)
	}
	state := nc.(interface{ ConnectionState() tls.ConnectionState }).ConnectionState()
	if !state.HandshakeComplete || state.PeerCertificates[0].Subject.CommonName != "node-1" {
		t.Error("a link does not know the other end's certificate")
	}
	mine, err := state.ExportKeyingMaterial("test", nil, 32)
	theirState := c.Conn.(*tls.Conn).ConnectionState()
	theirs, err2 := theirState.ExportKeyingMaterial("test", nil, 32)
	if err != nil || err2 != nil || !bytes.Equal(mine, theirs) {
		t.Error("the ends have different keying material", err, err2)
	}
	if _, err := nc.Write([]byte("reply")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "reply" {
		t.Errorf("%q, %v", got, err)
	}
	_ = nc.Close()
	c.wantClosed(t)
	c.Close()
	f.end(t)
}
