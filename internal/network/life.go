package network

import (
	"fmt"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/states"
)

// life is the state of a connection (see connlife) and how it ends. conn.mu guards it; only seen
// may be read without.
type life struct {
	connlife.State
	seen   atomic.Uint32 // State.Life
	reason CloseReason   // the first one; empty while the connection is open
	reset  bool          // the end is a reset; see Request.Reset
	served bool          // a request other than ApiVersions and those of a login was answered
}

// on records an event. Caller holds mu. An impossible event is a bug: the state stays as it is.
func (c *conn) on(e connlife.Event) {
	next, answer := c.life.On(e)
	if answer == states.Refused {
		if bufpool.Invariants {
			panic(fmt.Sprintf("network: a connection is %v: %v", c.life.State, e))
		}
		c.srv.opts.Log.Error("BUG: event is impossible in this state", zap.Stringer("state", c.life.State), zap.Stringer("event", e))
		return
	}
	if next.Life() != c.life.Life() {
		c.life.seen.Store(uint32(next.Life()))
	}
	c.life.State = next
}

// is reports whether the connection is in a state. Any goroutine may call it.
func (c *conn) is(l connlife.Life) bool { return c.life.seen.Load() == uint32(l) }

// ends records why the connection ends, unless it does already. Caller holds mu.
func (c *conn) ends(reason CloseReason) {
	if c.life.reason == "" {
		c.life.reason = reason
	}
}
