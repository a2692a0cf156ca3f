package network

import (
	"net/netip"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/security/origin"
)

// visitors are the connections that have not logged in, by origin.Of their address.
//
// At a limit, one of them makes room for a new connection, so that a few addresses cannot keep out
// all others. It is one of the address that has the most, if that has more than the new one's would
// have. Otherwise it is the one for which the broker has waited the longest, if that is
// Options.roomAfter. Thus clients that connect at the same moment do not displace each other, and
// only greedy addresses lose one that waits for the broker.
type visitors struct {
	roomAfter time.Duration // Options.roomAfter
	n         int
	of        map[netip.Prefix][]*conn
}

func (s *visitors) add(c *conn) {
	s.n++
	from := origin.Of(c.ip)
	s.of[from] = append(s.of[from], c)
}

func (s *visitors) remove(c *conn) {
	from := origin.Of(c.ip)
	all := s.of[from]
	i := slices.Index(all, c)
	if i < 0 {
		return
	}
	s.n--
	if all = slices.Delete(all, i, i+1); len(all) == 0 {
		delete(s.of, from)
	} else {
		s.of[from] = all
	}
}

// yielding returns the connection that makes room for one of an address; nil if there is none. If
// at is set, it is one of that listener.
func (s *visitors) yielding(to netip.Prefix, at *Listener, now time.Time) *conn {
	var greedy, silent waiter
	most, own := 0, 0
	for from, all := range s.of {
		n, first := longest(all, at, now)
		if n > most || n == most && first.since < greedy.since {
			most, greedy = n, first
		}
		if silent.c == nil || n > 0 && first.since < silent.since {
			silent = first
		}
		if from == to {
			own = n
		}
	}
	if most > own+1 {
		return greedy.c
	}
	return silent.patient(now, s.roomAfter)
}

// yieldingOwn is yielding for an address that has as many as it may: one of its own.
func (s *visitors) yieldingOwn(to netip.Prefix, at *Listener, now time.Time) *conn {
	_, first := longest(s.of[to], at, now)
	return first.patient(now, s.roomAfter)
}

// waiter is a connection, and since when the broker waits for its client, in unix ns.
type waiter struct {
	c     *conn
	since int64
}

// patient returns the connection if the broker has waited for so long.
func (w waiter) patient(now time.Time, roomAfter time.Duration) *conn {
	if w.c == nil || now.UnixNano()-w.since < int64(roomAfter) {
		return nil
	}
	return w.c
}

// longest returns how many of some connections are of a listener, nil for any, and the one of these
// for which the broker has waited the longest.
func longest(all []*conn, at *Listener, now time.Time) (n int, first waiter) {
	for _, c := range all {
		if at != nil && c.listener != at {
			continue
		}
		n++
		since := c.awaited.Load()
		if since == 0 {
			since = now.UnixNano()
		}
		if first.c == nil || since < first.since {
			first = waiter{c, since}
		}
	}
	return n, first
}

// await records since when the broker waits for a client that has not logged in.
func (c *conn) await() { c.awaited.Store(time.Now().UnixNano()) }

// heard records that it does not wait any more.
func (c *conn) heard() { c.awaited.Store(0) }

// displace ends a connection for a new one. It may have logged in at this moment: its client
// connects again.
func (c *conn) displace() {
	c.mu.Lock()
	c.kill(ClosedLimit)
	c.mu.Unlock()
	c.srv.refused(c.listener, c.peer, RefusedUnauthenticated)
}
