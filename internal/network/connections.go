package network

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Traffic counts what a connection carried since it was opened.
type Traffic struct {
	Requests  int64 // that arrived and were handled
	BytesIn   int64 // of these requests, with their length fields
	BytesOut  int64 // of their answers, written or ready to be written
	RecordsIn int64 // that handlers counted with CountRecords
}

// Connection describes an open connection at one moment.
type Connection struct {
	ID             uint64 // in the order of arrival; never reused
	Listener       string
	Peer           netip.AddrPort // invalid if the peer has no IP address
	ClientID       string         // of its last request; empty before the first one
	Software       Software
	Session        *Session
	Opened         time.Time
	LastRequest    time.Time // now if a request is in flight, otherwise when the last answer was ready; Opened if there was none
	InFlight       int       // requests without an answer
	ThrottledUntil time.Time // zero if it is not throttled
	Traffic
}

// Connections returns the open connections in the order of their ids. It acquires the lock of each
// connection for an instant. Its cost falls on the caller, not on requests.
func (s *Server) Connections() []Connection {
	s.mu.Lock()
	conns := s.snapshot()
	s.mu.Unlock()
	now := time.Now()
	list := make([]Connection, 0, len(conns))
	for c := range conns {
		list = append(list, c.describe(now))
	}
	slices.SortFunc(list, func(a, b Connection) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func (c *conn) describe(now time.Time) Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := Connection{
		ID: c.id, Listener: c.listener.Name, ClientID: c.clientID, Software: c.software, Session: c.session,
		Opened: c.opened, LastRequest: c.opened, InFlight: c.queue.unready, Traffic: c.queue.traffic,
	}
	d.Peer, _ = netip.ParseAddrPort(c.peer.String()) // a pipe has none
	if d.InFlight > 0 {
		d.LastRequest = now
	} else if c.queue.answered.After(d.LastRequest) {
		d.LastRequest = c.queue.answered
	}
	if until := c.muteUntil.Load(); until > now.UnixNano() {
		d.ThrottledUntil = time.Unix(0, until)
	}
	return d
}

// CountRecords adds to the records of this connection that Connections returns. Only the handler
// may call it, before it answers.
func (r *Request) CountRecords(n int) { r.records += int64(n) }
