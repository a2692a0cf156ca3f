package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/share"
	"go.uber.org/zap"
)

var (
	errStopped    = errors.New("connection stopped reading requests")
	errIdle       = errors.New("connection idle for too long")
	errSlowSender = errors.New("request arrived too slowly")
	errLagging    = fmt.Errorf("less than %d KiB of a request arrived in %v while other requests waited for memory", lagBytes>>10, lagTime)
	errBadFrame   = errors.New("bad frame")
)

// minFrame is the shortest request: a header with a null client id.
const minFrame = protocol.HeaderPrefix + 2

// begin does the handshake of a connection whose listener uses TLS, and starts readLoop. A
// handshake needs a stack several times as large as what follows, and Go keeps half of it or more
// with the goroutine: an idle connection would keep it for hours.
func (c *conn) begin() {
	c.listener.handshakes.Set()
	if err := c.secure(); err != nil {
		c.endReading(c.classify(err))
		return
	}
	c.srv.wg.Go(c.readLoop)
}

// readLoop is the connection's reader.
//
// A reader whose client sends without waiting for answers does not block, and Go's scheduler lets
// it run for 10 ms. With two hundred such readers each wake-up of another connection would take
// seconds. So the reader yields after each request that is followed by bytes of the next one,
// unless commits in its batch wait for it. If a client waits for each answer, its reader does not
// yield: it blocks anyway, and would move to another processor.
func (c *conn) readLoop() {
	c.listener.reads.Set()
	var err error
	for err == nil {
		if err = c.offer(); err == nil {
			err = c.readRequest()
		}
		if len(c.in.unread()) > 0 && c.batch.Empty() {
			c.srv.yield()
		}
	}
	c.endReading(c.classify(err))
}

// yield lets other goroutines run. Readers wait for each other before they do: the scheduler's
// queue then has one of them, and not two hundred in front of each wake-up of the journal.
func (s *Server) yield() {
	s.yields.Lock()
	runtime.Gosched()
	s.yields.Unlock()
}

// classify returns why the reader ended, and whether the connection is broken, so that its answers
// can't be written.
func (c *conn) classify(err error) (reason CloseReason, broken bool) {
	switch f, h := (*foreign)(nil), (*handshakeError)(nil); {
	case errors.As(err, &f):
		c.refuse(f)
		return ClosedBadFrame, false
	case c.is(connlife.Hijacked):
		return ClosedLink, false
	case errors.Is(err, errStopped):
		return ClosedShutdown, false
	case c.over != "":
		c.srv.refused(c.listener, c.peer, c.ip, c.over)
		return ClosedLimit, false
	case errors.As(err, &h):
		c.srv.limited.log(c, zap.InfoLevel, "closing a connection, its TLS handshake failed", h)
		return ClosedHandshake, false
	case errors.Is(err, errLateLogin), errors.Is(err, errNoLogin), errors.Is(err, share.ErrFull):
		c.srv.limited.log(c, zap.InfoLevel, "closing a connection, its client did not log in", err)
		return ClosedLogin, false
	case errors.Is(err, errExpired):
		c.srv.limited.log(c, zap.InfoLevel, "closing a connection, its session has expired", err)
		return ClosedExpired, false
	case errors.Is(err, errIdle):
		return ClosedIdle, false
	case errors.Is(err, errSlowSender):
		c.srv.limited.log(c, zap.InfoLevel, "closing a connection", err)
		return ClosedSlowSender, false
	case errors.Is(err, errLagging):
		c.srv.limited.log(c, zap.InfoLevel, "closing a connection, its request lags", err)
		return ClosedLagging, false
	case errors.Is(err, errBadFrame), errors.Is(err, protocol.ErrMalformed), errors.Is(err, protocol.ErrUnsupported):
		c.srv.limited.log(c, zap.WarnLevel, "closing a connection", err)
		return ClosedBadFrame, false
	case errors.Is(err, io.EOF):
		return ClosedByClient, false // the client may still read
	}
	return ClosedByClient, true
}

// readRequest reads one request and passes it to the handler.
func (c *conn) readRequest() error {
	if err := c.pause(); err != nil {
		return err
	}
	size, h, err := c.readPrefix()
	if err != nil {
		return err
	}
	if c.over != "" && !c.isLink(h) {
		return errOver
	}
	if err := c.permit(h); err != nil {
		return err
	}
	unsupported := !c.srv.opts.Table.Supports(h.Key, h.Version) && !c.isLink(h)
	if _, known := c.srv.opts.Table.Lookup(h.Key); unsupported && (!known || h.Key != protocol.KeyApiVersions) {
		return fmt.Errorf("API %d version %d: %w", h.Key, h.Version, protocol.ErrUnsupported)
	}
	c.in.since = time.Time{}
	if err := c.awaitStart(h.Key, size); err != nil {
		return err
	}
	if err := c.checkSize(h.Key, size); err != nil {
		return err
	}
	turn, err := c.awaitTurn(h, size)
	if err != nil {
		return err
	}
	frame, budget, err := c.receive(h.Key, size)
	c.in.since = time.Time{}
	if err != nil {
		turn.Leave()
		return err
	}
	c.in.pollable = c.listener.TLS == nil && c.polls(h.Key, size)
	if err = c.permitLater(h.Key); err == nil {
		err = c.start(frame, budget, size, unsupported, &c.batch, time.Now())
	}
	if err != nil {
		frame.Release()
		if budget != nil {
			budget.Release(int64(size))
		}
	}
	return err
}

// readPrefix reads a frame's length and the fixed part of its header. It allocates nothing for a
// length that is out of bounds.
func (c *conn) readPrefix() (size int, h protocol.Header, err error) {
	if err := c.fill(4); err != nil {
		return 0, h, err
	}
	size = int(int32(binary.BigEndian.Uint32(c.in.unread())))
	if size < minFrame || size > c.srv.opts.MaxFrame {
		return 0, h, c.badLength(size)
	}
	if err := c.fill(4 + protocol.HeaderPrefix); err != nil {
		return 0, h, err
	}
	return size, protocol.ParsePrefix(c.in.unread()[4:]), nil
}

// admissionOf returns where a frame's bytes are charged; nil for a small request other than
// Produce, which always passes.
func (c *conn) admissionOf(key int16, size int) *admission {
	s := c.srv
	switch {
	case c.login.pending || c.mayLogin(key):
		return s.logins
	case key == protocol.KeyProduce:
		return s.produce
	case size <= s.opts.SmallFrame:
		return nil
	}
	return s.other
}

// checkSize refuses a frame that is too large for its client or for the broker's memory. The
// request may start, so a request before it that authenticates the client has completed.
func (c *conn) checkSize(key int16, size int) error {
	if key == protocol.KeyLink && size > maxLink {
		return fmt.Errorf("%w: a broker's first request has %d bytes, at most %d are allowed", errBadFrame, size, maxLink)
	}
	k := c.admissionOf(key, size)
	if k == c.srv.logins && size > k.most {
		return fmt.Errorf("%w: a request of %d bytes of a client that logs in, at most %d are allowed (login.max.bytes)", errBadFrame, size, k.most)
	}
	if k != nil && size > k.most {
		return fmt.Errorf("%w: %s request of %d bytes exceeds %d bytes, the maximum for this broker's memory; "+
			"send smaller requests or give the broker more memory",
			errBadFrame, k.name, size, k.most)
	}
	return nil
}

// receive reads the rest of a frame whose prefix is buffered. The caller owns the buffer, and the
// charge of size bytes if there is a budget.
func (c *conn) receive(key int16, size int) (*bufpool.Buffer, *bufpool.Budget, error) {
	in := &c.in
	if have := len(in.unread()); have < 4+size {
		in.since = time.Now()
		if err := c.fill(min(4+size, max(have, readSmall))); err != nil {
			return nil, nil, err
		}
	}
	in.skip(4)
	k := c.admissionOf(key, size)
	if k != nil && len(in.unread()) < size {
		return c.receiveSteps(k, size)
	}
	var budget *bufpool.Budget
	if k != nil {
		if err := c.charge(k, size); err != nil {
			return nil, nil, err
		}
		budget = k.whole
	}
	frame := c.srv.opts.Pool.Get(size)
	if err := c.readRest(frame.Bytes(), 0); err != nil {
		frame.Release()
		return nil, nil, err // nothing was charged: a charged frame was buffered
	}
	return frame, budget, nil
}

// receiveSteps is receive for a frame whose rest is not buffered yet.
func (c *conn) receiveSteps(k *admission, size int) (*bufpool.Buffer, *bufpool.Budget, error) {
	a := &c.arrival
	c.beforeBlocking() // before other frames may wait for this one: a write may take as long as its client likes
	k.begin(a, size, time.Now())
	defer k.end(a)
	var frame *bufpool.Buffer
	err := c.grow(k, a, step(len(c.in.unread()), size))
	for have := 0; err == nil; {
		larger := c.srv.opts.Pool.Get(int(a.holds()))
		if frame != nil {
			copy(larger.Bytes(), frame.Bytes())
			frame.Release()
		}
		if frame = larger; frame.Len() == size {
			err = c.readRest(frame.Bytes(), have)
			break
		}
		if err = c.readTo(frame.Bytes(), have); err == nil {
			have = frame.Len()
			err = c.grow(k, a, step(have, size))
		}
	}
	if err == nil {
		k.arrived(a)
		err = c.charge(k, size)
	}
	if err == nil {
		return frame, k.whole, nil
	}
	if frame != nil {
		frame.Release()
	}
	return nil, nil, err
}

// grow charges a frame that is being received with n bytes in all, and waits for those that don't
// fit yet.
func (c *conn) grow(k *admission, a *arrival, n int) error {
	more := int64(n) - a.holds()
	if k.tryGrow(a, more) {
		return nil
	}
	c.srv.opts.Observer.BudgetWait(k.name)
	c.beforeBlocking()
	began := time.Now()
	c.setStarved(starvation{k.name, began})
	defer c.setStarved(starvation{})
	if k.grow(c.span.ctx, a, more) != nil {
		return errStopped
	}
	c.in.since = c.in.since.Add(time.Since(began)) // the wait is not the client's fault
	return nil
}

// charge takes a whole frame's bytes from the budget; it blocks until they are free.
func (c *conn) charge(k *admission, size int) error {
	if k.whole.TryAcquire(int64(size)) {
		return nil
	}
	c.srv.opts.Observer.BudgetWait(k.name)
	c.beforeBlocking()
	c.setStarved(starvation{k.name, time.Now()})
	defer c.setStarved(starvation{})
	if k.whole.Acquire(c.span.ctx, int64(size)) != nil {
		return errStopped
	}
	return nil
}

// starvation is a wait of the reader for memory; the zero value stands for none.
type starvation struct {
	budget string
	since  time.Time
}

// setStarved records for which memory the reader waits, the zero value when it does not.
func (c *conn) setStarved(s starvation) {
	c.mu.Lock()
	c.starved = s
	c.mu.Unlock()
}

// readTo reads until p, whose first n bytes are there, is full. It reads no further.
func (c *conn) readTo(p []byte, n int) error {
	n += c.in.take(p[n:])
	for n < len(p) {
		m, err := c.read(p[n:])
		if err != nil {
			return err
		}
		n += m
	}
	return nil
}

// readRest is readTo for the end of a frame. If only a little is missing, it also reads what
// follows the frame.
func (c *conn) readRest(p []byte, n int) error {
	n += c.in.take(p[n:])
	if rest := len(p) - n; rest > 0 && rest <= len(c.in.buf) {
		if err := c.fill(rest); err != nil {
			return err
		}
	}
	return c.readTo(p, n)
}

// start parses the header and calls the handler. On success the request owns
// frame and charge.
func (c *conn) start(frame *bufpool.Buffer, budget *bufpool.Budget, size int, unsupported bool, batch *groupcommit.Batch,
	now time.Time) error {
	p := frame.Bytes()
	h := protocol.ParsePrefix(p)
	flexible := c.srv.opts.Table.Flexible(h.Key, h.Version)
	h, body, err := protocol.ParseHeader(p, flexible)
	if err != nil {
		return err
	}
	if unsupported {
		body = nil
	}
	if id := h.ClientID[:min(len(h.ClientID), protocol.MaxName)]; c.clientID != string(id) {
		c.named(id)
	}
	r, _ := c.srv.requests.Get().(*Request)
	if r == nil {
		r = new(Request)
	}
	r.Listener, r.Connection, r.Session = c.listener, c.id, c.session
	r.ClientID, r.Software = c.clientID, c.software
	r.Peer, r.Local = c.peer, c.local
	r.Key, r.Version, r.CorrelationID, r.Unsupported = h.Key, h.Version, h.CorrelationID, unsupported
	r.Body, r.Received, r.commits = body, now, batch
	r.conn, r.flexible, r.frame, r.budget, r.size = c, flexible, frame, budget, size
	c.in.last = r.Received
	if !c.push(r) {
		return errStopped
	}
	c.handle(r)
	return nil
}

// named records the client id of a request.
func (c *conn) named(id []byte) {
	c.mu.Lock()
	c.clientID = string(id)
	c.mu.Unlock()
}

// handle calls the handler, on the reader goroutine or a poller.
func (c *conn) handle(r *Request) {
	switch {
	case r.Key == protocol.KeyLink:
		c.srv.opts.Link.Handle(r)
	case c.mayLogin(r.Key):
		c.serveLogin(r)
	default:
		c.srv.opts.Handler.Handle(r)
	}
	if !c.blocked.since.IsZero() {
		c.mu.Lock()
		c.blocked = blocking{}
		c.mu.Unlock()
	}
}

// pause waits while the connection is muted. The reader holds no memory of a request in that time,
// which does not count as idle.
func (c *conn) pause() error {
	until := c.muteUntil.Load()
	if until == 0 {
		return nil
	}
	if wait := time.Until(time.Unix(0, until)); wait > 0 {
		c.beforeBlocking()
		c.in.shrink()
		if !c.sleepFor(wait) {
			return errStopped
		}
		c.in.last = time.Now()
	}
	c.muteUntil.CompareAndSwap(until, 0)
	return nil
}

// sleepFor blocks the reader for some time. It returns false, at once, if the connection ends or is
// to stop reading.
func (c *conn) sleepFor(wait time.Duration) bool {
	over := false
	t := time.AfterFunc(wait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		over = true
		c.rcond.Signal()
	})
	defer t.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !over && c.life.Life() == connlife.Open {
		c.on(connlife.Wait)
		c.rcond.Wait()
		c.on(connlife.Wake)
	}
	return over
}
