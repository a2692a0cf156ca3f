package link

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/link/frame"
)

// ClientHello is what a broker states of the client whose requests follow on a connection of the
// lane of clients. The payload of CL is:
//
//	version u8 = 1, port u32, then as u16 length and bytes: listener, host, principal,
//	its host, mechanism, address, software, its version
type ClientHello struct {
	// Listener is the one that the client dialed. Host and Port are the address that it names for
	// all brokers.
	Listener, Host string
	Port           int32
	// Principal, PrincipalHost and Mechanism are those of the client's session.
	Principal, PrincipalHost, Mechanism string
	// Address is the client's.
	Address                   string
	Software, SoftwareVersion string
}

const clientVersion = 1

func (h *ClientHello) texts() []*string {
	return []*string{&h.Listener, &h.Host, &h.Principal, &h.PrincipalHost, &h.Mechanism, &h.Address, &h.Software, &h.SoftwareVersion}
}

func (h *ClientHello) encode() []byte {
	p := binary.BigEndian.AppendUint32([]byte{clientVersion}, uint32(h.Port))
	for _, s := range h.texts() {
		p = binary.BigEndian.AppendUint16(p, uint16(len(*s)))
		p = append(p, *s...)
	}
	return p
}

func parseClientHello(p []byte) (*ClientHello, error) {
	h := &ClientHello{}
	if len(p) < 5 || p[0] != clientVersion {
		return nil, fmt.Errorf("%w: hello of a client, of %d bytes", frame.ErrMalformed, len(p))
	}
	h.Port = int32(binary.BigEndian.Uint32(p[1:]))
	p = p[5:]
	for _, s := range h.texts() {
		if len(p) < 2 || len(p)-2 < int(binary.BigEndian.Uint16(p)) {
			return nil, fmt.Errorf("%w: hello of a client is incomplete", frame.ErrMalformed)
		}
		n := 2 + int(binary.BigEndian.Uint16(p))
		*s, p = string(p[2:n]), p[n:]
	}
	if len(p) > 0 { // a statement about the client that this version could not honor
		return nil, fmt.Errorf("%w: hello of a client has %d more bytes", frame.ErrMalformed, len(p))
	}
	return h, nil
}

// Tunnel is a connection of the lane of clients after its handshake. It carries the requests of one
// client of the broker that dialed, and their answers, as the client's own connection does.
type Tunnel struct {
	net.Conn
	links  *Links
	node   int32 // at the other end
	dialed bool
	once   sync.Once
	stop   []func()
}

// NetConn returns the connection below.
func (t *Tunnel) NetConn() net.Conn { return t.Conn }

// Close ends the tunnel at once.
func (t *Tunnel) Close() error {
	err := net.ErrClosed
	t.once.Do(func() {
		t.links.mu.Lock()
		delete(t.links.tunnels, t)
		stop := t.stop
		t.links.mu.Unlock()
		for _, fn := range stop {
			fn()
		}
		err = endOf(t.Conn).Close() // TLS would wait for the other broker
	})
	return err
}

// tunnel makes a Tunnel of a connection. It ends with Links, with the certificates of its ends, and
// with the lane of metadata to the same broker, whose pings notice what a tunnel without requests
// does not.
func (l *Links) tunnel(c *Conn, node int32, dialed bool) (*Tunnel, error) {
	t := &Tunnel{Conn: c.nc, links: l, node: node, dialed: dialed}
	if err := c.nc.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	end := func() { _ = t.Close() } // a failed close takes nothing back that the peer was promised
	l.mu.Lock()
	stopped := l.stopped
	l.tunnels[t] = struct{}{}
	ended := context.AfterFunc(l.ctx, end)
	t.stop = append(t.stop, func() { ended() })
	if state, ok := tlsState(c.nc); ok && len(state.PeerCertificates) > 0 {
		timer := time.AfterFunc(time.Until(state.PeerCertificates[0].NotAfter), end)
		t.stop = append(t.stop, func() { timer.Stop() })
	}
	l.mu.Unlock()
	if stopped {
		end()
		return nil, ErrClosed
	}
	l.verify(c.nc, func(error) { end() })
	return t, nil
}

// Tunnel dials a broker for a client of this one.
func (l *Links) Tunnel(ctx context.Context, to Target, client *ClientHello) (*Tunnel, error) {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Handshake)
	defer cancel()
	nc, err := l.opts.Dial(ctx, to.Address)
	if err != nil {
		return nil, err
	}
	c := newConn(nc, true, &l.opts)
	err = l.bounded(c, func() error {
		if err := l.negotiate(c, to, Client, 0); err != nil {
			return err
		}
		if c.r != c.w {
			return fmt.Errorf("%w: bytes before the first request", frame.ErrMalformed)
		}
		return c.sendNow(frame.CL, client.encode())
	})
	if err != nil {
		return nil, c.fail(err)
	}
	t, err := l.tunnel(c, to.Node, true)
	if err != nil {
		return nil, c.fail(err)
	}
	return t, nil
}

// pass gives an accepted tunnel to Options.Client.
func (l *Links) pass(c *Conn) error {
	early := slices.Clone(c.buf[c.r:c.w])
	t, err := l.tunnel(c, c.peer.Node, false)
	if err != nil {
		return err
	}
	l.opts.Client(t, early, c.peer.Node, c.client)
	return nil
}

// endTunnels ends the tunnels to a node, or from it, because the lane of metadata in that direction
// has ended.
func (l *Links) endTunnels(node int32, dialed bool) {
	for _, t := range l.openTunnels() {
		if t.node == node && t.dialed == dialed {
			_ = t.Close() // a failed close takes nothing back that the peer was promised
		}
	}
}

func (l *Links) openTunnels() (list []*Tunnel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t := range l.tunnels {
		list = append(list, t)
	}
	return list
}
