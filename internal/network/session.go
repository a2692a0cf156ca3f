package network

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"
)

// Anonymous is Kafka's name for a client that did not log in.
const Anonymous = "User:ANONYMOUS"

// Session is who the client of a connection is. Its exported fields never change: a client that
// logs in again (KIP-368) gets a new Session. All requests of a session share it.
type Session struct {
	Principal string // "User:bob"; Anonymous without a login
	// Host is the client's address as Kafka writes it, without a port: an IPv4 address that is
	// mapped to IPv6 as IPv4, IPv6 as eight groups without "::". Empty if there is no IP address.
	Host      string
	Listener  string    // its name
	Mechanism string    // "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER", "SSL" (a client certificate), or "" without a login
	Expires   time.Time // zero: never
	// Via is set if the client is another broker's, to whose listener it has connected and logged
	// in; see Server.Adopt. Front is that broker.
	Via   bool
	Front int32

	began time.Time // of the monotonic clock, for Expires
	ended atomic.Bool
	stop  func(*Session) // ends the connection if this is its session; nil without a connection
	kept  atomic.Pointer[any]
}

// Keep stores a value that the handler has computed for the session, instead of the former one. Any
// goroutine may call it.
func (s *Session) Keep(v any) { s.kept.Store(&v) }

// Kept returns the value that was stored last, nil at first.
func (s *Session) Kept() any {
	if v := s.kept.Load(); v != nil {
		return *v
	}
	return nil
}

// End ends the session, because its user was deleted or has a new password: the connection starts
// no more requests, answers those that it has started, and closes. Requests that are parked end as
// if the client had hung up (Request.OnClose), so that it gets nothing that happens afterwards. End
// does not block. Any goroutine may call it, but none that holds a lock that the Server needs to
// answer a request.
func (s *Session) End() {
	if !s.ended.Swap(true) && s.stop != nil {
		s.stop(s)
	}
}

// Ended reports whether End was called.
func (s *Session) Ended() bool { return s.ended.Load() }

// expired reports whether the session is over.
func (s *Session) expired(now time.Time) bool { return s.over(now.Round(0), now.Sub(s.began)) }

// over is expired for the time of the clock and the time since the login, which also counts: a
// clock that is set back does not lengthen a session.
func (s *Session) over(clock time.Time, since time.Duration) bool {
	if s.Expires.IsZero() {
		return false
	}
	end := s.Expires.Round(0)
	return !clock.Before(end) || since >= end.Sub(s.began.Round(0))
}

// hostOf returns an address as Session.Host has it.
func hostOf(ip netip.Addr) string {
	ip = ip.Unmap().WithZone("")
	if !ip.Is6() {
		if !ip.IsValid() {
			return ""
		}
		return ip.String()
	}
	b := ip.As16()
	group := func(i int) uint16 { return uint16(b[2*i])<<8 | uint16(b[2*i+1]) }
	return fmt.Sprintf("%x:%x:%x:%x:%x:%x:%x:%x", group(0), group(1), group(2), group(3), group(4), group(5), group(6), group(7))
}
