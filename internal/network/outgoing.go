package network

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/share"
)

// outgoing counts the encoded answers, of all connections together, that sockets have not taken
// yet. A handler counts what it passes to RespondRaw itself. An answer can't be refused, so the
// bound acts before and after it. While the count is over the bound, a connection that has answers
// to read starts no request, and a connection whose write takes longer than lagTime plus a second
// for every lagBytes of it is closed. Beyond the bound there is therefore at most one answer for
// each connection, until the connections that don't read are closed. The handler of an answer that
// may be large waits for its memory first (Request.ReserveAnswer), so these answers are small.
//
// The bytes of RespondRaw count against budgets of their owners. If a handler waits for such a
// budget (Request.AwaitReaders), connections that keep such bytes and read too slowly are closed,
// too.
type outgoing struct {
	size     int64
	held     atomic.Int64
	waiting  atomic.Int64 // handlers in AwaitReaders
	watching atomic.Bool

	// turns are those of handlers that wait for the memory of an answer, addresses in turn. Those
	// of different kinds do not wait for each other (see kindOf).
	turns [kinds]*share.Places

	mu sync.Mutex
	// reserved is for answers that are being built, by kind.
	reserved [kinds]int64
	// belowLimit is closed when the count is within the bound, or a reservation ends; nil: no
	// handler waits.
	belowLimit chan struct{}
}

// Building says what a handler may wait for while it has the memory of an answer.
type Building int

// What handlers may wait for, in an order in which none waits for an earlier one.
const (
	AtOnce    Building = iota
	Waiting            // for a disk or a shard
	Gathering          // for answers that other brokers build, with memory of theirs
	buildings
)

// kinds of reserved answers: for each Building, the answers that fit into the bound and those that
// do not.
const kinds = 2 * buildings

func newTurns() (turns [kinds]*share.Places) {
	for kind := range turns {
		turns[kind] = share.Turns()
	}
	return turns
}

// kindOf returns the kind of an answer. One that does not fit waits until it is alone. If others
// waited behind it, one handler whose disk hangs would stop them all. And two brokers that gather
// answers of each other would wait for each other for ever.
func (o *outgoing) kindOf(n int64, how Building) (kind int) {
	kind = int(how)
	if n > o.size {
		kind += int(buildings)
	}
	return kind
}

// countStep bounds the difference between a connection's bytes and those that are counted: few
// answers change the counter that all connections share.
const countStep = 16 << 10

func (o *outgoing) aboveLimit() bool { return o.held.Load() > o.size }

// scarce reports whether connections that read too slowly must be closed.
func (o *outgoing) scarce() bool { return o.aboveLimit() || o.waiting.Load() > 0 }

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

// ReserveAnswer blocks until there is memory for an answer of at most n bytes. It returns false if
// Gone has ended: then the answer must not be built, since connections end together when memory is
// scarce. The request returns the memory with its answer. An answer that is larger than what is
// free is alone: no other of its kind (kindOf) is built before it is answered. So beyond the bound,
// there is one answer of each kind that is being built, or has been. Those that wait take turns by
// their addresses. A handler calls it once, before it builds the answer, if MayBlock returned true.
func (r *Request) ReserveAnswer(n int64, how Building) bool {
	o := &r.conn.srv.outgoing
	kind, gone := o.kindOf(n, how), r.Gone()
	if o.turns[kind].Take(gone, nil, origin.Of(r.conn.ip)) != nil {
		return false
	}
	defer o.turns[kind].Leave()
	for gone.Err() == nil {
		o.mu.Lock()
		held, reserved := o.held.Load(), o.reserved[kind]
		if held <= o.size && (reserved == 0 || held+reserved+n <= o.size) {
			o.reserved[kind] += n
			o.mu.Unlock()
			r.reserved, r.reservedKind = n, kind
			return true
		}
		if o.belowLimit == nil {
			o.belowLimit = make(chan struct{})
		}
		changed := o.belowLimit
		o.mu.Unlock()
		select {
		case <-changed:
		case <-gone.Done():
		}
	}
	return false
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
// (Options.AnswerBytes), or until Gone ends. That takes seconds at most, since connections that
// don't read are closed then. A handler with a large answer calls it before it builds the answer,
// if MayBlock returned true.
func (r *Request) AwaitAnswerBudget() { r.conn.srv.outgoing.await(r.Gone()) }

// HasAnswerBudget reports whether AwaitAnswerBudget would not block.
func (r *Request) HasAnswerBudget() bool {
	return !r.conn.srv.outgoing.aboveLimit() || r.conn.span.ctx.Err() != nil
}

// AwaitReaders calls wait, which blocks until others have returned memory that their answers hold,
// or until its context ends, which is Gone. Meanwhile connections that read such answers too slowly
// are closed. Any goroutine may call it that may block.
func (r *Request) AwaitReaders(wait func(context.Context) error) error {
	return r.Readers().Await(r.Gone(), wait)
}

// Readers are the clients of a server, who read its answers.
type Readers struct{ srv *Server }

// Readers returns the clients of the request's server. They may be kept for longer than the
// request.
func (r *Request) Readers() Readers { return Readers{r.conn.srv} }

// Await is Request.AwaitReaders with another context, for memory that is not only the request's.
func (x Readers) Await(ctx context.Context, wait func(context.Context) error) error {
	o := &x.srv.outgoing
	o.waiting.Add(1)
	defer o.waiting.Add(-1)
	x.srv.watchReaders()
	return wait(ctx)
}

// Gone returns a context that ends when the connection has ended, or its client has closed its
// side: no one waits for the answer any more. Done costs a system call on the connection's reader.
func (r *Request) Gone() context.Context { return gone{r.conn.span.client, r} }

type gone struct {
	context.Context
	r *Request
}

// Done implements context.Context. What asks for it waits, and the reader does not read meanwhile.
func (g gone) Done() <-chan struct{} {
	c := g.r.conn
	c.mu.Lock()
	if c.blocked.key == g.r.Key && !c.blocked.since.IsZero() {
		c.watchClient()
	}
	c.mu.Unlock()
	return g.Context.Done()
}

// Holder returns who holds the memory of the request's answer: the client's address as it counts
// (origin.Of), and whether its connection was new when the request came: it had not read answers of
// provenBytes.
func (r *Request) Holder() bufpool.Holder[netip.Prefix] {
	return bufpool.Holder[netip.Prefix]{Origin: origin.Of(r.conn.ip), New: !r.proven}
}

// provenBytes is how many bytes of answers the client of a connection has read that is no longer
// new: more than the receive buffer of one that reads nothing, which grows only with what it reads
// (128 KiB on Linux).
const provenBytes = 256 << 10

// proves reports whether the connection is not new. Caller holds mu.
func (c *conn) proves() bool {
	if !c.proven && c.queue.written >= provenBytes {
		c.proven = c.queue.written-unsent(c.sock.nc) >= provenBytes
	}
	return c.proven
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
	if held > o.size {
		c.srv.watchReaders()
	}
}

// watchReaders starts the timer that closes slow readers while memory is scarce.
func (s *Server) watchReaders() {
	if s.outgoing.watching.CompareAndSwap(false, true) {
		// After Close, all connections end and free their memory, which ends the timer.
		time.AfterFunc(lagTime/4, s.closeSlowReaders)
	}
}

var errUnread = errors.New("unread answers exceed their memory budget, and this client reads too slowly")

// closeSlowReaders closes connections that read their answers too slowly, while memory is scarce.
func (s *Server) closeSlowReaders() {
	o := &s.outgoing
	if !o.scarce() {
		o.watching.Store(false)
		if !o.scarce() || !o.watching.CompareAndSwap(false, true) {
			return
		}
	}
	now, encoded, raw := time.Now(), o.aboveLimit(), o.waiting.Load() > 0
	s.mu.Lock()
	conns := s.snapshot()
	s.mu.Unlock()
	for c := range conns {
		c.mu.Lock()
		of := encoded && c.queue.counted > 0 || raw && c.queue.raw > 0
		late := of && c.life.Writes() && c.life.Alive() && (c.queue.slow(now) || c.out.stuck(now))
		if late {
			c.kill(ClosedSlowReader)
		}
		c.mu.Unlock()
		if late {
			s.limited.log(c, zap.InfoLevel, "client does not read its answers", errUnread)
		}
	}
	time.AfterFunc(lagTime/4, s.closeSlowReaders) // after Close, until the last connection has ended
}
