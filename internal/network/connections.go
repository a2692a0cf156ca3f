package network

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

// Connections returns the open connections in the order of their ids. It acquires the lock of each
// connection for an instant. Its cost falls on the caller, not on requests.
func (s *Server) Connections() []view.Connection {
	s.mu.Lock()
	conns := s.snapshot()
	s.mu.Unlock()
	now := time.Now()
	list := make([]view.Connection, 0, len(conns))
	for c := range conns {
		list = append(list, c.describe(now))
	}
	sorts.Sort(list, func(a, b view.Connection) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func (c *conn) describe(now time.Time) view.Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := view.Connection{
		ID: c.id, Listener: c.listener.Name, ClientID: c.clientID, Software: c.software.Name, Version: c.software.Version,
		Principal: c.session.Principal, Opened: c.opened.UTC(), InFlight: c.queue.unready, Traffic: c.queue.traffic,
		ThrottledMs: max((c.muteUntil.Load()-now.UnixNano())/int64(time.Millisecond), 0),
	}
	if c.session.Via {
		front := c.session.Front
		d.Front, d.Listener = &front, c.session.Listener
	}
	if _, err := netip.ParseAddrPort(c.peer.String()); err == nil { // a pipe has none
		d.Address = c.peer.String()
	}
	if at := c.queue.answered.UTC(); d.InFlight > 0 {
		at = now.UTC()
		d.LastRequest = &at
	} else if d.Requests > 0 {
		d.LastRequest = &at
	}
	return d
}

// CountRecords adds to the records of this connection that Connections returns. Only the handler
// may call it, before it answers.
func (r *Request) CountRecords(n int) { r.records += int64(n) }
