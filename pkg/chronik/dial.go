package chronik

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// pipes is a listener for connections within the program.
type pipes struct {
	dialed chan net.Conn // unbuffered: the broker's ends, for Accept; never closed
	closed chan struct{} // closed by Close, once
	once   sync.Once
	number atomic.Uint32 // of the last connection
	// server is the address of the broker's first listener. A listener that advertises no address
	// names clients the one that they dialed.
	server net.Addr
}

func newPipes() *pipes { return &pipes{dialed: make(chan net.Conn), closed: make(chan struct{})} }

// loopback returns an address for logs and access rules, which know clients by an IP address.
func loopback(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

// serve sets the address of the listener that clients would dial otherwise.
func (p *pipes) serve(address string) error {
	at, err := net.ResolveTCPAddr("tcp", address)
	p.server = at
	return err
}

// dial returns the client's end of a new connection, when the broker has accepted it.
func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	const ports = 1 << 16
	client, server := net.Pipe()
	number := loopback(int(p.number.Add(1) % ports))
	select {
	case p.dialed <- &pipe{server, p.server, number}:
		return &pipe{client, number, p.server}, nil
	case <-p.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (*pipes) Addr() net.Addr { return loopback(0) }

// pipe is one end of a connection.
type pipe struct {
	net.Conn
	local, remote net.Addr
}

// LocalAddr implements net.Conn.
func (p *pipe) LocalAddr() net.Addr { return p.local }

// RemoteAddr implements net.Conn.
func (p *pipe) RemoteAddr() net.Addr { return p.remote }
