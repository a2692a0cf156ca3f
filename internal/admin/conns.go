package admin

import (
	"net"
	"net/http"
	"sync"
)

// maxConnections bounds the port's connections: each is a descriptor, which segments and clients need,
// too.
const maxConnections = 256

// connLimit bounds how many connections a server has. If there are too many, the one that has been
// idle the longest is closed for the next; if none is idle, the next one is.
type connLimit struct {
	most int

	mu   sync.Mutex
	open map[net.Conn]struct{}
	idle []net.Conn // of those, without a request; the longest first
}

func newConnLimit(most int) *connLimit {
	return &connLimit{most: most, open: map[net.Conn]struct{}{}}
}

// changed is http.Server.ConnState.
func (c *connLimit) changed(conn net.Conn, state http.ConnState) {
	if surplus := c.note(conn, state); surplus != nil {
		_ = surplus.Close() // the server notices
	}
}

// note returns a connection to be closed, nil for none.
func (c *connLimit) note(conn net.Conn, state http.ConnState) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, x := range c.idle {
		if x == conn {
			c.idle = append(c.idle[:i], c.idle[i+1:]...)
			break
		}
	}
	switch state {
	case http.StateActive:
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	case http.StateIdle:
		c.idle = append(c.idle, conn)
	case http.StateNew:
		surplus := conn
		if len(c.open) < c.most {
			surplus = nil
		} else if len(c.idle) > 0 {
			surplus, c.idle = c.idle[0], c.idle[1:]
			delete(c.open, surplus)
		}
		c.open[conn] = struct{}{}
		c.idle = append(c.idle, conn)
		return surplus
	}
	return nil
}
