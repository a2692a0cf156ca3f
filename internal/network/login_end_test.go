package network

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/share"
)

// A broker that does not know its users yet refuses no login, either.
func TestABrokerThatStartsRefusesNoLogin(t *testing.T) {
	f, ln := behindLogin(t, &users{}, echo, nil)
	c := ln.dial()
	c.sendAsync(choose(1, "OTHER"))
	c.wantClosed(t)
	c.Close()
	f.end(t)
}

// hold takes places, without giving them back.
func hold(t *testing.T, p *share.Places, n int) {
	t.Helper()
	for range n {
		must(t, p.Take(t.Context(), nil, netip.Prefix{}))
	}
}

// anyIP returns the address of one of the clients.
func (s *Server) anyIP() netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		return c.ip
	}
	return netip.Addr{}
}

// A login that the broker did not try is no failed login: clients give up after one. They connect
// again when the connection ends without an answer.
func TestABusyBrokerRefusesNoLogin(t *testing.T) {
	for name, waiting := range map[string]int{"the queue is full": share.MaxLogins, "no place until too late": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &users{}
				f, ln := behindLogin(t, u, echo, nil)
				c := ln.dial()
				c.send(t, choose(1, "WORD"))
				c.wantChoice(t, 1, 0)
				hold(t, f.places, share.Half())
				ctx, cancel := context.WithCancel(t.Context())
				for range waiting { // the client's address has the most, so that it is refused
					go func() {
						if f.places.Take(ctx, nil, origin.Of(f.anyIP())) == nil {
							f.places.Leave()
						}
					}()
				}
				synctest.Wait()
				c.send(t, message(2, "hello"))
				c.wantClosed(t)
				c.Close()
				synctest.Wait()
				cancel()
				f.end(t)
			})
		})
	}
}

// A request that waits behind another one until the session has expired is not served.
func TestARequestThatWaitsMayExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParked()
		f, ln := behindLogin(t, &users{}, p.handle, nil)
		c := ln.dial()
		c.login(t, "bob", "late")
		c.sendAsync(frame(keyMetadata, 3, 4, nil), frame(keyMetadata, 3, 5, nil))
		r := p.next()
		time.Sleep(6 * time.Second)
		echo(r)
		c.want(t, 4) // it had started
		c.wantClosed(t)
		c.Close()
		synctest.Wait()
		select {
		case <-p.ch:
			t.Error("a request of an expired session is served")
		default:
		}
		f.end(t)
	})
}

// What is parked for a user ends with the session: the user was removed, and must not get what
// happens later.
func TestTheEndOfASessionEndsWhatIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &users{}
		f, ln := behindLogin(t, u, func(r *Request) { r.OnClose(func() { echo(r) }) }, nil)
		c := ln.dial()
		c.login(t, "bob", "secret")
		c.send(t, frame(keyMetadata, 3, 4, nil))
		synctest.Wait()
		u.ends[0]()
		c.want(t, 4)
		c.wantClosed(t)
		c.Close()
		synctest.Wait()
		f.end(t)
	})
}

// As in Kafka (KIP-368), a session that expires is no reason to end what waits: a request that was
// parked before is answered when it is due, and the next request closes the connection.
func TestWhatIsParkedIsAnsweredAfterTheSessionHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parked := make(chan *Request, 2)
		f, ln := behindLogin(t, &users{}, func(r *Request) { parked <- r }, nil)
		c := ln.dial()
		lasts := c.login(t, "bob", "late")
		c.send(t, frame(keyMetadata, 3, 4, nil))
		time.Sleep(lasts + time.Second)
		echo(<-parked)
		c.want(t, 4)
		c.sendAsync(frame(keyMetadata, 3, 5, nil))
		c.wantClosed(t)
		c.Close()
		synctest.Wait()
		f.end(t)
		if len(parked) > 0 {
			t.Error("a request after the end is served")
		}
	})
}

// The longest name of a user is that of a principal. No principal has what logs and rules cannot
// hold, whatever it comes from: a certificate may have any bytes.
func TestNamesOfPrincipals(t *testing.T) {
	for name, ok := range map[string]bool{"admin": true, "CN=a,O=b": true, "a\x00b": false, "a\nb": false, "a\u0085": false, "a\x7f": false,
		strings.Repeat("n", 256): true, strings.Repeat("n", 257): false, "\xff": false} {
		if err := checkPrincipal("User:" + name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	if checkPrincipal("") == nil {
		t.Error("an empty one is taken")
	}
}

// A session ends by the clock and by the time since the login, whichever is first: setting the
// clock back does not help.
func TestAClockThatIsSetBack(t *testing.T) {
	began := time.Now()
	s := &Session{began: began, Expires: began.Add(time.Minute)}
	for _, c := range []struct {
		clock, since time.Duration
		over         bool
	}{{0, 59 * time.Second, false}, {-time.Hour, time.Minute, true}, {time.Minute, time.Second, true}, {-time.Hour, time.Second, false}} {
		if got := s.over(began.Round(0).Add(c.clock), c.since); got != c.over {
			t.Errorf("%v later by the clock, %v since the login: %v", c.clock, c.since, got)
		}
	}
}

// A failed login ends its connection, the first one and a later one: nothing behind it is served,
// and no other attempt.
func TestNothingFollowsAFailedLogin(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			u := &users{}
			f, ln := behindLogin(t, u, func(*Request) { t.Error("a request is served") }, nil)
			c := ln.dial()
			if again {
				c.login(t, "bob", "late")
			}
			c.sendAsync(choose(4, "WORD"), message(5, "wrong"), choose(6, "WORD"), frame(keyMetadata, 3, 7, nil))
			c.wantChoice(t, 4, 0)
			c.wantMessage(t, 5, kerr.SaslAuthenticationFailed.Code, "who?")
			began := time.Now()
			c.wantClosed(t)
			if d := time.Since(began); d > time.Second {
				t.Errorf("closed after %v", d)
			}
			c.Close()
			synctest.Wait()
			f.end(t)
		})
	}
}

// Where clients log in with SASL, a link needs a certificate that was verified. A session ends with
// the certificate that the client has shown.
func TestCertificatesOfListenersWithSASL(t *testing.T) {
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	cert := testCA().leaf(t, "alice", end)
	taker := newHijacker()
	f := start(t, echo, func(o *Options) { o.Link, o.Authenticator = taker, &users{} })
	addr := f.secured(t, tls.VerifyClientCertIfGiven, func(l *Listener) { l.Brokers, l.SASL = true, true })
	c := dialTLS(t, addr, nil)
	c.send(t, hello())
	c.wantClosed(t)
	c.Close()
	c = dialTLS(t, addr, cert)
	c.send(t, hello())
	nc := <-taker.conns
	_ = nc.Close()
	c.Close()
	c = dialTLS(t, addr, cert)
	if d := c.login(t, "bob", "secret"); d <= 0 || d > time.Until(end)+time.Minute {
		t.Errorf("the session lasts %v, the certificate %v", d, time.Until(end))
	}
	c.Close()
	f.end(t)
}

// The broker's log says in words why a choice of the mechanism was refused, and what to change.
func TestTheLogSaysWhyAMechanismIsRefused(t *testing.T) {
	for want, messages := range map[string][][]byte{
		`the client wants the mechanism "GSSAPI", and the listener has WORD, OTHER: set sasl.mechanism at the client`: {choose(1, "GSSAPI")},
		"the client uses version 0 of SaslHandshake": {
			request(1, &kmsg.SASLHandshakeRequest{Mechanism: "WORD"})},
		"a second SaslHandshake in one login": {choose(1, "WORD"), choose(2, "WORD")},
	} {
		core, logs := observer.New(zap.InfoLevel)
		f, ln := behindLogin(t, &users{}, func(*Request) { t.Error("a request is served") }, func(o *Options) { o.Log = zap.New(core) })
		c := ln.dial()
		for i, m := range messages {
			c.send(t, m)
			c.want(t, int32(i+1))
		}
		c.wantClosed(t)
		c.Close()
		f.end(t)
		lines := logs.FilterMessage("a login failed").All()
		if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["error"]), want) {
			t.Errorf("%q is not in %v", want, lines)
		}
	}
}
