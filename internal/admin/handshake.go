package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/security/certs"
	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/share"
)

// Limits of what a client of TLS sends for one request, or for its handshake. A record may be a
// change of keys, which costs processor time and brings nothing (RFC 8446, 4.6.3).
const (
	maxArriving = maxHeader + maxBody + 64<<10 // bytes
	maxRecords  = 1024
)

// failuresEvery is the least time between two lines of the log about failed handshakes.
const failuresEvery = time.Minute

var errFlood = errors.New("the client sends too much for one request")

// tlsPort is a listener whose connections have completed their TLS handshakes. Handshakes have the
// bounds of those of clients: they compute at a place of share.Places, have a deadline, and count
// as connections that wait.
type tlsPort struct {
	net.Listener
	config *tls.Config
	places *share.Places
	conns  *connLimit
	within time.Duration // of a handshake
	log    *zap.Logger   // of failures, limited to one line in failuresEvery

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running *sync.WaitGroup
	ready   chan accepted // run and shake send to it until ctx ends; unbuffered, never closed
}

// accepted is a result of Accept.
type accepted struct {
	conn net.Conn
	err  error
}

// secure starts the handshakes of a listener's connections, on goroutines that running counts.
func (s *Server) secure(l net.Listener, o *Options, within time.Duration) net.Listener {
	present := certs.Base()
	present.NextProtos = []string{"http/1.1"}
	present.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return o.TLS(), nil }
	p := &tlsPort{Listener: l, config: present, places: o.Places, conns: s.conns, within: within, running: &s.running,
		ready: make(chan accepted),
		log: o.Log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
			return zapcore.NewSamplerWithOptions(c, failuresEvery, 1, 0)
		}))}
	if p.places == nil {
		p.places = share.New().Of(share.Logins)
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	s.running.Go(p.run)
	return p
}

// run accepts connections until Close.
func (p *tlsPort) run() {
	for {
		nc, err := p.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			p.cancel()
			return
		}
		if err != nil {
			p.pass(accepted{err: err}) // the server waits a moment before it asks for the next
			continue
		}
		s := &socket{Conn: nc, from: origin.OfPeer(nc.RemoteAddr().String()), places: p.places, shaking: true}
		t := tls.Server(s, p.config)
		if surplus := p.conns.add(t); surplus != nil {
			closeNow(surplus)
		}
		p.running.Go(func() { p.shake(t, s) })
	}
}

func (p *tlsPort) pass(a accepted) bool {
	select {
	case p.ready <- a:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// shake does the handshake of a connection and passes it to Accept.
func (p *tlsPort) shake(t *tls.Conn, s *socket) {
	ctx, cancel := context.WithTimeout(p.ctx, p.within)
	defer cancel()
	s.ctx = ctx
	err := t.HandshakeContext(ctx)
	s.leave()
	s.shaking, s.ctx = false, nil
	if err == nil {
		s.renew()
		if p.pass(accepted{conn: t}) {
			return
		}
	}
	if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && plain.Conn != nil {
		if plain.Conn.SetWriteDeadline(time.Now().Add(time.Second)) == nil {
			_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nThis port speaks HTTPS: write https:// before its address.\n")
		}
	}
	closeNow(t)
	p.conns.remove(t)
	if err != nil && p.ctx.Err() == nil {
		p.log.Info("a TLS handshake failed", zap.Stringer("peer", s.RemoteAddr()), zap.Error(err))
	}
}

// Accept implements net.Listener.
func (p *tlsPort) Accept() (net.Conn, error) {
	select {
	case a := <-p.ready:
		return a.conn, a.err
	case <-p.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It ends the handshakes.
func (p *tlsPort) Close() error {
	p.cancel()
	return p.Listener.Close()
}

// socket is what is below a connection of TLS.
type socket struct {
	net.Conn
	from   netip.Prefix
	places *share.Places
	// Owned by the goroutine of the handshake until it is complete; constant then.
	ctx     context.Context // of the handshake
	shaking bool
	placed  bool // it has a place

	mu      sync.Mutex
	bytes   int // that have arrived since renew
	records int
	stream  network.Records
}

// Read implements net.Conn. In a handshake it returns with a place, which it leaves while it waits
// for the client.
func (s *socket) Read(b []byte) (int, error) {
	s.leave()
	n, err := s.Conn.Read(b)
	s.mu.Lock()
	s.bytes += n
	s.records += s.stream.Count(b[:n])
	flood := s.bytes > maxArriving || s.records > maxRecords
	s.mu.Unlock()
	if flood {
		return 0, errFlood
	}
	if s.shaking && err == nil {
		if err := s.places.Take(s.ctx, nil, s.from); err != nil {
			return 0, err
		}
		s.placed = true
	}
	return n, err
}

// leave gives the place back, if there is one.
func (s *socket) leave() {
	if s.placed {
		s.placed = false
		s.places.Leave()
	}
}

// renew allows another request.
func (s *socket) renew() {
	s.mu.Lock()
	s.bytes, s.records = 0, 0
	s.mu.Unlock()
}

// renew allows another request on a connection of TLS.
func renew(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		if s, ok := t.NetConn().(*socket); ok {
			s.renew()
		}
	}
}
