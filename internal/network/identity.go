package network

// Anonymous is Kafka's name for a client that did not authenticate.
const Anonymous = "User:ANONYMOUS"

// Authentication is how far a connection's client has come in showing who it is.
type Authentication uint8

// A connection begins as AuthNotRequired or AuthPending, as its Listener says.
const (
	AuthNotRequired Authentication = iota
	// AuthPending: the client is anonymous, its requests have MaxFrameUnauthenticated
	// bytes at most and no poller reads them. Which of them are answered is the handler's
	// to decide.
	AuthPending
	AuthDone
)

// identity is who a connection's client is. The reading role reads it, and changes it
// with conn.mu held, which all others need to read it.
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

// SetSoftware remembers what the client called itself, for this connection's
// later requests. Only ApiVersions' handler calls it, before it answers.
func (r *Request) SetSoftware(s Software) {
	c := r.conn
	c.mu.Lock()
	c.software = s
	c.mu.Unlock()
}

// Authenticated remembers who the client is, for this connection's later requests. The
// handler of the request that completes the authentication calls it, before it answers;
// it is no Produce, so that no other is under way.
func (r *Request) Authenticated(principal string) {
	c := r.conn
	c.mu.Lock()
	c.principal, c.auth = principal, AuthDone
	c.mu.Unlock()
}
