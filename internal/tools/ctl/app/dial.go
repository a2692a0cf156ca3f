package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/cli"
)

// dialer connects to brokers and records whether any connection and any TLS handshake succeeded. It
// tells a broker that hangs from one that cannot be reached: the client library reports both as a
// failed dial.
type dialer struct {
	tcp cli.DialFunc
	tls *tls.Config // nil without TLS
	// limit bounds the wait for an answer; 0 leaves it to the client library, which extends the
	// wait of requests that carry a timeout.
	limit time.Duration
	// patience bounds, in nanoseconds, connecting including the TLS handshake, and the wait for the
	// first answer of a connection. A broker answers the first request, ApiVersions, at once. With
	// several seeds it is shorter than --timeout, so that the client has time for another broker.
	patience  atomic.Int64
	connected atomic.Bool
	secured   atomic.Bool // by TLS
}

// dial implements kgo.Dialer.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	// The library dials again after a connection timed out on its first answer, even if the
	// request's deadline has passed.
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return nil, context.DeadlineExceeded
	}
	end := time.Now().Add(time.Duration(d.patience.Load()))
	within, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	c, err := d.tcp(within, network, addr)
	if err != nil {
		return nil, err
	}
	d.connected.Store(true)
	if d.tls != nil {
		config := d.tls.Clone()
		if config.ServerName == "" {
			if config.ServerName, _, err = net.SplitHostPort(addr); err != nil {
				return nil, errors.Join(err, c.Close())
			}
		}
		secure := tls.Client(c, config)
		if err := secure.HandshakeContext(within); err != nil {
			_ = c.Close() // return the handshake's error
			if within.Err() != nil && ctx.Err() == nil {
				// The library does not try another broker after an error of a context.
				err = &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
			}
			return nil, err
		}
		d.secured.Store(true)
		c = secure
	}
	return &bounded{Conn: c, limit: d.limit, first: end}, nil
}

// bounded is a connection whose first answer must arrive until first, and whose reads wait at most
// limit; 0 means no limit.
type bounded struct {
	net.Conn
	limit    time.Duration
	first    time.Time
	answered atomic.Bool
}

// Read records that there was an answer.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if n > 0 && !b.answered.Load() {
		b.answered.Store(true)
	}
	return n, err
}

// SetReadDeadline makes reads fail at t, or at the end of the connection's own bounds if that is
// earlier. The client sets it before each answer that it waits for.
func (b *bounded) SetReadDeadline(t time.Time) error {
	if most := time.Now().Add(b.limit); b.limit > 0 && !t.IsZero() && t.After(most) {
		t = most
	}
	if !b.answered.Load() && t.After(b.first) {
		t = b.first
	}
	return b.Conn.SetReadDeadline(t)
}
