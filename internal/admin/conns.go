package admin

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxConnections is the maximum number of the port's connections: each needs a file descriptor, as
// segments and clients do.
const maxConnections = 256

// connLimit limits the number of a server's connections. If there are too many, it closes the one
// that has waited the longest without a running handler; if there is none, it closes the new
// connection.
//
// A connection whose request header is incomplete has no running handler: slow headers and bodies
// must not keep an operator from the port.
type connLimit struct {
	most int

	mu      sync.Mutex
	open    map[net.Conn]struct{}
	waiting []net.Conn // open connections without a running handler, the longest first
}

func newConnLimit(most int) *connLimit {
	return &connLimit{most: most, open: map[net.Conn]struct{}{}}
}

// connKey is the context key of a request's connection.
type connKey struct{}

// withConn is http.Server.ConnContext.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// handler marks the connection of a request as busy while h runs.
func (c *connLimit) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
			c.setWaiting(conn, false)
			defer c.setWaiting(conn, true)
		}
		h.ServeHTTP(w, r)
	})
}

// setWaiting records whether conn, if it is open, has no running handler.
func (c *connLimit) setWaiting(conn net.Conn, waiting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(x net.Conn) bool { return x == conn })
	if _, open := c.open[conn]; open && waiting {
		c.waiting = append(c.waiting, conn)
	}
}

// changed is http.Server.ConnState.
func (c *connLimit) changed(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if surplus := c.add(conn); surplus != nil {
			_ = surplus.Close() // the server notices
		}
	case http.StateClosed, http.StateHijacked:
		c.remove(conn)
	}
}

// add adds a new connection and returns the connection to close, nil for none.
func (c *connLimit) add(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	var surplus net.Conn
	if len(c.open) >= c.most {
		if len(c.waiting) == 0 {
			return conn
		}
		surplus, c.waiting = c.waiting[0], c.waiting[1:]
		delete(c.open, surplus)
	}
	c.open[conn] = struct{}{}
	c.waiting = append(c.waiting, conn)
	return surplus
}

func (c *connLimit) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
	c.waiting = slices.DeleteFunc(c.waiting, func(x net.Conn) bool { return x == conn })
}
