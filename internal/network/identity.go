package network

// Anonymous is Kafka's name for a client that did not authenticate.
const Anonymous = "User:ANONYMOUS"

// Authentication is the authentication state of a connection's client.
type Authentication uint8

// A connection begins as AuthNotRequired or AuthPending, depending on its Listener.
const (
	AuthNotRequired Authentication = iota
	// AuthPending: the client is anonymous, its requests have at most MaxFrameUnauthenticated bytes
	// and pollers do not read them. The handler decides which of them to answer.
	AuthPending
	AuthDone
)

// identity is who a connection's client is. Only the reading role changes it, with conn.mu held; it
// reads it without the lock, all others with it.
type identity struct {
	id        uint64
	principal string
	auth      Authentication
	clientID  string
	software  Software
}

func identityOf(s *Server, l *Listener) identity {
	who := identity{id: s.lastID.Add(1), principal: Anonymous}
	if l.Authenticate {
		who.auth = AuthPending
	}
	return who
}

// SetSoftware stores the client's name and version for this connection's later requests. Only the
// handler of ApiVersions calls it, before it answers.
func (r *Request) SetSoftware(s Software) {
	c := r.conn
	c.mu.Lock()
	c.software = s
	c.mu.Unlock()
}

// Authenticated stores who the client is, for this connection's later requests. The handler of the
// request that completes the authentication calls it before it answers. That request is not a
// Produce, so no other one is in flight.
func (r *Request) Authenticated(principal string) {
	c := r.conn
	c.mu.Lock()
	c.principal, c.auth = principal, AuthDone
	c.mu.Unlock()
}
