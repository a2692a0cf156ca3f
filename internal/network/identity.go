package network

import (
	"crypto/x509"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

// identity is who a connection's client is. Only the reading role changes it, with conn.mu held; it
// reads it without the lock, all others with it.
type identity struct {
	id       uint64
	session  *Session
	clientID string
	software Software
	shown    []*x509.Certificate // the client's verified certificate, and what it sent with it
}

func (c *conn) identify(principal, mechanism string, expires time.Time) {
	s := &Session{Principal: principal, Host: hostOf(c.ip), Listener: c.listener.Name, Mechanism: mechanism, Expires: expires,
		began: time.Now(), stop: c.endSession}
	c.mu.Lock()
	c.session = s
	c.mu.Unlock()
}

// endSession closes the connection if this is its present session.
func (c *conn) endSession(s *Session) {
	c.mu.Lock()
	present := c.session == s
	c.mu.Unlock()
	if present {
		c.end()
	}
}

// end closes the connection of a client that may no longer have it. Requests that have started are
// answered, but what is parked for the client must not reach it any more.
func (c *conn) end() {
	c.stopReading(ClosedSession)
	c.span.hungUp()
}

// trusted reports whether the client's certificate is accepted; it is without one.
func (c *conn) trusted() bool {
	c.mu.Lock()
	shown := c.shown
	c.mu.Unlock()
	return len(shown) == 0 || c.listener.TLS.Trusts == nil || c.listener.TLS.Trusts(shown)
}

// EndUntrusted ends the sessions of clients whose certificates TLSOptions.Trusts no longer accepts,
// as Session.End does. It is called when the authorities of a listener's clients have changed. It
// verifies the certificates of all connections, on the caller's goroutine.
func (s *Server) EndUntrusted() {
	s.mu.Lock()
	conns := s.snapshot()
	s.mu.Unlock()
	for c := range conns {
		if !c.trusted() {
			c.end()
		}
	}
}

// SetSoftware stores the client's name and version for this connection's later requests, as far as
// they are shown. Only the handler of ApiVersions calls it, before it answers.
func (r *Request) SetSoftware(s Software) {
	c := r.conn
	c.mu.Lock()
	c.software = Software{Name: view.Cut(s.Name), Version: view.Cut(s.Version)}
	c.mu.Unlock()
}
