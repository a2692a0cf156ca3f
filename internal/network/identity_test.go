package network

import (
	"net/netip"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
)

// All requests of a connection have its session, and keep what the handler stored in it.
func TestRequestsShareTheirSession(t *testing.T) {
	seen := make(chan *Session, 10)
	f := start(t, func(r *Request) {
		if r.Session.Kept() == nil {
			r.Session.Keep(r.Connection)
		}
		if r.Session.Kept() != r.Connection {
			t.Errorf("connection %d has what %v stored", r.Connection, r.Session.Kept())
		}
		seen <- r.Session
		echo(r)
	}, nil)
	defer f.end(t)
	addr := f.tcp(t)
	var sessions []*Session
	for range 2 {
		c := dial(t, addr)
		t.Cleanup(func() { c.Close() })
		for i, key := range []int16{protocol.KeyProduce, keyMetadata, protocol.KeyProduce} {
			c.send(t, frame(key, 3, int32(i), nil))
			c.want(t, int32(i))
			sessions = append(sessions, <-seen)
		}
	}
	if s := sessions; s[0] != s[1] || s[0] != s[2] || s[3] == s[0] || s[3] != s[5] {
		t.Errorf("sessions are mixed up: %v", s)
	}
	if s := sessions[0]; s.Principal != Anonymous || s.Host != "127.0.0.1" || s.Listener != "test" || s.Mechanism != "" {
		t.Errorf("%+v", s)
	}
}

// The end of a session ends its connection when the requests that it started are answered.
func TestTheEndOfASessionClosesItsConnection(t *testing.T) {
	p := newParked()
	f := start(t, p.handle, nil)
	defer f.end(t)
	for _, key := range []int16{protocol.KeyProduce, keyMetadata} {
		for _, addr := range []string{"", f.tcp(t)} {
			c := f.pipe.dial
			if addr != "" {
				c = func() *client { return dial(t, addr) }
			}
			conn := c()
			conn.sendAsync(frame(key, 3, 1, nil))
			r := p.next()
			s := r.Session
			s.End()
			s.End() // twice is once
			conn.sendAsync(frame(key, 3, 2, nil))
			echo(r)
			conn.want(t, 1)
			conn.wantClosed(t)
			conn.Close()
			if !s.Ended() {
				t.Error("not ended")
			}
		}
	}
}

// A session expires by its date and by the time since the login, whichever is first.
func TestSessionExpires(t *testing.T) {
	began := time.Now()
	s := &Session{began: began, Expires: began.Add(time.Minute)}
	for _, c := range []struct {
		now  time.Time
		over bool
	}{
		{began.Add(59 * time.Second), false},
		{began.Add(time.Minute), true},
		{began.Round(0).Add(59 * time.Second), false}, // without the monotonic clock
		{began.Round(0).Add(time.Minute), true},
	} {
		if s.expired(c.now) != c.over {
			t.Errorf("at %v: %v", c.now, !c.over)
		}
	}
	if new(Session).expired(began.Add(1000 * time.Hour)) {
		t.Error("a session without an end ended")
	}
}

// Hosts are written as Java writes them, so that ACLs that were made for Kafka fit.
func TestHost(t *testing.T) {
	for ip, want := range map[string]string{
		"127.0.0.1": "127.0.0.1", "::ffff:10.1.2.3": "10.1.2.3", "::1": "0:0:0:0:0:0:0:1", "fe80::1%eth0": "fe80:0:0:0:0:0:0:1",
		"2001:db8::ab:1": "2001:db8:0:0:0:0:ab:1",
	} {
		if got := hostOf(netip.MustParseAddr(ip)); got != want {
			t.Errorf("%s: %s, want %s", ip, got, want)
		}
	}
	if hostOf(netip.Addr{}) != "" {
		t.Error("a host without an address")
	}
}

// This holds however large MaxFrame is.
func TestRequestSizeIsBoundedByItsMemory(t *testing.T) {
	f := start(t, func(r *Request) { r.Respond(body(nil)) }, func(o *Options) { o.ProduceBytes, o.OtherBytes = 1000, 3<<20 })
	defer f.end(t)
	addr := f.tcp(t)
	for _, r := range []struct {
		key  int16
		size int
		in   bool
	}{
		{protocol.KeyProduce, minProduce, true}, {protocol.KeyProduce, minProduce + 1, false},
		{keyMetadata, minOther, true}, {keyMetadata, minOther + 1, false},
	} {
		c := dial(t, addr)
		t.Cleanup(func() { c.Close() })
		c.sendAsync(frame(r.key, 3, 1, make([]byte, r.size-minFrame)))
		if r.in {
			c.want(t, 1)
		} else {
			c.wantClosed(t)
		}
	}
}
