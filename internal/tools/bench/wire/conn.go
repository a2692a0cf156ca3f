// Package wire is a minimal raw client of the Kafka protocol: connections, prebuilt Produce and
// Fetch requests, and a parser of their responses that allocates nothing.
//
// It promises minimal cost per request, so that a load generator on the broker's machine is not the
// limit: one write and one read system call if one request is in flight. It promises to be strict:
// a response that is cut short, malformed, or for another request is an error. bench/load calls it.
// It does not know what is measured, and it neither retries nor finds leaders.
package wire

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// MaxFrame is the size of the largest response that a connection reads.
const MaxFrame = 1 << 30

// firstBuffer is the initial size of a connection's read buffer.
const firstBuffer = 16 << 10

// ErrFrame is returned for a response with a length below zero or above MaxFrame.
var ErrFrame = errors.New("answer: impossible length")

// Conn is a connection to a broker. One goroutine may send while another receives; Exchange does
// both.
type Conn struct {
	nc  net.Conn
	raw syscall.RawConn // nil with TLS

	// in[r:w] was read and not yet returned by Next.
	in   []byte
	r, w int

	// The arguments and results of step; see Exchange.
	out  []byte
	wait bool
	err  error
	turn func(fd uintptr) bool
}

// Dial connects to a broker at host:port, with TLS unless secure is nil. ctx bounds the connection
// and the handshake.
func Dial(ctx context.Context, addr string, secure *tls.Config) (*Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	conn := &Conn{nc: c, in: make([]byte, firstBuffer)}
	if secure != nil {
		if secure.ServerName == "" {
			secure = secure.Clone()
			secure.ServerName, _, _ = net.SplitHostPort(addr) // an address that can be dialed
		}
		t := tls.Client(c, secure)
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("TLS handshake with %s: %w", addr, err), c.Close())
		}
		conn.nc = t
		return conn, nil
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("connect to %s: got a %T", addr, c), c.Close())
	}
	if conn.raw, err = tcp.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s: %w", addr, err), tcp.Close())
	}
	conn.turn = conn.step
	return conn, nil
}

// Close closes the connection; blocked calls return an error.
func (c *Conn) Close() error { return c.nc.Close() }

// SetDeadline makes reads and writes fail after t.
func (c *Conn) SetDeadline(t time.Time) error { return c.nc.SetDeadline(t) }

// Cipher returns the version and the cipher suite of TLS, empty without TLS.
func (c *Conn) Cipher() string {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return ""
	}
	state := t.ConnectionState()
	return tls.VersionName(state.Version) + " " + tls.CipherSuiteName(state.CipherSuite)
}

// Send writes frames.
func (c *Conn) Send(frames []byte) error {
	_, err := c.nc.Write(frames)
	return err
}

// Exchange writes frames and reads until Next has at least one response. idle means that nothing
// was in flight before: then no response can be available, and the connection waits for one without
// trying to read first.
//
// The write happens inside the RawConn.Read callback. Before it calls the callback, the runtime
// clears the socket's readiness, so a response that arrives after the write wakes the following
// wait, however fast it was. Go's TLS has no such way, so it writes and reads.
func (c *Conn) Exchange(frames []byte, idle bool) error {
	if !idle || c.raw == nil {
		if len(frames) > 0 {
			if err := c.Send(frames); err != nil {
				return err
			}
		}
		return c.Receive()
	}
	c.r, c.w = 0, 0
	c.out, c.wait = frames, true
	if err := c.read(); err != nil {
		return err
	}
	if len(c.out) > 0 { // the socket accepted only a part
		rest := c.out
		c.out = nil
		if err := c.Send(rest); err != nil {
			return err
		}
	}
	return c.Receive()
}

// Receive reads until Next has at least one response.
func (c *Conn) Receive() error {
	for {
		need, err := c.missing()
		if err != nil || need == 0 {
			return err
		}
		c.room(need)
		if err := c.read(); err != nil {
			return err
		}
	}
}

// missing returns the number of bytes that the first response lacks, as far as its length is known.
func (c *Conn) missing() (int, error) {
	have := c.w - c.r
	if have < 4 {
		return 4 - have, nil
	}
	size := int(int32(binary.BigEndian.Uint32(c.in[c.r:])))
	if size < 4 || size > MaxFrame {
		return 0, fmt.Errorf("%w: %d bytes", ErrFrame, size)
	}
	return max(4+size-have, 0), nil
}

// room makes space for need more bytes after those in the buffer.
func (c *Conn) room(need int) {
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	if len(c.in)-c.w >= need {
		return
	}
	if have := c.w - c.r; len(c.in)-have >= need {
		copy(c.in, c.in[c.r:c.w])
		c.r, c.w = 0, have
		return
	}
	grown := make([]byte, c.w-c.r+need)
	c.w = copy(grown, c.in[c.r:c.w])
	c.in, c.r = grown, 0
}

// Next returns the next complete response without its length; it is valid until the next call that
// reads. It returns false if there is none.
func (c *Conn) Next() ([]byte, bool) {
	have := c.w - c.r
	if have < 4 {
		return nil, false
	}
	size := int(int32(binary.BigEndian.Uint32(c.in[c.r:])))
	if size < 4 || have < 4+size {
		return nil, false
	}
	frame := c.in[c.r+4 : c.r+4+size]
	c.r += 4 + size
	return frame, true
}

// readOnce reads some bytes; it waits for the first.
func (c *Conn) readOnce() error {
	n, err := c.nc.Read(c.in[c.w:])
	c.w += n
	switch {
	case n > 0 || err == nil:
		return nil
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read: %w", err)
}
