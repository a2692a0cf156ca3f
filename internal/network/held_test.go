package network

import (
	"io"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
)

// A connection of an address that made too many is not served, and closed after the wait.
func TestAConnectionOfAFastAddressIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := 3 * time.Second
		f := start(t, echo, func(o *Options) { o.Connecting = func(netip.Addr) time.Duration { return wait } })
		defer f.end(t)
		began := time.Now()
		c := f.pipe.dial()
		defer c.Close()
		c.sendAsync(frame(keyMetadata, 1, 1, nil))
		c.wantClosed(t)
		if held := time.Since(began); held != wait {
			t.Errorf("closed after %v", held)
		}
		wait = 0
		served := f.pipe.dial()
		defer served.Close()
		served.send(t, frame(keyMetadata, 1, 1, nil))
		served.want(t, 1)
	})
}

// The Server's end closes connections that are held, and no more are held than the bound.
func TestHeldConnectionsEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, echo, func(o *Options) { o.Connecting = func(netip.Addr) time.Duration { return time.Hour } })
		var open []io.Closer
		defer func() {
			for _, c := range open {
				_ = c.Close()
			}
		}()
		for range maxHeld {
			open = append(open, f.pipe.dial())
		}
		synctest.Wait()
		began := time.Now()
		more, last := f.pipe.dial(), f.pipe.dial()
		more.wantClosed(t)
		last.wantClosed(t)
		f.end(t)
		if time.Since(began) > time.Second {
			t.Errorf("closed after %v", time.Since(began))
		}
		if len(f.held) != 0 {
			t.Errorf("%d are held", len(f.held))
		}
	})
}

// A muted connection holds no memory of a request, is not idle, and its end does not wait.
func TestAMutedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, func(r *Request) {
			if r.CorrelationID == 1 {
				r.Throttle(time.Hour)
			}
			echo(r)
		}, nil)
		defer f.end(t)
		c, ends := f.pipe.dial(), f.pipe.dial()
		defer c.Close()
		defer ends.Close()
		for _, x := range []*client{c, ends} {
			x.send(t, frame(keyMetadata, 1, 1, nil))
			x.want(t, 1)
		}
		began := time.Now()
		c.sendAsync(frame(protocol.KeyProduce, 3, 2, make([]byte, 1000)))
		synctest.Wait()
		if s := f.Stats(); s.Produce.Used != 0 || s.ProduceArriving.Frames != 0 {
			t.Errorf("a muted connection holds memory: %+v", s)
		}
		f.endSession(f.Connections()[1].ID)
		ends.wantClosed(t)
		if time.Since(began) > time.Second {
			t.Errorf("a muted connection whose session ended was closed after %v", time.Since(began))
		}
		c.want(t, 2)
		if waited := time.Since(began); waited != time.Hour {
			t.Errorf("the muted connection was read after %v", waited)
		}
	})
}

// endSession ends the session of a connection.
func (f *fixture) endSession(id uint64) {
	f.mu.Lock()
	var found *Session
	for c := range f.conns {
		if c.id == id {
			found = c.session
		}
	}
	f.mu.Unlock()
	found.End()
}

// A connection above the rate of its listener is served late, and never refused; the Server's end
// does not wait for that.
func TestAConnectionAboveTheRateIsServedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := 3 * time.Second
		f := start(t, echo, func(o *Options) { o.Accepting = func(string) time.Duration { return wait } })
		began := time.Now()
		c := f.pipe.dial()
		defer c.Close()
		c.send(t, frame(keyMetadata, 1, 1, nil))
		c.want(t, 1)
		if late := time.Since(began); late != wait {
			t.Errorf("served after %v", late)
		}
		wait = time.Hour
		never := f.pipe.dial()
		defer never.Close()
		synctest.Wait()
		began = time.Now()
		f.end(t)
		if time.Since(began) > time.Second {
			t.Errorf("ended after %v", time.Since(began))
		}
		never.wantClosed(t)
	})
}

// The listener of other brokers has no rate.
func TestBrokersAreNotServedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, echo, func(o *Options) { o.Accepting = func(string) time.Duration { return time.Hour } })
		defer f.end(t)
		f.name.Brokers = true
		began := time.Now()
		c := f.pipe.dial()
		defer c.Close()
		c.send(t, frame(keyMetadata, 1, 1, nil))
		c.want(t, 1)
		if late := time.Since(began); late > 0 {
			t.Errorf("served after %v", late)
		}
	})
}

// Connections that are held count against the limits, and make room for those that are served: one
// address that connects too often uses up no descriptors, and keeps nothing out.
func TestHeldConnectionsCount(t *testing.T) {
	for name, limit := range map[string]func(*Options){
		"total":   func(o *Options) { o.Limits.Connections = 4 },
		"address": func(o *Options) { o.Limits.PerIP = 4 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wait := time.Hour
				f := start(t, echo, func(o *Options) {
					limit(o)
					o.Connecting = func(netip.Addr) time.Duration { return wait }
				})
				var open []io.Closer
				for i := range 10 {
					c := f.pipe.dial()
					synctest.Wait()
					if open = append(open, c); i >= 4 {
						c.wantClosed(t)
					}
				}
				if f.slots != 4 || len(f.held) != 4 {
					t.Errorf("%d are held, with %d slots", len(f.held), f.slots)
				}
				wait = 0
				for range 4 {
					c := f.pipe.dial()
					open = append(open, c)
					c.send(t, frame(keyMetadata, 1, 1, nil))
					c.want(t, 1)
				}
				if f.slots != 4 || len(f.held) != 0 {
					t.Errorf("%d are held, with %d slots", len(f.held), f.slots)
				}
				for _, c := range open {
					_ = c.Close()
				}
				f.end(t)
				if f.slots != 0 || len(f.perIP) != 0 {
					t.Errorf("left over: %d slots", f.slots)
				}
			})
		})
	}
}

// A connection that is held makes room at the limit at which it counts, and not at another one.
func TestAHeldConnectionMakesRoomAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := time.Duration(0)
		f, _ := behindLogin(t, &users{}, echo, func(o *Options) {
			o.Limits.Connections, o.MaxUnauthenticated = 4, 2
			o.Connecting = func(netip.Addr) time.Duration { return wait }
		})
		ln := newPipeListener()
		must(t, f.Serve(&Listener{Name: "clients", SASL: true}, ln))
		all := []*client{ln.dialAs("10.0.0.1"), ln.dialAs("10.0.0.2")}
		synctest.Wait()
		wait = time.Hour
		all = append(all, ln.dialAs("10.0.0.3"), ln.dialAs("10.0.0.4"))
		synctest.Wait()
		if len(f.held) != 2 || f.slots != 4 {
			t.Fatalf("%d are held, with %d slots", len(f.held), f.slots)
		}
		wait = 0
		c := ln.dialAs("10.0.0.5")
		synctest.Wait()
		if n := f.crowds.visitors.Len(); n != 2 {
			t.Errorf("%d have not logged in", n)
		}
		for _, c := range append(all, c) {
			_ = c.Close()
		}
		f.end(t)
	})
}
