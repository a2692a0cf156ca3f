package network

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// outgoing counts the answers that were encoded for clients and that their sockets have
// not taken, all connections together. What a handler gives to RespondRaw is its own to
// count. An answer can't be refused, so the bound works before and after it:
// while the count is over the bound a connection that has answers to read starts no
// request, and one that takes less than lagBytes in a second (and as much again at first)
// is closed. So there are no more than one answer for each connection beyond the bound, for
// as long as it takes to find out who does not read; before a large one its handler waits for
// room (Request.AwaitAnswerBudget), so that these are small.
type outgoing struct {
	size     int64
	held     atomic.Int64
	watching atomic.Bool

	mu   sync.Mutex
	room chan struct{} // closed when there is room; nil where it is not waited for
}

// countStep is how far a connection's bytes are from those that are counted, at most: few
// answers change a counter that all connections share.
const countStep = 16 << 10

func (o *outgoing) aboveLimit() bool { return o.held.Load() > o.size }

// add counts n bytes more or less, and returns how many there are.
func (o *outgoing) add(n int64) int64 {
	held := o.held.Add(n)
	if held <= o.size && held-n > o.size {
		o.mu.Lock()
		if o.room != nil {
			close(o.room)
			o.room = nil
		}
		o.mu.Unlock()
	}
	return held
}

// await waits until the count is within the bound, or ctx ends.
func (o *outgoing) await(ctx context.Context) {
	for o.aboveLimit() {
		o.mu.Lock()
		if !o.aboveLimit() { // who brings it down from now on finds the channel
			o.mu.Unlock()
			return
		}
		if o.room == nil {
			o.room = make(chan struct{})
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return
		}
	}
}

// AwaitAnswerBudget blocks while the answers that clients have not read yet are over the server's
// bound (Options.AnswerBytes), or until the connection ends: some seconds at most, for
// connections that don't read are closed then. A handler whose answer is large calls it
// before it makes the answer, where MayBlock allowed it.
func (r *Request) AwaitAnswerBudget() { r.conn.srv.outgoing.await(r.conn.ctx) }

// count has the connection's encoded answers counted. Caller holds mu.
func (c *conn) count() {
	n := c.encoded &^ (countStep - 1)
	if n == c.counted {
		return
	}
	o := &c.srv.outgoing
	held := o.add(int64(n - c.counted))
	c.counted = n
	if held > o.size && o.watching.CompareAndSwap(false, true) {
		time.AfterFunc(lagTime/4, c.srv.closeSlowReaders)
	}
}

var errUnread = errors.New("its answers are among those that fill the memory for answers")

// closeSlowReaders closes connections that take their answers too slowly, while there are too many.
func (s *Server) closeSlowReaders() {
	o := &s.outgoing
	if !o.aboveLimit() {
		o.watching.Store(false)
		if !o.aboveLimit() || !o.watching.CompareAndSwap(false, true) {
			return
		}
	}
	now := time.Now()
	s.mu.Lock()
	conns := s.snapshot()
	s.mu.Unlock()
	for c := range conns {
		c.mu.Lock()
		late := false
		switch {
		case c.counted == 0 || !c.writing || c.dead:
		case c.slowSince.IsZero():
			c.slowSince = now
		default:
			late = now.Sub(c.slowSince) > lagTime+time.Duration(c.writingBytes)*time.Second/lagBytes
		}
		if late {
			c.kill(ClosedSlowReader)
		}
		c.mu.Unlock()
		if late {
			s.limited.log(c, zap.InfoLevel, "client does not read its answers", errUnread)
		}
	}
	time.AfterFunc(lagTime/4, s.closeSlowReaders)
}
