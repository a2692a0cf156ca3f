package network

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A login that the broker did not try is no failed login: clients give up after one. They connect
// again when the connection ends without an answer.
func TestABusyBrokerRefusesNoLogin(t *testing.T) {
	for name, change := range map[string]func(*places){
		"the queue is full":       func(p *places) { p.free, p.queued = 0, maxPlaceQueue },
		"no place until too late": func(p *places) { p.free = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &users{}
				f, ln := behindLogin(t, u, echo, nil)
				c := ln.dial()
				c.send(t, choose(1, "WORD"))
				c.wantChoice(t, 1, 0)
				change(f.places)
				c.send(t, message(2, "hello"))
				c.wantClosed(t)
				c.Close()
				synctest.Wait()
				f.places.free, f.places.queued = newPlaces().free, 0
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

// The longest name of a user is that of a principal.
func TestTheLongestPrincipal(t *testing.T) {
	if err := checkPrincipal("User:" + strings.Repeat("n", 256)); err != nil {
		t.Error(err)
	}
	if err := checkPrincipal("User:" + strings.Repeat("n", 257)); err == nil {
		t.Error("a longer one is taken")
	}
}
