package network

import "time"

// identity is who a connection's client is. Only the reading role changes it, with conn.mu held; it
// reads it without the lock, all others with it.
type identity struct {
	id       uint64
	session  *Session
	clientID string
	software Software
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
		c.stopReading(ClosedSession)
		c.hungUp() // what is parked for the client must not reach it any more
	}
}

// SetSoftware stores the client's name and version for this connection's later requests. Only the
// handler of ApiVersions calls it, before it answers.
func (r *Request) SetSoftware(s Software) {
	c := r.conn
	c.mu.Lock()
	c.software = s
	c.mu.Unlock()
}
