package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
)

// conn is one client connection. The goroutine with the reading role owns in and identity; the
// queue of requests is guarded by mu.
type conn struct {
	srv      *Server
	listener *Listener
	nc       net.Conn // nil while the connection is detached
	peer     net.Addr
	local    net.Addr
	opened   time.Time
	ip       netip.Addr
	slot     slot
	sealed   bool            // its listener uses TLS
	socket   *tlsSocket      // below nc; nil without TLS and before the handshake
	visitor  bool            // it counts as one that has not logged in; guarded by Server.mu
	awaited  atomic.Int64    // before the login: unix ns since when the broker waits for the client, 0 while it does not
	over     RefuseReason    // the limit above which it was accepted: its first request must be a broker's
	ctx      context.Context // ends with the connection
	cancel   context.CancelFunc
	client   context.Context // ends when the client has closed its side, or with the connection
	hungUp   context.CancelFunc

	in       input
	arrival  arrival
	batch    groupcommit.Batch // of the reader goroutine
	handed   *Request          // handed over by the poller, see HandOver; owned by the reading role
	mayBlock bool              // MayBlock returned true to the current request; owned by the reading role
	spoken   bool              // the client has sent a request; owned by the reading role
	login    login             // owned by the reading role
	identity

	poll     *poller         // nil if the connection can't be polled
	raw      syscall.RawConn // of the net.Conn that the connection began with
	fd       int             // see detach; -1 if it was never detached
	pollID   int32
	polled   int         // how many times in a row the poller handled everything that had arrived; guarded by mu
	armed    bool        // the connection is in the poller's set; guarded by mu
	idle     *time.Timer // recalls the connection; used by the reader goroutine only
	idleOver atomic.Bool // idle has fired

	muteUntil atomic.Int64 // unix ns; the reader pauses until then

	out output // owned by the writing role

	mu    sync.Mutex
	rcond sync.Cond // the reader waits until a request may start
	wcond sync.Cond // the writer waits for an answer to write
	// The requests whose answers were not yet taken for writing, in order of arrival.
	oldest, newest *Request
	queued         int // requests whose answers are not written
	unready        int // requests without an answer
	traffic        Traffic
	produces       int       // Produce requests without an answer
	produceBytes   int64     // of their frames
	unwritten      int       // bytes of answers that are ready and not written
	encoded        int       // of these, bytes that Respond encoded
	counted        int       // of those, bytes that are counted in Server.outgoing
	writingBytes   int       // bytes of the answers that are being written
	slowSince      time.Time // when closeSlowReaders first saw them being written
	otherInFlight  bool      // the one request without an answer is not a Produce
	away           absence
	answered       time.Time // when the last answer was ready

	blocked blocking   // the handler that may block, see MayBlock
	starved starvation // the reader's wait for memory

	life      life
	reset     bool // the end of the connection is a reset; see Request.Reset
	served    bool // a request other than ApiVersions and those of a login was answered
	expiry    *time.Timer
	expiresAt time.Time // when the expiry timer fires; zero if it is not armed
}

// blocking is a request whose handler may block, and since when; the zero value stands for none.
type blocking struct {
	key   int16
	since time.Time
}

func newConn(s *Server, l *Listener, nc net.Conn) *conn {
	c := &conn{srv: s, listener: l, nc: nc, sealed: l.TLS != nil, peer: nc.RemoteAddr(), local: nc.LocalAddr(),
		opened: time.Now(), ip: remoteIP(nc), fd: -1, identity: identity{id: s.lastID.Add(1)}}
	c.identify(Anonymous, "", time.Time{})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.client, c.hungUp = context.WithCancel(c.ctx)
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
	if c.newest == nil {
		c.oldest = r
	} else {
		c.newest.next = r
	}
	c.newest = r
	c.queued++
	c.srv.arrived.Add(1)
	c.unready++
	c.traffic.Requests++
	c.traffic.BytesIn += int64(r.size) + 4
	if r.Key != protocol.KeyProduce {
		c.otherInFlight = true
		return true
	}
	c.produceBytes += int64(r.size)
	if c.produces++; c.produces == 1 {
		c.srv.producers.markPresent(c.away)
		c.away = 0
	}
	return true
}

// answer marks a queued request as answered and makes sure that its answer is written.
func (c *conn) answer(r *Request, now time.Time) {
	c.mu.Lock()
	c.unready--
	c.answered = now
	c.served = c.served || r.Key != protocol.KeyApiVersions && !isLogin(r.Key)
	c.traffic.BytesOut += int64(r.outSize)
	c.traffic.RecordsIn += r.records
	if r.Key == protocol.KeyProduce {
		c.produceBytes -= int64(r.size)
		if c.produces--; c.produces == 0 && c.life.Alive() {
			c.away = c.srv.producers.markAbsent(now)
		}
	} else {
		c.otherInFlight = false
	}
	if c.life.Life() >= connlife.Gone {
		if r.orphanTimer != nil {
			r.orphanTimer.Stop()
		}
		last := c.unready == 0
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
	r.ready = true
	c.unwritten += r.outSize
	c.encoded += len(r.head)
	c.count()
	if c.oldest == r && c.life.Can(connlife.List) {
		if c.poll != nil && !c.sealed && r.small() {
			c.on(connlife.List)
			c.poll.flusher.add(c)
		} else {
			c.wcond.Signal()
		}
	}
	if c.life.Reader() == connlife.Waiting {
		c.rcond.Signal()
	}
	c.mu.Unlock()
}

// mayStart reports whether a request of size bytes may start: earlier requests and the limits of
// the connection allow it. Caller holds mu.
func (c *conn) mayStart(key int16, size int) bool {
	o := &c.srv.opts
	switch {
	case c.otherInFlight, c.queued >= o.ConnectionRequests, c.unwritten > o.UnwrittenBytes, c.counted > 0 && c.srv.outgoing.aboveLimit():
		return false
	case key != protocol.KeyProduce:
		return c.unready == 0
	}
	return c.produces == 0 || c.produceBytes+int64(size) <= o.ConnectionBytes
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
	if c.poll != nil && !c.armed && c.poll.set.watchEnd(c) == nil {
		c.armed = true // otherwise the reader notices when it reads again
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

// lastBusy returns when a request was last in flight: now, when the last one was answered, or when
// it arrived. A connection that waits for a slow answer is not idle.
func (c *conn) lastBusy(arrived, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.queued > 0:
		return now
	case c.answered.After(arrived):
		return c.answered
	}
	return arrived
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
	if c.nc != nil {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection only
	}
}

// endReading is the reader's last step: unanswered requests are finished, unless the connection is
// broken.
func (c *conn) endReading(reason CloseReason, broken bool) {
	c.batch.HandOff()
	c.in.close()
	if c.idle != nil {
		c.idle.Stop()
	}
	if c.login.forget != nil {
		c.login.forget()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on(connlife.ReaderEnds)
	c.ends(reason)
	if reason == ClosedByClient {
		c.hungUp()
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
	c.cancel()
	if c.nc != nil {
		if nc := below(c.nc); c.reset { // TLS would wait for the client
			closeWithReset(nc)
		} else {
			_ = nc.Close() // a failed close takes nothing back that the peer was promised
		}
	}
	if c.fd >= 0 {
		hangUp(c.fd)
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
