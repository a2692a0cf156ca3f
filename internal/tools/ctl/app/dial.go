package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
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
	limit     time.Duration
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
	c, err := d.tcp(ctx, network, addr)
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
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = c.Close() // return the handshake's error
			return nil, err
		}
		d.secured.Store(true)
		c = secure
	}
	if d.limit > 0 {
		c = &bounded{c, d.limit}
	}
	return c, nil
}

// bounded is a connection whose reads wait at most limit.
type bounded struct {
	net.Conn
	limit time.Duration
}

// SetReadDeadline makes reads fail at t, or after the limit if that is earlier. The client sets it
// before each answer that it waits for.
func (b *bounded) SetReadDeadline(t time.Time) error {
	if most := time.Now().Add(b.limit); !t.IsZero() && t.After(most) {
		t = most
	}
	return b.Conn.SetReadDeadline(t)
}
