package network

import (
	"math"
	"net/netip"
	"time"

	"github.com/chronik-io/chronik/internal/security/origin"
)

// crowds are the connections that have proved nothing, each with a bound of its own, so that no
// kind keeps out another. At a bound, one of a crowd makes room for a new one; see origin.Crowd.
//
// A visitor has not logged in. The broker waits for its client, or works for it. It yields to one
// of an address that has fewer, and otherwise when the broker has waited for it for
// Options.roomAfter.
//
// A refused one has failed to log in, and waits for the answer. It has nothing to lose, and yields
// first.
//
// A caller is above the limits on connections, and may still show that it is a broker. A broker
// says so at once, so the oldest caller yields.
type crowds struct {
	visitors, refused, callers origin.Crowd[*conn]
}

// join puts a connection into a crowd, and takes it out of the one in which it is; nil for none.
// The caller holds Server.mu.
func (c *conn) join(to *origin.Crowd[*conn]) {
	from := origin.Of(c.ip)
	if c.crowd != nil {
		c.crowd.Remove(from, c)
	}
	if c.crowd = to; to != nil {
		to.Add(from, c)
	}
}

// yielding returns the connection that makes room for one of an address at a limit of all
// connections, of a listener if at is set; nil if there is none.
func (s *crowds) yielding(to netip.Prefix, at *Listener, roomAfter time.Duration, now time.Time) *conn {
	if c, ok := s.refused.Yielding(to, waited(at, now), math.MaxInt64); ok {
		return c
	}
	c, _ := s.visitors.Yielding(to, waited(at, now), now.Add(-roomAfter).UnixNano())
	return c
}

// waited orders connections, of a listener if at is set, by how long the broker has waited for
// their clients.
func waited(at *Listener, now time.Time) origin.Since[*conn] {
	return func(c *conn) (int64, bool) {
		since := c.awaited.Load()
		if since == 0 {
			since = now.UnixNano()
		}
		return since, at == nil || c.listener == at
	}
}

// arrived orders connections by age.
func arrived(c *conn) (int64, bool) { return c.opened.UnixNano(), true }

// await records since when the broker waits for a client that has not logged in.
func (c *conn) await() { c.awaited.Store(time.Now().UnixNano()) }

// heard records that it does not wait any more.
func (c *conn) heard() { c.awaited.Store(0) }

// refuseLogin makes a visitor whose login has failed one that only waits for its answer.
func (s *Server) refuseLogin(c *conn) {
	from := origin.Of(c.ip)
	s.mu.Lock()
	var yielding *conn
	if c.crowd == &s.crowds.visitors {
		switch o := &s.opts; {
		case s.crowds.refused.From(from) >= o.MaxUnauthenticatedPerIP:
			yielding, _ = s.crowds.refused.YieldingOwn(from, arrived, math.MaxInt64)
		case s.crowds.refused.Len() >= o.MaxUnauthenticated:
			yielding, _ = s.crowds.refused.Yielding(from, arrived, math.MaxInt64)
		}
		if yielding != nil {
			yielding.join(nil)
		}
		c.join(&s.crowds.refused)
	}
	s.mu.Unlock()
	if yielding != nil {
		yielding.displace()
	}
}

// displace ends a connection for a new one. It may have logged in at this moment: its client
// connects again.
func (c *conn) displace() {
	c.mu.Lock()
	c.kill(ClosedLimit)
	c.mu.Unlock()
	if c.over == "" { // otherwise its reader reports it
		c.srv.refused(c.listener, c.peer, c.ip, RefusedUnauthenticated)
	}
}
