package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/chronik-io/chronik/internal/membuf"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/turn"
	"go.uber.org/zap"
)

var (
	errStopped    = errors.New("no more requests are read")
	errIdle       = errors.New("idle for too long")
	errSlowSender = errors.New("a request's bytes arrive too slowly")
	errBadFrame   = errors.New("bad frame")
)

// minFrame is the shortest request: a header with a null client id.
const minFrame = protocol.HeaderPrefix + 2

// readLoop is the connection's reader.
func (c *conn) readLoop() {
	var err error
	for err == nil {
		if err = c.offer(); err == nil {
			err = c.readRequest()
		}
	}
	reason, broken := c.classify(err)
	c.endReading(reason, broken)
}

// classify says why the reader ended and whether the connection is broken: its
// answers could not be written.
func (c *conn) classify(err error) (reason CloseReason, broken bool) {
	switch {
	case errors.Is(err, errStopped):
		return ClosedShutdown, false
	case errors.Is(err, errIdle):
		return ClosedIdle, false
	case errors.Is(err, errSlowSender):
		c.srv.noise.log(c, zap.InfoLevel, "closing a connection", err)
		return ClosedSlowSender, false
	case errors.Is(err, errBadFrame), errors.Is(err, protocol.ErrMalformed), errors.Is(err, protocol.ErrUnsupported):
		c.srv.noise.log(c, zap.WarnLevel, "closing a connection", err)
		return ClosedBadFrame, false
	case errors.Is(err, io.EOF):
		return ClosedByClient, false // it may still read
	}
	return ClosedByClient, true
}

// readRequest reads one request and has it handled.
func (c *conn) readRequest() error {
	if err := c.pause(); err != nil {
		return err
	}
	size, h, err := c.readPrefix()
	if err != nil {
		return err
	}
	unsupported := !c.srv.opts.Table.Supports(h.Key, h.Version)
	if _, known := c.srv.opts.Table.Lookup(h.Key); unsupported && (!known || h.Key != protocol.KeyApiVersions) {
		return fmt.Errorf("API %d version %d: %w", h.Key, h.Version, protocol.ErrUnsupported)
	}
	c.in.since = time.Time{}
	if err := c.awaitTurn(h.Key, size); err != nil {
		return err
	}
	budget, err := c.charge(h.Key, size)
	if err != nil {
		return err
	}
	frame, err := c.readFrame(size)
	c.in.since = time.Time{}
	c.in.light = h.Key == protocol.KeyProduce && size <= pollFrame
	if err == nil {
		err = c.start(frame, budget, size, unsupported, &c.turn, time.Now())
	}
	if err != nil {
		if frame != nil {
			frame.Release()
		}
		if budget != nil {
			budget.Release(int64(size))
		}
	}
	return err
}

// readPrefix reads a frame's length and the fixed part of its header. Nothing is
// allocated for a length that is out of bounds.
func (c *conn) readPrefix() (size int, h protocol.Header, err error) {
	if err := c.fill(4); err != nil {
		return 0, h, err
	}
	size = int(int32(binary.BigEndian.Uint32(c.in.bytes())))
	if size < minFrame || size > c.srv.opts.MaxFrame {
		return 0, h, fmt.Errorf("%w: length %d is not between %d and %d", errBadFrame, size, minFrame, c.srv.opts.MaxFrame)
	}
	if err := c.fill(4 + protocol.HeaderPrefix); err != nil {
		return 0, h, err
	}
	return size, protocol.ParsePrefix(c.in.bytes()[4:]), nil
}

// charge takes a frame's bytes from the budget that it counts against, if any,
// and waits for them.
func (c *conn) charge(key int16, size int) (*membuf.Budget, error) {
	budget, name := c.srv.produce, "produce"
	if key != protocol.KeyProduce {
		if size <= c.srv.opts.SmallFrame {
			return nil, nil
		}
		budget, name = c.srv.other, "other"
	}
	if budget.TryAcquire(int64(size)) {
		return budget, nil
	}
	c.srv.opts.Observer.BudgetWait(name)
	c.rest()
	if err := budget.Acquire(c.ctx, int64(size)); err != nil {
		return nil, errStopped
	}
	return budget, nil
}

// readFrame reads the rest of a frame of which the prefix is buffered. It
// returns a buffer, if incomplete, with an error too.
func (c *conn) readFrame(size int) (*membuf.Buffer, error) {
	c.in.skip(4)
	frame := c.srv.opts.Pool.Get(size)
	p := frame.Bytes()
	n := c.in.take(p)
	if n == size {
		return frame, nil
	}
	c.in.since = time.Now()
	if size <= len(c.in.buf) {
		// The buffer is empty: what follows the frame comes with its rest.
		if err := c.fill(size - n); err != nil {
			return frame, err
		}
		n += c.in.take(p[n:])
	}
	for n < size {
		m, err := c.read(p[n:])
		if err != nil {
			return frame, err
		}
		n += m
	}
	return frame, nil
}

// start parses the header and calls the handler. On success the request owns
// frame and charge.
func (c *conn) start(frame *membuf.Buffer, budget *membuf.Budget, size int, unsupported bool, t *turn.Turn, now time.Time) error {
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
	if c.clientID != string(h.ClientID) {
		c.clientID = string(h.ClientID)
	}
	r, _ := c.srv.requests.Get().(*Request)
	if r == nil {
		r = new(Request)
	}
	r.Listener, r.Principal, r.ClientID, r.Software = c.listener, anonymous, c.clientID, c.software
	r.Connection, r.Peer, r.Local = c.number, c.peer, c.local
	r.Key, r.Version, r.CorrelationID, r.Unsupported = h.Key, h.Version, h.CorrelationID, unsupported
	r.Body, r.Received, r.turn = body, now, t
	r.conn, r.flexible, r.frame, r.budget, r.size = c, flexible, frame, budget, size
	c.in.last = r.Received
	if !c.push(r) {
		return errStopped
	}
	c.srv.opts.Handler.Handle(r)
	return nil
}

// anonymous is Kafka's name for a client that did not authenticate.
const anonymous = "User:ANONYMOUS"

// pause waits while the connection is muted.
func (c *conn) pause() error {
	until := c.muteUntil.Load()
	if until == 0 {
		return nil
	}
	if wait := time.Until(time.Unix(0, until)); wait > 0 {
		c.rest()
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.ctx.Done():
			return errStopped
		case <-c.srv.draining:
			return errStopped
		}
	}
	c.muteUntil.CompareAndSwap(until, 0)
	return nil
}
