package grouping

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/bench/wire"
)

// answerTimeout is how long a response may take. A join waits for other members.
const answerTimeout = 5 * time.Minute

// caller is a connection with one request in flight.
type caller struct {
	conn        *wire.Conn
	formatter   *kmsg.RequestFormatter
	correlation int32
	frame       []byte
	forget      func() bool // stops closing the connection when the context ends
}

// dial connects; the connection is closed when ctx ends.
func dial(ctx context.Context, addr string) (*caller, error) {
	conn, err := wire.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	c := &caller{conn: conn, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(wire.ClientID))}
	c.forget = context.AfterFunc(ctx, c.end)
	return c, nil
}

// close closes the connection.
func (c *caller) close() {
	c.forget()
	c.end()
}

// end closes the connection, which may be closed already; no response is expected.
func (c *caller) end() { _ = c.conn.Close() }

// call sends a request with its version and waits for the response.
func (c *caller) call(req kmsg.Request) (kmsg.Response, error) {
	c.correlation++
	c.frame = c.formatter.AppendRequest(c.frame[:0], req, c.correlation)
	if err := c.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
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
	if resp.IsFlexible() {
		head = 5 // no tags
	}
	switch {
	case !ok || len(frame) < head:
		return nil, wire.ErrAnswer
	case int32(binary.BigEndian.Uint32(frame)) != c.correlation:
		return nil, wire.ErrOther
	}
	if err := resp.ReadFrom(frame[head:]); err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrAnswer, err)
	}
	return resp, nil
}

// busyPause is how long a member waits before it retries a coordinator that is not ready.
const busyPause = 100 * time.Millisecond

// busy reports whether err means that the coordinator is not ready yet.
func busy(err error) bool {
	return errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.CoordinatorNotAvailable) ||
		errors.Is(err, kerr.NotCoordinator)
}
