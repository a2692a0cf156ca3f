package network

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
)

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
				if s := f.Stats(); s.Unauthenticated != 0 || f.crowds.visitors.Len() != 0 || f.slots != 0 || f.perName["sasl"] != 0 {
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

// Addresses that open connections above the limits without end, and say nothing, keep out no
// broker.
func TestStrangersKeepNoBrokerOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taker := newHijacker()
		f := start(t, echo, func(o *Options) { o.Link, o.Limits.Connections = taker, 1 })
		ln := newPipeListener()
		must(t, f.Serve(&Listener{Name: "plain", Brokers: true}, ln))
		all := []*client{ln.dialAs("10.0.0.1")}
		all[0].send(t, frame(keyMetadata, 1, 1, nil))
		all[0].want(t, 1)
		for i := range 4 * maxCallers {
			all = append(all, ln.dialAs(fmt.Sprintf("10.0.2.%d", i%2)))
			if n := f.Stats().Connections; n > 1+maxCallers {
				t.Fatalf("%d connections are open", n)
			}
			if i%maxCallers == 0 {
				c := ln.dialAs("10.0.0.3")
				all = append(all, ln.dialAs("10.0.2.1"), c)
				c.send(t, hello())
				_ = (<-taker.conns).Close()
			}
		}
		for _, c := range all {
			_ = c.Close()
		}
		f.end(t)
		if f.slots != 0 || f.crowds.callers.Len() != 0 {
			t.Errorf("left over: %d slots, %d callers", f.slots, f.crowds.callers.Len())
		}
	})
}

// Logins that fail and wait for their refusals keep out no client, not even one of the same
// address, and have bounds of their own.
func TestFailedLoginsKeepNobodyOut(t *testing.T) {
	for name, limit := range map[string]func(*Options){
		"of an address":   func(o *Options) { o.MaxUnauthenticatedPerIP = 4 },
		"unauthenticated": func(o *Options) { o.MaxUnauthenticated = 4 },
		"total":           func(o *Options) { o.Limits.Connections = 8 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, ln := behindLogin(t, &users{delay: time.Minute}, echo, limit)
				var all []*client
				for i := range 20 {
					c := ln.dialAs("10.0.0.1")
					c.send(t, choose(1, "WORD"))
					c.wantChoice(t, 1, 0)
					c.send(t, message(2, "hello"))
					c.wantMessage(t, 2, 0, "go on")
					c.send(t, message(3, "bob wrong"))
					synctest.Wait()
					if n := f.Stats().LoginsDelayed; n < min(i+1, 4) || n > 8 {
						t.Fatalf("%d refusals wait after %d failed logins", n, i+1)
					}
					all = append(all, c)
				}
				began := time.Now()
				honest := ln.dialAs("10.0.0.1")
				honest.login(t, "bob", "secret")
				if waited := time.Since(began); waited > 0 {
					t.Errorf("an honest client logged in after %v", waited)
				}
				for _, c := range append(all, honest) {
					_ = c.Close()
				}
				f.end(t)
				if f.slots != 0 || f.crowds.refused.Len() != 0 {
					t.Errorf("left over: %d slots, %d refused", f.slots, f.crowds.refused.Len())
				}
			})
		})
	}
}

// A few connections from the machine of the broker are served above the limits of all connections
// and of a listener, so that an administrator gets in; no others are, nor addresses that may have
// none.
func TestTheMachineOfTheBrokerHasAWayIn(t *testing.T) {
	for name, limit := range map[string]func(*Limits){
		"all":      func(l *Limits) { l.Connections = 1 },
		"listener": func(l *Limits) { l.Listeners = map[string]int{"plain": 1} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, echo, func(o *Options) { limit(&o.Limits); o.LocalPlaces = 2 })
				ln := newPipeListener()
				must(t, f.Serve(&Listener{Name: "plain"}, ln))
				var all []*client
				for _, from := range []string{"10.0.0.1", "127.0.0.1", "127.0.0.1"} {
					c := ln.dialAs(from)
					all = append(all, c)
					c.send(t, frame(keyMetadata, 1, 1, nil))
					c.want(t, 1)
				}
				ln.dialAs("10.0.0.2").wantClosed(t)
				ln.dialAs("127.0.0.1").wantClosed(t)
				_ = all[2].Close()
				synctest.Wait()
				with := f.opts.Limits
				with.PerIPOf = map[netip.Addr]int32{netip.MustParseAddr("127.0.0.1"): 0}
				f.SetLimits(with)
				ln.dialAs("127.0.0.1").wantClosed(t)
				for _, c := range all {
					_ = c.Close()
				}
				f.end(t)
				if f.slots != 0 || f.locals != 0 {
					t.Errorf("left over: %d slots, %d local places", f.slots, f.locals)
				}
			})
		})
	}
}

// A place of the broker's machine makes no room for clients of elsewhere: the limit holds however
// long local connections do not log in.
func TestLocalPlacesMakeNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ln := behindLogin(t, &users{}, echo, func(o *Options) { o.Limits.Connections, o.LocalPlaces = 4, 2 })
		var all []*client
		for range 4 {
			c := ln.dialAs("10.0.0.1")
			c.login(t, "bob", "secret")
			all = append(all, c)
		}
		for range 3 {
			all = append(all, ln.dialAs("127.0.0.1")) // does not log in
			time.Sleep(2 * f.opts.roomAfter)
			for _, from := range []string{"10.0.9.1", "127.0.0.1"} {
				all = append(all, ln.dialAs(from))
			}
			synctest.Wait()
			if n := f.Stats().Connections; n > 6 {
				t.Errorf("%d connections are open: 4 and 2 local ones may be", n)
			}
		}
		for _, c := range all {
			_ = c.Close()
		}
		f.end(t)
		if f.slots != 0 || f.locals != 0 {
			t.Errorf("left over: %d slots, %d local places", f.slots, f.locals)
		}
	})
}
