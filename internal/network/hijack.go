package network

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
)

const (
	// maxLink is the largest request with which a broker may begin a connection, in bytes.
	maxLink = 4 << 10
	// maxCallers is how many connections above the limits may begin as a broker's at the same time.
	// Clients that use up the limits must not cut off a broker from its cluster. Options.Link
	// bounds those that have begun, before and after they have proved that they are brokers.
	maxCallers = 64
	// linkWait is how long a connection above the limits may take until it shows that it is a
	// broker's.
	linkWait = 5 * time.Second
)

// errOver ends a client's connection above the limits.
var errOver = errors.New("not the first request of a broker")

// isLink reports whether a request begins a connection of another broker, on a listener for them.
// Where clients log in with SASL, brokers show a certificate instead: a link has its own proofs.
func (c *conn) isLink(h protocol.Header) bool {
	return h.Key == protocol.KeyLink && h.Version == 0 && c.listener.Brokers && c.srv.opts.Link != nil &&
		(!c.login.pending || !c.login.certificate.IsZero())
}

// Hijack ends the request without an answer and returns the connection's socket, which the caller
// owns from then on: no limit or timeout of this package applies to it. It does not count against
// the limits on connections. The first bytes that it reads are those that were received behind the
// request. It is closed by its owner, or by Shutdown when all other connections have ended, or by
// Close.
//
// Only Handle may call it, for a request of protocol.KeyLink. It blocks until earlier answers are
// written. Body is invalid after it. On error, when the server shuts down or the connection has
// ended, the request is unchanged and must be answered with Abort.
func (r *Request) Hijack() (net.Conn, error) {
	c := r.conn
	if r.Key != protocol.KeyLink || !r.MayBlock() {
		return nil, fmt.Errorf("network: a request of API %d can't take its connection", r.Key)
	}
	h := &hijackedConn{srv: c.srv, listener: c.listener}
	if err := c.release(r, h); err != nil {
		return nil, err
	}
	if r.claim() {
		r.head = r.head[:0]
		r.complete()
	}
	s := c.srv
	s.mu.Lock()
	killed := s.killed
	if c.slot.counts != againstNone {
		s.take(c.slot, -1)
		c.slot.counts = againstNone
	}
	c.join(nil)
	s.hijacked[h] = struct{}{}
	s.mu.Unlock()
	if killed {
		_ = h.Close() // its owner notices when it uses it
	}
	return h, nil
}

// release moves the socket from the connection to h. The connection ends afterwards without
// touching it. Caller is the reader, in the handler of r.
func (c *conn) release(r *Request, h *hijackedConn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.life.Life() == connlife.Open && (c.queue.oldest != r || c.life.Writes()) {
		if c.flush() {
			continue
		}
		c.on(connlife.Wait)
		c.rcond.Wait()
		c.on(connlife.Wake)
	}
	if c.life.Life() != connlife.Open {
		return ErrClosed
	}
	if err := c.attachLocked(); err != nil {
		return err
	}
	if c.poll.armed {
		if err := c.poll.by.set.forget(c); err != nil {
			return fmt.Errorf("remove a connection from its poller: %w", err)
		}
		c.poll.armed = false
	}
	if err := c.sock.nc.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if h.socket = c.sock.tls; h.socket != nil {
		h.socket.released.Store(true)
	}
	h.Conn, h.early = c.sock.nc, bytes.Clone(c.in.unread())
	c.sock.nc = nil
	c.on(connlife.Hijack)
	c.life.reason = ClosedLink
	c.span.over()
	c.wcond.Signal()
	return nil
}

// hijackedConn is a connection that belongs to a link.
type hijackedConn struct {
	net.Conn
	srv      *Server
	listener *Listener
	socket   *tlsSocket // below Conn; nil without TLS
	early    []byte     // received before it was hijacked; owned by the reader
	once     sync.Once
	made     *conn // of Adopt; guarded by Server.mu
}

// Read implements net.Conn.
func (h *hijackedConn) Read(p []byte) (int, error) {
	if len(h.early) == 0 {
		n, err := h.Conn.Read(p)
		if n > 0 && h.socket != nil {
			h.socket.barren.data()
		}
		return n, err
	}
	n := copy(p, h.early)
	if h.early = h.early[n:]; len(h.early) == 0 {
		h.early = nil
	}
	return n, nil
}

// ConnectionState returns the state of TLS as a tls.Conn does; without TLS the zero value, whose
// handshake is not complete.
func (h *hijackedConn) ConnectionState() tls.ConnectionState {
	if t, ok := h.Conn.(*tls.Conn); ok {
		return t.ConnectionState()
	}
	return tls.ConnectionState{}
}

// NetConn returns the socket below TLS, as a tls.Conn does; without TLS the connection itself.
func (h *hijackedConn) NetConn() net.Conn { return below(h.Conn) }

// Close implements net.Conn. It takes the connection out of the Server.
func (h *hijackedConn) Close() error {
	h.srv.mu.Lock()
	made := h.made
	h.srv.mu.Unlock()
	if made != nil {
		made.mu.Lock()
		made.kill(ClosedLink)
		made.mu.Unlock()
		return nil
	}
	err := below(h.Conn).Close() // TLS would wait for the other broker
	h.once.Do(func() {
		s := h.srv
		s.mu.Lock()
		delete(s.hijacked, h)
		s.mu.Unlock()
		s.opts.Observer.Closed(h.listener, ClosedLink)
	})
	return err
}

// SyscallConn implements syscall.Conn, for writes of several pieces.
func (h *hijackedConn) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := h.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// closeHijacked closes the connections that were hijacked, and those that will be.
func (s *Server) closeHijacked() {
	s.mu.Lock()
	s.killed = true
	list := make([]*hijackedConn, 0, len(s.hijacked))
	for h := range s.hijacked {
		list = append(list, h)
	}
	s.mu.Unlock()
	for _, h := range list {
		_ = h.Close() // a failed close takes nothing back that the peer was promised
	}
}
