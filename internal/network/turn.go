package network

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// A request of a client that is in debt with a quota waits for its turn before it is read: on a new
// connection as on an old one, because the debt is that of all who share the quota. It costs a read
// buffer meanwhile. Its turn is asked for when its client id is known and earlier requests let it
// start. A connection whose answers told its client to wait (Request.Throttle) is not read for that
// time, so its next request waits here only if others have used the quota meanwhile.

// turnLook is how often a request that waits asks again: quotas may have changed.
const turnLook = time.Second

var errGone = errors.New("the client hung up while its request waited for a quota")

// turn asks for the turn of a request. frame has its header, at least up to what is distinct of the
// client id.
func (c *conn) turn(h protocol.Header, frame []byte, size int) quota.Turn {
	if !c.hasTurns(h.Key) {
		return quota.Turn{}
	}
	id := frame[minFrame:]
	id = quota.Distinct(id[:min(clientIDLen(frame), len(id))])
	if quota.Distinct(c.clientID) != string(id) {
		c.named(id)
	}
	return c.srv.opts.Quotas.Turn(c.session, quota.Distinct(c.clientID), h.Key, h.Version, size)
}

// hasTurns reports whether quotas apply to a request: not to those of other brokers and of a login.
func (c *conn) hasTurns(key int16) bool {
	q := c.srv.opts.Quotas
	return q != nil && q.Any() && !c.login.pending && key != protocol.KeyLink && !c.mayLogin(key)
}

// clientIDLen returns the length of the client id in a header, 0 for none.
func clientIDLen(header []byte) int {
	return max(0, int(int16(binary.BigEndian.Uint16(header[protocol.HeaderPrefix:]))))
}

// awaitTurn blocks the reader until it is the turn of the request whose prefix is buffered. If its
// client hangs up, the request waits no longer than answers may ask a client to wait: most probably
// the client has sent it again, on another connection.
func (c *conn) awaitTurn(h protocol.Header, size int) (quota.Turn, error) {
	if !c.hasTurns(h.Key) {
		return quota.Turn{}, nil
	}
	if err := c.fill(4 + minFrame); err != nil {
		return quota.Turn{}, err
	}
	n := min(clientIDLen(c.in.unread()[4:]), quota.MaxOwner+1, size-minFrame)
	if err := c.fill(4 + minFrame + n); err != nil {
		return quota.Turn{}, err
	}
	t := c.turn(h, c.in.unread()[4:], size)
	if wait := t.Wait(); wait > 0 {
		c.in.since = time.Time{}
		c.srv.opts.Observer.Throttled(h.Key, wait)
		if err := c.sleepUntil(&t); err != nil {
			t.Leave()
			return quota.Turn{}, err
		}
	}
	return t, nil
}

// sleepUntil blocks the reader until a turn comes.
func (c *conn) sleepUntil(t *quota.Turn) error {
	c.beforeBlocking()
	c.mu.Lock()
	c.watchClient()
	c.mu.Unlock()
	began := time.Now()
	for wait := t.Wait(); wait > 0; wait = t.Wait() {
		if c.span.client.Err() != nil && time.Since(began) >= quota.MaxWait {
			return errGone
		}
		until := time.Now().Add(wait)
		c.mute(until)
		if !c.sleepFor(min(wait, turnLook)) {
			return errStopped
		}
		c.muteUntil.CompareAndSwap(until.UnixNano(), 0)
	}
	c.in.last = time.Now()
	return nil
}
