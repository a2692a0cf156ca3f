package hostile

import (
	"context"
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
	// maxAnswer is the largest answer that a connection reads.
	maxAnswer = 256 << 20
	// smallWindow is the receive buffer of a client that does not read: what it leaves unread stays with the broker.
	smallWindow = 4 << 10
)

// errAnswer is an answer that is not one to the request that was sent.
var errAnswer = errors.New("malformed answer")

// Conn is a raw connection, used by one goroutine.
type Conn struct {
	net.Conn
	mob         *Mob        // nil for a bystander's
	forget      func() bool // that the connection heeds its context
	formatter   *kmsg.RequestFormatter
	correlation int32
	out, in     []byte
}

// Dial connects. Reads and writes fail once ctx has ended; the connection stays open.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	forget := context.AfterFunc(ctx, func() {
		_ = c.SetDeadline(time.Unix(1, 0)) // fails on a closed connection only
	})
	return &Conn{Conn: c, forget: forget, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}, nil
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.forget()
	return c.Conn.Close()
}

// Send writes bytes, whatever they are.
func (c *Conn) Send(p []byte) error {
	n, err := c.Write(p)
	if c.mob != nil {
		c.mob.sent.Add(int64(n))
	}
	return err
}

// Request sends a request of the version that it has.
func (c *Conn) Request(req kmsg.Request) error {
	c.correlation++
	c.out = c.formatter.AppendRequest(c.out[:0], req, c.correlation)
	return c.Send(c.out)
}

// Receive reads an answer without its length; it is valid until the next call.
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

// Ask sends a request and returns its answer.
func (c *Conn) Ask(req kmsg.Request) (kmsg.Response, error) {
	if err := c.Request(req); err != nil {
		return nil, err
	}
	return c.answer(req)
}

// answer reads the answer to req, which must be the next one.
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

// reset makes that closing the connection leaves nothing behind in the kernel (TIME_WAIT), which has room for some 28,000.
func (c *Conn) reset() error {
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	return tcp.SetLinger(0)
}

// narrow makes the connection's receive buffer small.
func (c *Conn) narrow() error {
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	return tcp.SetReadBuffer(smallWindow)
}

// frame is a request as it goes over a connection, for attacks that send one many times.
func frame(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, 1)
}

// announced is the beginning of a request: that it has size bytes, and its first eight.
func announced(size int32, key, version int16) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(size))
	p = binary.BigEndian.AppendUint16(p, uint16(key))
	p = binary.BigEndian.AppendUint16(p, uint16(version))
	return binary.BigEndian.AppendUint32(p, 1)
}

// lost reports whether an error says that the connection is gone, refused, or was not heard in time.
func lost(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &op)
}

// codeName is Kafka's name of an error code.
func codeName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	if ke := (*kerr.Error)(nil); errors.As(kerr.ErrorForCode(code), &ke) {
		return ke.Message
	}
	return fmt.Sprintf("error %d", code)
}
