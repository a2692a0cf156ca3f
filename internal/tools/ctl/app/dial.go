package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
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
	// remembers makes an address count as silent for a while once it was: silent has silences, by
	// address.
	remembers atomic.Bool
	silent    sync.Map
	refused   sync.Map // since when an address refuses connections, by address
}

// connectTime bounds connecting to a broker that another one has named. The kernel there answers,
// also if the broker is busy.
const connectTime = 3 * time.Second

// answerTime bounds the wait for the first answer of a broker that another one has named: it comes
// from memory.
const answerTime = 5 * time.Second

// errSilent means that no request was sent, because the broker was silent before. The error of that
// silence is not wrapped: the client library would take this one for the same.
var errSilent = errors.New("was silent before")

// silentFor is for how long an address counts as silent: longer than most commands take, and
// shorter than one may wait that restarts brokers or moves partitions.
const silentFor = 30 * time.Second

// silence is that of an address.
type silence struct {
	why   string
	until time.Time
}

// isSilent notes that nothing answers at an address, if err is that of a wait which ended.
func (d *dialer) isSilent(addr string, err error) {
	var timeout net.Error
	if d.remembers.Load() && errors.As(err, &timeout) && timeout.Timeout() {
		d.silent.Store(addr, silence{why: err.Error(), until: time.Now().Add(silentFor)})
	}
}

// knownSilent returns the error of a dial of an address that was silent before, or nil. For the
// client library it is no failed dial, which it would repeat: it asks another broker if any may
// answer, and otherwise fails at once.
func (d *dialer) knownSilent(network, addr string) error {
	if was, ok := d.silent.Load(addr); ok && time.Now().Before(was.(silence).until) {
		return &net.OpError{Op: "reach", Net: network, Err: fmt.Errorf("%s %w: %s", addr, errSilent, was.(silence).why)}
	}
	return nil
}

// refusedFor is for how long a refused connection is attempted again: a broker that was killed is
// the leader of its partitions until the cluster has noticed it, and another one leads them then.
const refusedFor = 2 * time.Second

// again returns the error of a connection to a broker that others have named. The client library
// repeats a request after a failure of a connection, but not after one of a dial. So a refusal is
// not called a dial until the address has refused for a while.
func (d *dialer) again(addr string, err error) error {
	var dial *net.OpError
	if !d.remembers.Load() || !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &dial) {
		return err
	}
	since, _ := d.refused.LoadOrStore(addr, time.Now())
	if time.Since(since.(time.Time)) >= refusedFor {
		return err
	}
	return &net.OpError{Op: "connect", Net: dial.Net, Addr: dial.Addr, Err: dial.Err}
}

// Unconnected reports whether err is that of a connection which could not be made, so that nothing
// was sent.
func Unconnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "connect" || op.Op == "reach")
}

// dial implements kgo.Dialer.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	// The library dials again after a connection timed out on its first answer, even if the
	// request's deadline has passed.
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return nil, context.DeadlineExceeded
	}
	if err := d.knownSilent(network, addr); err != nil {
		return nil, err
	}
	end := time.Now().Add(time.Duration(d.patience.Load()))
	within, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	c, err := d.connect(within, network, addr)
	if err != nil {
		if ctx.Err() == nil {
			d.isSilent(addr, err)
		}
		return nil, d.again(addr, err)
	}
	d.refused.Delete(addr)
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
	return &bounded{Conn: c, limit: d.limit, first: end, late: func(err error) { d.isSilent(addr, err) }}, nil
}

// connect opens a connection without TLS.
func (d *dialer) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.remembers.Load() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, connectTime)
		defer cancel()
	}
	return d.tcp(ctx, network, addr)
}

// bounded is a connection whose first answer must arrive until first, and whose reads wait at most
// limit; 0 means no limit.
type bounded struct {
	net.Conn
	limit    time.Duration
	first    time.Time
	answered atomic.Bool
	late     func(error) // takes the error of a wait for the first answer
}

// Read records that there was an answer, or none.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	switch {
	case b.answered.Load():
	case n > 0:
		b.answered.Store(true)
	case err != nil:
		b.late(err)
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
