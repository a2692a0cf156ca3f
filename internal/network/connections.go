package network

import (
	"cmp"
	"net"
	"slices"
	"time"
)

// Connection is what an open connection has done so far.
type Connection struct {
	ID          uint64
	Listener    string
	Peer        net.Addr
	ClientID    string // of its latest request that changed it
	Software    Software
	Principal   string
	Since       time.Time
	LastRequest time.Time // zero: it has sent none
	Requests    uint64
	BytesIn     uint64 // of whole requests
	BytesOut    uint64 // of answers that are ready, whether or not the client has read them
	RecordsIn   uint64 // that handlers counted with CountRecords
	Unanswered  int    // requests; those that wait for an event are among them
	// MutedUntil is when the server goes on reading, after a handler asked its client to
	// wait; in the past or zero if it reads.
	MutedUntil time.Time
}

// traffic is what a connection has done. It belongs to the holder of conn.mu.
type traffic struct {
	requests, in, out uint64 // bytes in and out
	records           uint64
	last              time.Time
}

// Connections returns the open connections by id. It takes the lock of each for a
// moment, and none of them while it holds that of the server.
func (s *Server) Connections() []Connection {
	s.mu.Lock()
	open := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		open = append(open, c)
	}
	s.mu.Unlock()
	list := make([]Connection, len(open))
	for i, c := range open {
		list[i] = c.describe()
	}
	slices.SortFunc(list, func(a, b Connection) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func (c *conn) describe() Connection {
	who := c.shown.Load()
	d := Connection{ID: who.id, Listener: c.listener.Name, Peer: c.peer, ClientID: who.clientID, Software: who.software, Principal: who.principal, Since: c.since}
	if until := c.muteUntil.Load(); until != 0 {
		d.MutedUntil = time.Unix(0, until)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d.Requests, d.BytesIn, d.BytesOut, d.RecordsIn = c.done.requests, c.done.in, c.done.out, c.done.records
	d.LastRequest, d.Unanswered = c.done.last, c.unready
	return d
}

// show publishes the identity for Connections. The caller has the reading role.
func (c *conn) show() {
	who := c.identity
	c.shown.Store(&who)
}

// CountRecords counts records that the request brought, for Connections. Only the handler
// may call it, before the answer is given.
func (r *Request) CountRecords(n int) { r.records += uint64(n) }
