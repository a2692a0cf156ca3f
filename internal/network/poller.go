package network

import (
	"encoding/binary"
	"errors"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/share"
)

const (
	// pollRead is how much a poller reads from a connection at a time.
	pollRead = 64 << 10
	// pollFrame is the largest request, in bytes, that a poller handles itself. It must arrive in
	// one piece; for a larger request the cost of a goroutine switch is negligible.
	pollFrame = pollRead - 4<<10
	// serveTime bounds how long a poller handles the input of one connection before it leaves the
	// rest to the reader. pollRead bytes of small plain requests take a quarter of that. The poller
	// checks the clock every serveLook requests.
	serveTime = 2 * time.Millisecond
	serveLook = 8
	// quickFrame is the largest request, in bytes, of another API than Produce that a poller
	// handles; the API must be quick (protocol.API).
	quickFrame = 1 << 10
	// maxPollers bounds the number of pollers; below it there is one for every two processors. A
	// poller that sleeps in the kernel occupies a processor of Go's scheduler; see busyWait.
	maxPollers = 8
)

// poller reads and answers those of its connections that are offered.
type poller struct {
	srv     *Server
	set     *pollSet
	flusher flusher
	loop    atomic.Pointer[pollLoop] // the present one
	stalls  stallWatch
	failed  atomic.Bool

	mu    sync.Mutex
	conns []*conn // by polling.id; nil if it is free
	free  []int32
}

// polling is what a connection has of its poller. by and id never change, idle belongs to the
// reader goroutine, conn.mu guards the rest.
type polling struct {
	by       *poller // nil if the connection can't be polled
	id       int32
	armed    bool        // the connection is in the poller's set
	whole    int         // how many times in a row the poller handled everything that had arrived
	idle     *time.Timer // recalls the connection
	idleOver atomic.Bool // idle has fired; any goroutine may read it
}

// pollEvent reports that a connection has something to read.
type pollEvent struct {
	c     *conn
	ended bool // the peer closed it, or it broke
}

// errSetClosed ends a poller whose server has no connections left.
var errSetClosed = errors.New("poll set is closed")

// pollers returns the server's pollers, which the first connection creates; none if the operating
// system does not support them. Caller holds mu.
func (s *Server) pollers() []*poller {
	s.pollOnce.Do(func() {
		for range min(share.Half(), maxPollers) {
			set, err := newPollSet()
			if err != nil {
				s.opts.Log.Warn("poller not available, each connection is read by its own goroutine", zap.Error(err))
				return
			}
			if set == nil {
				return
			}
			p := &poller{srv: s, set: set}
			p.flusher.wake = make(chan struct{}, 1)
			p.stalls.timer = time.AfterFunc(math.MaxInt64, p.checkStall)
			s.poll = append(s.poll, p)
			s.pollWG.Add(1) // until a loop finds the set closed
			p.startLoop()
			s.pollWG.Go(p.flusher.run)
		}
	})
	return s.poll
}

// stopPollers is called when all connections have ended.
func (s *Server) stopPollers() {
	s.mu.Lock()
	polls := s.poll
	s.poll = nil
	s.mu.Unlock()
	for _, p := range polls {
		p.set.close()
		p.flusher.end()
	}
	s.pollWG.Wait()
	for _, p := range polls {
		p.stalls.timer.Stop()
		p.set.free()
	}
}

// assignPoller gives a connection a poller. Caller holds Server.mu.
func (s *Server) assignPoller(c *conn) {
	tcp, ok := below(c.sock.nc).(*net.TCPConn)
	if !ok {
		return
	}
	polls := s.pollers()
	if len(polls) == 0 {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // it is closed already, as its reader will notice
	}
	p := polls[s.pollNext%len(polls)]
	s.pollNext++
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		c.poll.id = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		c.poll.id = int32(len(p.conns))
		p.conns = append(p.conns, nil)
	}
	p.conns[c.poll.id] = c
	c.poll.by, c.sock.raw = p, raw
}

// pollTag is part of the events of this connection. It differs, most probably, from the tags of
// earlier connections with the same id in the poller.
func (c *conn) pollTag() int32 { return int32(uint32(c.id)) }

// remove is called when a connection is closed.
func (p *poller) remove(c *conn) {
	p.mu.Lock()
	p.conns[c.poll.id] = nil
	p.free = append(p.free, c.poll.id)
	p.mu.Unlock()
}

// fail makes the connections' own goroutines read them from now on.
func (p *poller) fail(err error) {
	p.failed.Store(true)
	p.srv.opts.Log.Error("poller failed, its connections are read by their own goroutines, which is slower; restart the broker when it suits",
		zap.Error(err))
	p.mu.Lock()
	conns := slices.DeleteFunc(slices.Clone(p.conns), func(c *conn) bool { return c == nil })
	p.mu.Unlock()
	for _, c := range conns {
		c.recall()
	}
}

// polls reports whether a poller handles requests of an API and size.
func (c *conn) polls(key int16, size int) bool {
	if key == protocol.KeyProduce {
		return size <= pollFrame
	}
	api, known := c.srv.opts.Table.Lookup(key)
	return known && api.Quick && size <= min(quickFrame, c.srv.opts.SmallFrame)
}

// handleSmall handles the requests at the start of p that need no waiting, and returns the
// bytes after them. It stops after a request that was handed over, and when many take long
// together.
func (c *conn) handleSmall(p []byte, batch *groupcommit.Batch, now time.Time) []byte {
	var began time.Time
	for n := 1; c.in.handed == nil && len(p) >= 4+protocol.HeaderPrefix; n++ {
		if n%serveLook == 0 && began.IsZero() {
			began = time.Now()
		} else if n%serveLook == 0 && time.Since(began) > c.srv.opts.serveTime {
			break
		}
		size := int(int32(binary.BigEndian.Uint32(p)))
		if size < minFrame || size > min(pollFrame, c.srv.opts.MaxFrame) || len(p) < 4+size {
			break
		}
		h := protocol.ParsePrefix(p[4:])
		if !c.polls(h.Key, size) || !c.srv.opts.Table.Supports(h.Key, h.Version) || c.muteUntil.Load() != 0 ||
			!c.session.Expires.IsZero() && c.session.expired(now) ||
			!c.canStart(h.Key, size) {
			break
		}
		turn := c.turn(h, p[4:4+size], size)
		if turn.Wait() > 0 {
			turn.Leave() // the reader waits for it
			break
		}
		var budget *bufpool.Budget // small requests of other APIs have none, see admissionOf
		if h.Key == protocol.KeyProduce {
			if budget = c.srv.produce.whole; !budget.TryAcquire(int64(size)) {
				turn.Leave()
				break
			}
		}
		frame := c.srv.opts.Pool.Get(size)
		copy(frame.Bytes(), p[4:])
		if err := c.start(frame, budget, size, false, batch, now); err != nil {
			frame.Release()
			if budget != nil {
				budget.Release(int64(size))
			}
			turn.Leave()
			break // the reader ends the same way
		}
		p = p[4+size:]
	}
	return p
}

// takeOver handles a request that the poller handed over, on the reader goroutine.
func (c *conn) takeOver() {
	r := c.in.handed
	if r == nil {
		return
	}
	c.in.handed = nil
	c.mu.Lock()
	c.on(connlife.TakeOver)
	c.mu.Unlock()
	r.commits = &c.batch
	c.handle(r)
}

// offer lets a poller read the connection if that may pay, and returns when the reader has it
// again.
func (c *conn) offer() error {
	err := c.lendToPoller()
	if e := c.attach(); err == nil {
		err = e
	}
	c.takeOver() // even if the connection has ended: the handler already has the request
	return err
}

func (c *conn) lendToPoller() error {
	for c.in.handed == nil && c.poll.by != nil && !c.poll.by.failed.Load() && c.in.pollable && c.in.r == c.in.w && c.in.err == nil {
		c.in.shrink()
		c.beforeBlocking()
		c.watchIdle()
		c.mu.Lock()
		if !c.life.Can(connlife.Offer) {
			c.mu.Unlock()
			break
		}
		// Bytes that arrived before now caused no event that counted, so ask for another one. A
		// goroutine that it wakes waits for mu.
		if err := c.poll.by.set.arm(c); err != nil {
			c.in.pollable = false // the reader reads it
			c.mu.Unlock()
			break
		}
		c.on(connlife.Offer)
		c.poll.whole = 0
		if c.wantedBack() {
			c.on(connlife.Recall) // which came before the offer
		}
		c.mu.Unlock()
		if !c.sleep() {
			break
		}
		now := time.Now()
		if c.in.last = c.lastBusy(c.in.last, now); now.Sub(c.in.last) >= c.srv.opts.Idle {
			return errIdle
		}
	}
	err := c.in.err
	c.in.err = nil
	return err
}

// sleep waits until the reader has the connection again. It returns true if that was only because
// of a recall.
func (c *conn) sleep() (recalled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := c.life.Reader(); r == connlife.Offered || r == connlife.Polling; r = c.life.Reader() {
		c.rcond.Wait()
	}
	if c.life.Reader() == connlife.Recalled {
		c.on(connlife.TakeBack)
		recalled = c.life.Life() == connlife.Open
	}
	return recalled
}

// wantedBack reports whether the reader is to have the connection, although there may be nothing to
// read: recall does nothing while it is not offered. Caller holds mu.
func (c *conn) wantedBack() bool { return c.poll.idleOver.Load() || c.poll.by.failed.Load() }

// recall makes the reader take an offered connection back.
func (c *conn) recall() {
	c.mu.Lock()
	c.on(connlife.Recall)
	c.rcond.Signal()
	c.mu.Unlock()
}

// watchIdle arms the timer that recalls an offered connection when it may have been idle for too
// long.
func (c *conn) watchIdle() {
	wait := time.Until(c.in.last.Add(c.srv.opts.Idle))
	switch {
	case c.poll.idle == nil:
		c.poll.idle = time.AfterFunc(wait, c.idleFired)
	case c.poll.idleOver.CompareAndSwap(true, false):
		c.poll.idle.Reset(wait)
	}
}

func (c *conn) idleFired() {
	c.poll.idleOver.Store(true)
	c.recall()
}
