package wire

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Caller is a connection with one request in flight.
type Caller struct {
	conn        *Conn
	timeout     time.Duration
	formatter   *kmsg.RequestFormatter
	correlation int32
	frame       []byte
	forget      func() bool // stops closing the connection when the context ends
}

// DialCaller connects as Dial; the connection is closed when ctx ends. timeout is how long a
// response may take.
func DialCaller(ctx context.Context, addr string, secure *tls.Config, timeout time.Duration) (*Caller, error) {
	conn, err := Dial(ctx, addr, secure)
	if err != nil {
		return nil, err
	}
	c := &Caller{conn: conn, timeout: timeout, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(ClientID))}
	c.forget = context.AfterFunc(ctx, c.end)
	return c, nil
}

// Close closes the connection.
func (c *Caller) Close() {
	c.forget()
	c.end()
}

// end closes the connection, which may be closed already; no response is expected.
func (c *Caller) end() { _ = c.conn.Close() }

// Cipher returns the version and the cipher suite of TLS, empty without TLS.
func (c *Caller) Cipher() string { return c.conn.Cipher() }

// Call sends a request with its version and waits for the response.
func (c *Caller) Call(req kmsg.Request) (kmsg.Response, error) {
	c.correlation++
	c.frame = c.formatter.AppendRequest(c.frame[:0], req, c.correlation)
	if err := c.conn.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	// Not as from an idle connection: the broker may have closed it in the meantime, which only a
	// read detects.
	if err := c.conn.Exchange(c.frame, false); err != nil {
		return nil, err
	}
	frame, ok := c.conn.Next()
	resp := req.ResponseKind()
	head := 4
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) { // KIP-511: its header stays the old one
		head = 5 // no tags
	}
	switch {
	case !ok || len(frame) < head:
		return nil, ErrAnswer
	case int32(binary.BigEndian.Uint32(frame)) != c.correlation:
		return nil, ErrOther
	}
	if err := resp.ReadFrom(frame[head:]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return resp, nil
}
