package network

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// outgoing counts the encoded answers, of all connections together, that sockets have not taken
// yet. A handler counts what it passes to RespondRaw itself. An answer can't be refused, so the
// bound acts before and after it. While the count is over the bound, a connection that has answers
// to read starts no request, and a connection whose write takes longer than lagTime plus a second
// for every lagBytes of it is closed. Beyond the bound there is therefore at most one answer for
// each connection, until the connections that don't read are closed. The handler of an answer that
// may be large waits for its memory first (Request.ReserveAnswer), so these answers are small.
type outgoing struct {
	size     int64
	held     atomic.Int64
	watching atomic.Bool

	mu sync.Mutex
	// reserved is for answers that are being built: of handlers that answer at once, and of those
	// that may wait.
	reserved [2]int64
	// belowLimit is closed when the count is within the bound, or a reservation ends; nil: no
	// handler waits.
	belowLimit chan struct{}
}

// countStep bounds the difference between a connection's bytes and those that are counted: few
// answers change the counter that all connections share.
const countStep = 16 << 10

func (o *outgoing) aboveLimit() bool { return o.held.Load() > o.size }

// add changes the count by n bytes and returns it.
func (o *outgoing) add(n int64) int64 {
	held := o.held.Add(n)
	if held <= o.size && held-n > o.size {
		o.mu.Lock()
		if o.belowLimit != nil {
			close(o.belowLimit)
			o.belowLimit = nil
		}
		o.mu.Unlock()
	}
	return held
}

// await waits until the count is within the bound, or ctx ends.
func (o *outgoing) await(ctx context.Context) {
	for o.aboveLimit() {
		o.mu.Lock()
		if !o.aboveLimit() { // a goroutine that lowers the count from now on finds the channel
			o.mu.Unlock()
			return
		}
		if o.belowLimit == nil {
			o.belowLimit = make(chan struct{})
		}
		belowLimit := o.belowLimit
		o.mu.Unlock()
		select {
		case <-belowLimit:
		case <-ctx.Done():
			return
		}
	}
}

// ReserveAnswer blocks until there is memory for an answer of at most n bytes, or until the
// connection ends. The request returns it with its answer. An answer that is larger than what is
// free is alone: no other of its kind is built before it is answered, which is one that waits for
// something or one that does not. So beyond the bound, there is one answer of each kind that is
// being built, or has been. A handler calls it once, before it builds the answer, if MayBlock
// returned true.
func (r *Request) ReserveAnswer(n int64, waits bool) {
	o, kind := &r.conn.srv.outgoing, 0
	if waits {
		kind = 1
	}
	for r.conn.span.ctx.Err() == nil {
		o.mu.Lock()
		held, reserved := o.held.Load(), o.reserved[kind]
		if held <= o.size && (reserved == 0 || held+reserved+n <= o.size) {
			o.reserved[kind] += n
			o.mu.Unlock()
			r.reserved, r.reservedKind = n, kind
			return
		}
		if o.belowLimit == nil {
			o.belowLimit = make(chan struct{})
		}
		changed := o.belowLimit
		o.mu.Unlock()
		select {
		case <-changed:
		case <-r.conn.span.ctx.Done():
		}
	}
}

// release gives the memory of an answer back.
func (o *outgoing) release(n int64, kind int) {
	if n == 0 {
		return
	}
	o.mu.Lock()
	o.reserved[kind] -= n
	if o.belowLimit != nil {
		close(o.belowLimit)
		o.belowLimit = nil
	}
	o.mu.Unlock()
}

// AwaitAnswerBudget blocks while the answers that clients have not read exceed the server's bound
// (Options.AnswerBytes), or until the connection ends. That takes seconds at most, since
// connections that don't read are closed then. A handler with a large answer calls it before it
// builds the answer, if MayBlock returned true.
func (r *Request) AwaitAnswerBudget() { r.conn.srv.outgoing.await(r.conn.span.ctx) }

// HasAnswerBudget reports whether AwaitAnswerBudget would not block.
func (r *Request) HasAnswerBudget() bool {
	return !r.conn.srv.outgoing.aboveLimit() || r.conn.span.ctx.Err() != nil
}

// count updates the server's count of the connection's encoded answers. Caller holds mu.
func (c *conn) count() {
	n := c.queue.encoded &^ (countStep - 1)
	if n == c.queue.counted {
		return
	}
	o := &c.srv.outgoing
	held := o.add(int64(n - c.queue.counted))
	c.queue.counted = n
	if held > o.size && o.watching.CompareAndSwap(false, true) {
		time.AfterFunc(lagTime/4, c.srv.closeSlowReaders)
	}
}

var errUnread = errors.New("unread answers exceed their memory budget, and this client reads too slowly")

// closeSlowReaders closes connections that read their answers too slowly, while the count is over
// the bound.
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
		late := c.queue.counted > 0 && c.life.Writes() && c.life.Alive() && c.queue.slow(now)
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
