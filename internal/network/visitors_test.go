package network

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/origin"
)

func from(ip string) netip.Prefix { return origin.Of(netip.MustParseAddr(ip)) }

// visitor returns a connection that has not logged in, of an address. The broker has waited for
// its client for some time; 0: it does not wait.
func (s *visitors) visitor(l *Listener, ip string, silent time.Duration, now time.Time) *conn {
	c := &conn{listener: l, ip: netip.MustParseAddr(ip)}
	if silent > 0 {
		c.awaited.Store(now.Add(-silent).UnixNano())
	}
	s.add(c)
	return c
}

func TestWhichVisitorMakesRoom(t *testing.T) {
	now, here, there := time.Unix(1e9, 0), &Listener{Name: "here"}, &Listener{Name: "there"}
	s := &visitors{roomAfter: time.Second, of: map[netip.Prefix][]*conn{}}
	a1 := s.visitor(here, "10.0.0.1", time.Second/2, now)
	s.visitor(here, "10.0.0.1", 0, now)
	a3 := s.visitor(here, "10.0.0.1", time.Second, now)
	b1 := s.visitor(there, "2001:db8::1", 2*time.Second, now)
	s.visitor(there, "2001:db8::2", 0, now)
	check := func(what string, got, want *conn) {
		t.Helper()
		if got != want {
			t.Errorf("%s: another one (none: %v)", what, got == nil)
		}
	}
	check("of the address with three", s.yielding(from("10.0.0.9"), nil, now), a3)
	check("for one of the same address", s.yielding(from("10.0.0.1"), nil, now), b1)
	check("for an address that has two", s.yielding(from("2001:db8::3"), nil, now), b1)
	check("of the other listener", s.yielding(from("10.0.0.9"), there, now), b1)
	check("of its own, there", s.yieldingOwn(from("10.0.0.1"), there, now), nil)
	check("of its own, here", s.yieldingOwn(from("10.0.0.1"), here, now), a3)
	s.remove(a3)
	s.remove(a3)
	check("of its own, all heard lately", s.yieldingOwn(from("10.0.0.1"), here, now), nil)
	s.remove(b1)
	check("for one of two", s.yielding(from("10.0.0.1"), nil, now), nil)
	check("of two for a new address", s.yielding(from("10.0.0.9"), nil, now), a1)
	s.remove(a1)
	check("of one each", s.yielding(from("10.0.0.9"), nil, now), nil)
	if s.n != 2 || len(s.of) != 2 {
		t.Errorf("%d of %d addresses are left", s.n, len(s.of))
	}
}

// dialAs connects from an address.
func (l *pipeListener) dialAs(ip string) *client {
	here, there := net.Pipe()
	l.conns <- addressed{there, &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}}
	synctest.Wait()
	return &client{Conn: here}
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	from net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.from }

// A few addresses that fill a limit with connections that never log in keep out no other one. Many
// addresses keep others out for a second, so that clients that connect at the same moment do not
// displace each other. A client that has logged in is not displaced.
func TestVisitorsKeepOutNobody(t *testing.T) {
	for name, limit := range map[string]func(*Options){
		"unauthenticated": func(o *Options) { o.MaxUnauthenticated = 32 },
		"total":           func(o *Options) { o.Limits.Connections = 32 },
		"listener":        func(o *Options) { o.Limits.Listeners = map[string]int{"sasl": 32} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := &refusals{}
				f, ln := behindLogin(t, &users{}, echo, func(o *Options) { o.Observer = seen; limit(o) })
				var all []*client
				for i := range 32 {
					all = append(all, ln.dialAs([]string{"10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2"}[i%4]))
				}
				served := 0
				serve := func(ip string) {
					t.Helper()
					c := ln.dialAs(ip)
					all, served = append(all, c), served+1
					c.login(t, "bob", "secret")
					c.send(t, frame(keyMetadata, 1, 9, nil))
					c.want(t, 9)
				}
				for i := range 3 {
					serve(fmt.Sprintf("10.0.1.%d", i))
				}
				for i := range 40 { // each address gets one, until all have one
					all = append(all, ln.dialAs(fmt.Sprintf("10.0.2.%d", i)))
				}
				before := len(seen.list())
				late := ln.dialAs("10.0.3.1")
				late.wantClosed(t)
				if n := len(seen.list()); n != before+1 {
					t.Errorf("%d were displaced or refused for a client among many that connect at once", n-before)
				}
				time.Sleep(f.opts.roomAfter)
				serve("10.0.3.1")
				for _, c := range all {
					if n := f.Stats().Connections; n > 32+served {
						t.Errorf("%d connections are open", n)
					}
					_ = c.Close()
				}
				f.end(t)
				if s := f.Stats(); s.Unauthenticated != 0 || len(f.visitors.of) != 0 || f.slots != 0 || f.perName["sasl"] != 0 {
					t.Errorf("left: %d visitors, %d slots", s.Unauthenticated, f.slots)
				}
			})
		})
	}
}

// An address that has as many as it may displaces its own, if they have been silent.
func TestAnAddressDisplacesItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ln := behindLogin(t, &users{}, echo, func(o *Options) { o.MaxUnauthenticatedPerIP = 2 })
		first, second := ln.dialAs("2001:db8::1"), ln.dialAs("2001:db8::2")
		early := ln.dialAs("2001:db8::3")
		early.wantClosed(t)
		time.Sleep(f.opts.roomAfter)
		first.send(t, frame(protocol.KeyApiVersions, 0, 9, nil)) // it is heard from
		first.want(t, 9)
		third := ln.dialAs("2001:db8::3")
		second.wantClosed(t)
		third.login(t, "bob", "secret")
		first.login(t, "bob", "secret")
		for _, c := range []*client{first, second, early, third} {
			_ = c.Close()
		}
		f.end(t)
	})
}
