package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/view"
)

// Adopted is a client of another broker, which passes the client's requests to this one.
type Adopted struct {
	Front int32 // the other broker
	// Host and Port are the address that the client's listener names for all brokers.
	Host string
	Port int32
	// Session is the client's there: its principal, host, listener and mechanism.
	Session Session
	Peer    string // its address
	Software
	// Ended is called when the connection has ended.
	Ended func()
}

// Adopt serves a connection that was hijacked, or one above it, as that of a client of another
// broker. It is one of the listener on which it was accepted, counts against no limit, and needs no
// login: the other broker has seen to that, and proved who it is. It ends when nc is closed. early
// was received on it already.
func (s *Server) Adopt(nc net.Conn, early []byte, of *Adopted) error {
	h := hijackedBelow(nc)
	if h == nil {
		return errors.New("network: this connection was not hijacked")
	}
	if err := checkPrincipal(of.Session.Principal); err != nil {
		return err
	}
	l := *h.listener
	l.Forward, l.Brokers, l.SASL, l.AdvertisedHost, l.AdvertisedPort = true, false, false, of.Host, of.Port
	c := newConn(s, &l, h.Conn)
	c.sock.tls, c.adopted, c.slot = h.socket, of.Ended, slot{counts: againstNone}
	if at, err := netip.ParseAddrPort(of.Peer); err == nil {
		c.peer, c.ip = net.TCPAddrFromAddrPort(at), at.Addr().Unmap()
	}
	c.software = Software{Name: view.Cut(of.Name), Version: view.Cut(of.Version)}
	from := &of.Session
	c.session = &Session{Principal: from.Principal, Host: from.Host, Listener: from.Listener, Mechanism: from.Mechanism,
		Via: true, Front: of.Front, began: time.Now(), stop: c.endSession}
	c.in.putBack(s.opts.Pool, append(early, h.early...), nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.hijacked[h]; s.stopped || !open {
		return ErrClosed
	}
	delete(s.hijacked, h)
	h.made = c
	s.assignPoller(c)
	s.conns[c] = struct{}{}
	s.wg.Go(c.readLoop)
	s.wg.Go(c.writeLoop)
	return nil
}

func hijackedBelow(nc net.Conn) *hijackedConn {
	for {
		if h, ok := nc.(*hijackedConn); ok {
			return h
		}
		above, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = above.NetConn()
	}
}

// Keep stores a value for the later requests of the connection, which passes some of them to other
// brokers: it counts no longer as a producer of this one. Only Handle may call it, and Kept.
func (r *Request) Keep(v any) {
	r.conn.mu.Lock()
	r.conn.kept = v
	r.conn.mu.Unlock()
}

// Kept returns the value of Keep, nil at first.
func (r *Request) Kept() any { return r.conn.kept }

// Unanswered returns how many Produce requests of the connection have no answer, with this one.
func (r *Request) Unanswered() int {
	r.conn.mu.Lock()
	defer r.conn.mu.Unlock()
	return r.conn.queue.produces
}

// Ends reports whether the connection starts no more requests. A request that is aborted ends its
// connection before Unanswered leaves it out.
func (r *Request) Ends() bool { return !r.conn.is(connlife.Open) }

// OnEnd calls fn, on a goroutine of its own, when the connection has ended.
func (r *Request) OnEnd(fn func()) { context.AfterFunc(r.conn.span.ctx, fn) }

// Closer returns a function that closes the connection, once what it has read is answered. It may
// be kept for longer than the request.
func (r *Request) Closer() func(error) {
	c := r.conn
	return func(err error) {
		if c.is(connlife.Open) {
			c.srv.limited.log(c, zap.InfoLevel, "closing a connection", err)
			c.stopReading(ClosedError)
		}
	}
}

// relayed is an answer that another broker has encoded.
type relayed []byte

// AppendTo appends the body to dst.
func (p relayed) AppendTo(dst []byte) []byte { return append(dst, p...) }

// maxCopied is the largest relayed answer that is copied, and counted like one that was encoded
// here.
const maxCopied = 16 << 10

// Relays reports whether Relay copies an answer of n bytes. Others count against no budget here.
func Relays(n int) bool { return n <= maxCopied }

// Relay answers with what another broker has answered to the same request, without its length and
// correlation id. release is called when body is not used any longer.
func (r *Request) Relay(body []byte, release func()) {
	if r.headerTags() {
		if len(body) == 0 || body[0] != 0 {
			r.Abort(fmt.Errorf("another broker answered with a header of %d bytes that this one does not know", len(body)))
			release()
			return
		}
		body = body[1:]
	}
	if Relays(len(body)) {
		r.encode(relayed(body))
		release()
		return
	}
	r.RespondRaw([][]byte{body}, release)
}
