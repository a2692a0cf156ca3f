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

// dialer connects to brokers and remembers whether any of them took a connection, so
// that a broker which hangs is told apart from one that cannot be reached: the client
// library reports both as a dial that failed.
type dialer struct {
	tcp cli.DialFunc
	tls *tls.Config // nil without TLS
	// limit is the longest wait for an answer, 0 for what the client library asks for. It
	// grants requests that carry a timeout that much more than any other.
	limit     time.Duration
	connected atomic.Bool
}

// dial is kgo's Dialer.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	// The library dials again after a connection whose first answer timed out, also when
	// the time of the request is over.
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
			_ = c.Close() // the handshake's error says why
			return nil, err
		}
		c = secure
	}
	if d.limit > 0 {
		c = &bounded{c, d.limit}
	}
	return c, nil
}

// bounded is a connection on which no read waits longer than limit.
type bounded struct {
	net.Conn
	limit time.Duration
}

// SetReadDeadline makes reads fail after t, or after the limit where that is earlier.
// The client sets it before each answer that it waits for.
func (b *bounded) SetReadDeadline(t time.Time) error {
	if most := time.Now().Add(b.limit); !t.IsZero() && t.After(most) {
		t = most
	}
	return b.Conn.SetReadDeadline(t)
}
