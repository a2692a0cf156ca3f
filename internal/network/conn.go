package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/origin"
)

// conn is one client connection. Its parts have one owner each: what never changes, what mu guards,
// and what belongs to the goroutine with the reading or the writing role (see connlife).
type conn struct {
	srv         *Server
	listener    *Listener
	peer, local net.Addr
	ip          netip.Addr
	opened      time.Time
	slot        slot
	over        RefuseReason // the limit above which it was accepted: its first request must be a broker's
	span        span
	adopted     func() // called at the end of a connection that Adopt made; nil for others

	// Of the reading role.
	in      input
	arrival arrival
	batch   groupcommit.Batch // of the reader goroutine
	login   login
	kept    any // see Request.Keep; written with mu held

	out output // of the writing role

	// Written by the reading role with mu held: it reads them without the lock, all others with it.
	identity
	blocked blocking

	// Any goroutine uses them.
	crowd     *origin.Crowd[*conn] // in which it is; guarded by Server.mu
	awaited   atomic.Int64         // before the login: unix ns since when the broker waits for the client, 0 while it does not
	muteUntil atomic.Int64         // unix ns; the reader pauses until then

	mu      sync.Mutex
	rcond   sync.Cond // the reader waits until a request may start
	wcond   sync.Cond // the writer waits for an answer to write
	life    life
	queue   queue
	proven  bool       // it is not new, see proves
	starved starvation // the reader's wait for memory
	sock    socket
	poll    polling
	expiry  expiry
}

// span is how long a connection is open, and its client's side of it. It never changes.
type span struct {
	ctx    context.Context // ends with the connection
	over   context.CancelFunc
	client context.Context // ends when the client has closed its side, or with the connection
	hungUp context.CancelFunc
}

// blocking is a request whose handler may block because of MayBlock, and since when; the zero value
// stands for none.
type blocking struct {
	key   int16
	since time.Time
}

func newConn(s *Server, l *Listener, nc net.Conn) *conn {
	c := &conn{srv: s, listener: l, peer: nc.RemoteAddr(), local: nc.LocalAddr(), opened: time.Now(), ip: remoteIP(nc),
		sock: socket{nc: nc, fd: -1}, identity: identity{id: s.lastID.Add(1)}}
	c.identify(Anonymous, "", time.Time{})
	c.span.ctx, c.span.over = context.WithCancel(context.Background())
	c.span.client, c.span.hungUp = context.WithCancel(c.span.ctx)
	c.rcond.L, c.wcond.L = &c.mu, &c.mu
	c.in.init(s.reads)
	c.arrival.c = c
	c.awaited.Store(c.opened.UnixNano())
	return c
}

// push queues a request that is about to be handled, and reports whether it did: a connection that
// has ended queues nothing.
func (c *conn) push(r *Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.life.Can(connlife.Push) {
		return false
	}
	c.on(connlife.Push)
	r.proven = c.proves()
	c.queue.add(r)
	c.srv.arrived.Add(1)
	if r.Key == protocol.KeyProduce && c.queue.produces == 1 {
		c.srv.producers.markPresent(c.queue.away)
		c.queue.away = 0
	}
	return true
}

// answer marks a queued request as answered and makes sure that its answer is written.
func (c *conn) answer(r *Request, now time.Time) {
	c.mu.Lock()
	q := &c.queue
	q.handled(r, now)
	c.life.served = c.life.served || r.Key != protocol.KeyApiVersions && !isLogin(r.Key)
	if r.Key == protocol.KeyProduce && q.produces == 0 && c.life.Alive() && c.kept == nil {
		q.away = c.srv.producers.markAbsent(now)
	}
	if c.life.Life() >= connlife.Gone {
		if r.orphanTimer != nil {
			r.orphanTimer.Stop()
		}
		last := q.unready == 0
		if last {
			c.on(connlife.LastAnswer)
		}
		c.mu.Unlock()
		r.recycle(c.srv)
		if last {
			c.srv.mu.Lock()
			c.srv.take(c.slot, -1)
			c.srv.mu.Unlock()
		}
		c.srv.orphans.add(-1)
		return
	}
	q.ready(r)
	c.count()
	if q.oldest == r && c.life.Can(connlife.List) {
		if c.poll.by != nil && c.listener.TLS == nil && r.small() {
			c.on(connlife.List)
			c.poll.by.flusher.add(c)
		} else {
			c.wcond.Signal()
		}
	}
	if c.life.Reader() == connlife.Waiting {
		c.rcond.Signal()
	}
	c.mu.Unlock()
}

// mayStart reports whether a request of size bytes may start: earlier requests and the limits allow
// it. Caller holds mu.
func (c *conn) mayStart(key int16, size int) bool {
	return c.queue.mayAdd(&c.srv.opts, key, size) && (c.queue.counted == 0 || !c.srv.outgoing.aboveLimit())
}

// canStart reports whether awaitStart would return at once, and without an error.
func (c *conn) canStart(key int16, size int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life.Life() == connlife.Open && c.mayStart(key, size)
}

// awaitStart blocks the reader until a request may start. It returns errStopped if the connection
// ends first.
func (c *conn) awaitStart(key int16, size int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.life.Life() == connlife.Open {
		if c.mayStart(key, size) {
			return nil
		}
		if !c.batch.Empty() {
			c.mu.Unlock()
			c.batch.HandOff()
			c.mu.Lock()
			continue
		}
		if c.flush() {
			continue
		}
		c.watchClient()
		c.on(connlife.Wait)
		c.rcond.Wait()
		c.on(connlife.Wake)
	}
	return errStopped
}

// watchClient makes the poller notice when the client hangs up: the reader does not read while a
// request is parked that later ones wait for. Caller holds mu and has the reading role.
func (c *conn) watchClient() {
	if c.poll.by != nil && !c.poll.armed && c.poll.by.set.watchEnd(c) == nil {
		c.poll.armed = true // otherwise the reader notices when it reads again
	}
}

// beforeBlocking is called by the reader before it blocks: it runs the commits of its batch, writes
// the answers that are ready and leaves later ones to the writer.
func (c *conn) beforeBlocking() {
	c.batch.HandOff()
	c.mu.Lock()
	if c.life.Reader() == connlife.Busy {
		c.flush()
		c.on(connlife.Block)
	}
	c.mu.Unlock()
}

// lastBusy is queue.lastBusy for the reader.
func (c *conn) lastBusy(arrived, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue.lastBusy(arrived, now)
}

func (c *conn) mute(until time.Time) {
	for ns := until.UnixNano(); ; {
		old := c.muteUntil.Load()
		if ns <= old || c.muteUntil.CompareAndSwap(old, ns) {
			return
		}
	}
}

// stopReading makes the reader start no more requests and end soon. It must not be called with mu
// held, because it wakes a reader that waits on rcond.
func (c *conn) stopReading(reason CloseReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends(reason)
	c.on(connlife.Stop)
	c.rcond.Signal()
	if c.sock.nc != nil {
		_ = c.sock.nc.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection only
	}
}

// endReading is the reader's last step: unanswered requests are finished, unless the connection is
// broken.
func (c *conn) endReading(reason CloseReason, broken bool) {
	c.batch.HandOff()
	c.in.close()
	if c.poll.idle != nil {
		c.poll.idle.Stop()
	}
	if c.login.forget != nil {
		c.login.forget()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on(connlife.ReaderEnds)
	c.ends(reason)
	if reason == ClosedByClient {
		c.span.hungUp()
	}
	if broken {
		c.kill(reason)
	}
	c.wcond.Signal()
}

// kill closes the socket at once. Caller holds mu.
func (c *conn) kill(reason CloseReason) {
	if !c.life.Alive() && c.life.Life() != connlife.Closing {
		return
	}
	c.on(connlife.Kill)
	c.ends(reason)
	c.span.over()
	if c.sock.nc != nil {
		if nc := below(c.sock.nc); c.life.reset { // TLS would wait for the client
			closeWithReset(nc)
		} else {
			_ = nc.Close() // a failed close takes nothing back that the peer was promised
		}
	}
	if c.sock.fd >= 0 {
		hangUp(c.sock.fd)
	}
	c.rcond.Signal()
	c.wcond.Signal()
}

// closeWithReset closes a connection so that its client sees a reset, as if no process listened.
func closeWithReset(nc net.Conn) {
	if l, ok := nc.(interface{ SetLinger(seconds int) error }); ok {
		_ = l.SetLinger(0) // if it fails, the client sees an ordinary end
	}
	_ = nc.Close() // a failed close takes nothing back that the peer was promised
}

// remoteIP returns the peer's address, the zero Addr if it has none.
func remoteIP(nc net.Conn) netip.Addr {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
