package hostile

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	clientID = "hostile"
	// maxAnswer is the size of the largest response that a connection reads.
	maxAnswer = 256 << 20
	// smallWindow is the receive buffer of a client that does not read: unread responses stay in
	// the broker.
	smallWindow = 4 << 10
)

// errAnswer is returned for a response that does not match the request.
var errAnswer = errors.New("malformed answer")

// Conn is a raw connection. One goroutine uses it.
type Conn struct {
	net.Conn
	attacker    *Attacker   // nil for a bystander's connection
	forget      func() bool // stops watching the context
	formatter   *kmsg.RequestFormatter
	correlation int32
	out, in     []byte
}

// Dial connects. Reads and writes fail when ctx has ended; the connection stays open.
func Dial(ctx context.Context, addr string) (*Conn, error) { return dialFrom(ctx, addr, nil) }

// dialFrom is Dial from a local address; nil lets the kernel choose it.
func dialFrom(ctx context.Context, addr string, from *net.TCPAddr) (*Conn, error) {
	var d net.Dialer
	if from != nil {
		d.LocalAddr = from
	}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	forget := context.AfterFunc(ctx, func() {
		_ = c.SetDeadline(time.Unix(1, 0)) // fails on a closed connection only
	})
	return &Conn{Conn: c, forget: forget, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}, nil
}

// below returns the connection below TLS.
func (c *Conn) below() net.Conn {
	if t, ok := c.Conn.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c.Conn
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.forget()
	return c.below().Close()
}

// Send writes any bytes.
func (c *Conn) Send(p []byte) error {
	n, err := c.Write(p)
	if c.attacker != nil {
		c.attacker.sent.Add(int64(n))
	}
	return err
}

// Request sends a request with its version.
func (c *Conn) Request(req kmsg.Request) error {
	c.correlation++
	c.out = c.formatter.AppendRequest(c.out[:0], req, c.correlation)
	return c.Send(c.out)
}

// Receive reads a response without its length; it is valid until the next call.
func (c *Conn) Receive() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:])))
	if size < 4 || size > maxAnswer {
		return nil, fmt.Errorf("%w: of %d bytes", errAnswer, size)
	}
	if cap(c.in) < size {
		c.in = make([]byte, size)
	}
	c.in = c.in[:size]
	_, err := io.ReadFull(c, c.in)
	return c.in, err
}

// Ask sends a request and returns its response.
func (c *Conn) Ask(req kmsg.Request) (kmsg.Response, error) {
	if err := c.Request(req); err != nil {
		return nil, err
	}
	return c.answer(req)
}

// answer reads the response to req, which must be the next one.
func (c *Conn) answer(req kmsg.Request) (kmsg.Response, error) {
	p, err := c.Receive()
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	head := 4
	if resp.IsFlexible() && resp.Key() != kmsg.ApiVersions.Int16() {
		head++ // no tags
	}
	if len(p) < head || int32(binary.BigEndian.Uint32(p)) != c.correlation {
		return nil, fmt.Errorf("%w to %s", errAnswer, kmsg.NameForKey(req.Key()))
	}
	if err := resp.ReadFrom(p[head:]); err != nil {
		return nil, fmt.Errorf("%w to %s: %w", errAnswer, kmsg.NameForKey(req.Key()), err)
	}
	return resp, nil
}

// reset makes the kernel discard the connection on close, without TIME_WAIT, of which it can hold
// about 28,000.
func (c *Conn) reset() error {
	tcp, ok := c.below().(*net.TCPConn)
	if !ok {
		return nil
	}
	return tcp.SetLinger(0)
}

// narrow makes the connection's receive buffer small.
func (c *Conn) narrow() error {
	tcp, ok := c.below().(*net.TCPConn)
	if !ok {
		return nil
	}
	return tcp.SetReadBuffer(smallWindow)
}

// frame encodes a request, for attacks that send it many times.
func frame(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, 1)
}

// announced returns the start of a request: its size and its first eight bytes.
func announced(size int32, key, version int16) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(size))
	p = binary.BigEndian.AppendUint16(p, uint16(key))
	p = binary.BigEndian.AppendUint16(p, uint16(version))
	return binary.BigEndian.AppendUint32(p, 1)
}

// lost reports whether an error means that the connection is closed or refused, or that a deadline
// has passed.
func lost(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err,
		os.ErrDeadlineExceeded) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &op)
}

// codeName returns Kafka's name of an error code.
func codeName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	if ke := (*kerr.Error)(nil); errors.As(kerr.ErrorForCode(code), &ke) {
		return ke.Message
	}
	return fmt.Sprintf("error %d", code)
}
