package admin

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"

	"github.com/chronik-io/chronik/internal/security/origin"
)

// maxConnections is the maximum number of the port's connections: each needs a file descriptor, as
// segments and clients do.
const maxConnections = 256

// connLimit limits the number of a server's connections. If there are too many, it closes one
// without a running handler: of the address that has the most of these the one that has waited the
// longest; see origin.Crowd. If there is none, it closes the new connection.
//
// A connection whose TLS handshake or request header is incomplete has no running handler, and one
// whose response is being sent does not count as such: slow handshakes, headers, bodies and readers
// must not keep an operator from the port.
type connLimit struct {
	most int

	mu      sync.Mutex
	turns   int64
	open    map[net.Conn]int64 // the turn in which it began to wait
	waiting origin.Crowd[net.Conn]
}

func newConnLimit(most int) *connLimit {
	return &connLimit{most: most, open: map[net.Conn]int64{}}
}

// connKey is the context key of a request's connection.
type connKey struct{}

// withConn is http.Server.ConnContext.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// sending is a response whose connection waits for its client from the first byte on.
type sending struct {
	http.ResponseWriter
	waits func()
}

func (s *sending) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *sending) Write(b []byte) (int, error) {
	s.waits()
	return s.ResponseWriter.Write(b)
}

// handler marks the connection of a request as busy while h runs, until it begins to answer.
func (c *connLimit) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
			c.setWaiting(conn, false)
			defer c.setWaiting(conn, true)
			renew(conn)
			defer renew(conn)
			w = &sending{w, func() { c.setWaiting(conn, true) }}
		}
		h.ServeHTTP(w, r)
	})
}

// setWaiting records whether conn, if it is open, has no running handler.
func (c *connLimit) setWaiting(conn net.Conn, waiting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.open[conn]; !open {
		return
	}
	from := origin.OfPeer(conn.RemoteAddr().String())
	c.waiting.Remove(from, conn)
	if waiting {
		c.turns++
		c.open[conn] = c.turns
		c.waiting.Add(from, conn)
	}
}

// changed is http.Server.ConnState.
func (c *connLimit) changed(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if surplus := c.add(conn); surplus != nil {
			closeNow(surplus) // the server notices
		}
	case http.StateClosed, http.StateHijacked:
		c.remove(conn)
	}
}

// add adds a new connection and returns the connection to close, nil for none.
func (c *connLimit) add(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.open[conn]; known {
		return nil
	}
	from := origin.OfPeer(conn.RemoteAddr().String())
	var surplus net.Conn
	if len(c.open) >= c.most {
		var ok bool
		if surplus, ok = c.waiting.Yielding(from, func(x net.Conn) (int64, bool) { return c.open[x], true }, c.turns); !ok {
			return conn
		}
		c.waiting.Remove(origin.OfPeer(surplus.RemoteAddr().String()), surplus)
		delete(c.open, surplus)
	}
	c.turns++
	c.open[conn] = c.turns
	c.waiting.Add(from, conn)
	return surplus
}

// closeNow closes a connection without waiting for the client, as TLS would.
func closeNow(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	_ = conn.Close() // nothing more is sent
}

func (c *connLimit) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
	c.waiting.Remove(origin.OfPeer(conn.RemoteAddr().String()), conn)
}
