package link

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/security/secret"
	"go.uber.org/zap"
)

// Options configures Links. Identity and Dial are required; Handler and Data are for the lanes that
// the broker serves.
type Options struct {
	// Identity returns who the broker is now. It is called for every handshake.
	Identity func() Identity
	// Secrets are those of cluster.secret.file; empty if there is none. This end proves the first,
	// and accepts a proof of any: brokers take a new secret one by one.
	Secrets []secret.Secret
	// Dial opens a connection to an address, with TLS if the listener wants it. Then the proofs of
	// the handshake hold for this connection only, and it ends when a certificate does.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Admit decides, before the handshake, whether the principal of an accepted connection may be
	// a broker. Default: any may.
	Admit func(nc net.Conn, principal string) error
	// Trusts returns why the certificates that the other end has shown, its own first, are not
	// accepted any more; see EndUntrusted. Default: they stay good.
	Trusts func(shown []*x509.Certificate) error
	// Check decides, in the handshake, whether a peer is admitted: a member that was removed is
	// not, nor one whose FeatureLevel is too low. Default: any is.
	Check func(Hello) error
	// Handler serves the requests and messages of other brokers. With nil the lane is refused.
	Handler Handler
	// Urgent reports whether requests of a method have their own way: they are sent before anything
	// else that waits, take no memory and no handler that other requests could have taken, and so
	// do their responses. Their handler must not block, because the connection's reader runs it. It
	// must be the same on all brokers. Default: none.
	Urgent func(method uint16) bool
	// Data serves an accepted connection of the lane of data until it ends, on a goroutine of
	// its own. The connection is closed when it returns. With nil the lane is refused.
	Data func(*Conn)
	// Client serves an accepted tunnel for a client of the broker node. early has arrived on it
	// already. It must not block, and owns the tunnel. With nil the lane is refused.
	Client func(t *Tunnel, early []byte, node int32, of *ClientHello)
	// Met is called for each other process that has proved who it is, in each handshake, whatever
	// its result, and when a connection shows that a process ran at a time. from is the other end
	// of its connection, nil if another process told of it. It must not block. Default: none.
	Met func(peer Hello, from net.Addr, at time.Time)
	// Notify is called for each Event. It must not block. Default: none.
	Notify func(Event)
	// Log receives a line for each refusal and each end of a connection. Default: none.
	Log *zap.Logger
	// Pool provides the memory of payloads. Default: a pool of its own.
	Pool *bufpool.Pool

	// Ping is after how long without a frame a ping is sent; Silence is after how long without a
	// byte from the peer a connection ends. Defaults 500 ms and 2 s.
	Ping, Silence time.Duration
	// Handshake bounds the handshake, and separately the dial before it. Default 2 s.
	Handshake time.Duration
	// Redial bounds the pause between two dials, of which up to a quarter is taken off at random.
	// Default 20 ms to 1 s.
	Redial pause.Backoff
	// Accepted bounds the accepted connections of peers that have proved the secret. Default 256.
	// Strangers bounds those that have not yet; a new one displaces the oldest of the address with
	// the most, so that strangers keep out no broker. Default 64.
	Accepted, Strangers int
	// InboundBytes bounds the requests of all peers that are arriving or being handled, in bytes.
	// Default 128 MiB.
	InboundBytes int64
}

// EventKind is what happened to a connection.
type EventKind uint8

// The events of a connection.
const (
	// Connected: the handshake is complete.
	Connected EventKind = 1 + iota
	// Broken: a connection that was Connected has ended; Err is the reason.
	Broken
	// Refused: nothing listens at the target's address (ECONNREFUSED): its process is gone.
	Refused
	// Unreachable: a dial failed in another way.
	Unreachable
	// Rejected: a handshake failed; Err is a *Mismatch if one of the ends refused.
	Rejected
)

// Event is a change, for Options.Notify.
type Event struct {
	Kind   EventKind
	Lane   Lane
	Dialed bool
	// Target is what was dialed, if Dialed.
	Target Target
	// Peer is the other end, for Connected and Broken. For Rejected it is what answered instead of
	// the Target, if that has proved who it is.
	Peer Hello
	// From and Principal are the other end of a Rejected connection that it dialed; Principal is
	// that of its certificate, or empty.
	From      net.Addr
	Principal string
	Err       error
}

// Target is a broker to dial.
type Target struct {
	Address string
	// Node and Member are what the peer must state. Node -1 and Member 0 accept any: the address
	// comes from cluster.seeds.
	Node   int32
	Member uint64
}

// check refuses another broker than the one that was meant.
func (t Target) check(peer *Hello) *Mismatch {
	if (t.Node < 0 || t.Node == peer.Node) && (t.Member == 0 || t.Member == peer.Member) {
		return nil
	}
	remedy := "check the advertised addresses of both nodes"
	if t.Node == peer.Node {
		remedy = fmt.Sprintf("if node %d was started with an empty data directory, wait until it has registered; "+
			"otherwise another broker uses its node.id and address", t.Node)
	}
	return &Mismatch{Reason: WrongNode, Cause: fmt.Sprintf("node %d, member %016x answers at %s instead of node %d, member %016x",
		peer.Node, peer.Member, t.Address, t.Node, t.Member), Remedy: remedy}
}

// Links owns all connections of a broker to other brokers.
type Links struct {
	opts     Options
	process  uint64
	attempts atomic.Uint64
	// earlier are dialed addresses at which a hello was refused without a word, as the first
	// versions refuse one with an address. The next hello to them has none.
	earlier sync.Map
	dialers atomic.Uint32
	inbound *bufpool.Budget
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup // of everything that Accept, Peer and Follow started

	mu       sync.Mutex
	stopped  bool
	accepted int                 // connections whose peer has proved the secret
	unproven origin.Crowd[*Conn] // those whose peer has not yet
	open     map[*Conn]struct{}  // after their handshake
	tunnels  map[*Tunnel]struct{}
	serving  map[peerLane]*serving // accepted connections after their handshake
	refusals int                   // logged since refusedAt
	refused  time.Time
}

// New returns Links without connections.
func New(opts Options) (*Links, error) {
	if opts.Identity == nil || opts.Dial == nil {
		return nil, errors.New("link: an identity and a dialer are needed")
	}
	for _, s := range opts.Secrets {
		if n := s.Len(); n < MinSecret {
			return nil, fmt.Errorf("link: the cluster's secret has %d bytes, at least %d are needed; write 32 random ones to the file",
				n, MinSecret)
		}
	}
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if opts.Pool == nil {
		opts.Pool = new(bufpool.Pool)
	}
	if opts.Urgent == nil {
		opts.Urgent = func(uint16) bool { return false }
	}
	if opts.Met == nil {
		opts.Met = func(Hello, net.Addr, time.Time) {}
	}
	if opts.Notify == nil {
		opts.Notify = func(Event) {}
	}
	orDefault(&opts.Ping, 500*time.Millisecond)
	orDefault(&opts.Silence, 2*time.Second)
	orDefault(&opts.Handshake, 2*time.Second)
	orDefault(&opts.Redial.First, 20*time.Millisecond)
	orDefault(&opts.Redial.Most, time.Second)
	orDefault(&opts.Accepted, 256)
	orDefault(&opts.Strangers, 64)
	orDefault(&opts.InboundBytes, 128<<20)
	l := &Links{opts: opts, inbound: bufpool.NewBudget(opts.InboundBytes), serving: make(map[peerLane]*serving),
		open: make(map[*Conn]struct{}), tunnels: make(map[*Tunnel]struct{})}
	var p [8]byte
	_, _ = rand.Read(p[:]) // it never fails
	l.process = binary.BigEndian.Uint64(p[:])
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

func orDefault[T int | int64 | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

// Close ends all connections and waits for their goroutines, and for the handlers that run on them.
func (l *Links) Close() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.cancel()
	l.wg.Wait()
}

// spawn runs fn on a goroutine that Close waits for; it returns false after Close.
func (l *Links) spawn(fn func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spawnLocked(fn)
}

// spawnLocked is spawn for a caller that holds mu.
func (l *Links) spawnLocked(fn func()) bool {
	if l.stopped {
		return false
	}
	l.wg.Go(fn)
	return true
}

// Accept serves a connection whose client sent a request of API key 20480, with this body. It
// returns at once and owns nc from then on.
func (l *Links) Accept(nc net.Conn, principal string, hello []byte) {
	c, from := newConn(nc, false, &l.opts), origin.OfPeer(nc.RemoteAddr().String())
	l.mu.Lock()
	if !l.spawnLocked(func() { l.serve(c, principal, hello) }) {
		l.mu.Unlock()
		c.Close()
		return
	}
	var yielding *Conn
	if l.unproven.Len() >= l.opts.Strangers {
		if yielding, _ = l.unproven.Yielding(from, begun, math.MaxInt64); yielding != nil {
			l.unproven.Remove(origin.OfPeer(yielding.nc.RemoteAddr().String()), yielding)
		}
	}
	l.unproven.Add(from, c) // serve removes it, with mu
	l.mu.Unlock()
	if yielding != nil {
		_ = yielding.fail(fmt.Errorf("it had not proved that it is a broker when there were %d such connections", l.opts.Strangers))
	}
}

// begun orders connections by age.
func begun(c *Conn) (int64, bool) { return c.begun.UnixNano(), true }

// enter counts an accepted connection as that of a broker, when its peer has proved the secret. The
// caller holds mu.
func (l *Links) enter(c *Conn) *Mismatch {
	if l.accepted >= l.opts.Accepted {
		return &Mismatch{Reason: Overloaded, Cause: fmt.Sprintf("%d connections of brokers are open, the most there may be", l.accepted),
			Remedy: "wait until some of them end: the peer dials again; if this lasts, stop nodes that are not brokers of this cluster"}
	}
	l.unproven.Remove(origin.OfPeer(c.nc.RemoteAddr().String()), c)
	l.accepted++
	return nil
}

// leave removes an accepted connection.
func (l *Links) leave(c *Conn, proven bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if proven {
		l.accepted--
	} else {
		l.unproven.Remove(origin.OfPeer(c.nc.RemoteAddr().String()), c)
	}
}

// serve runs an accepted connection until it ends.
func (l *Links) serve(c *Conn, principal string, hello []byte) {
	nc := c.nc
	var s *serving
	defer func() { l.leave(c, s != nil) }()
	err := l.bounded(c, func() error {
		if l.opts.Admit != nil {
			if err := l.opts.Admit(nc, principal); err != nil {
				_ = nc.SetWriteDeadline(time.Now().Add(l.opts.Handshake)) // fails on a closed connection only
				m := refusal(err)
				return errors.Join(m, c.refuse(m))
			}
		}
		return l.answer(c, hello, func(peer *Hello) (m *Mismatch) {
			if peer.Lane == Client && l.opts.Client != nil {
				return nil // the broker at the other end bounds its clients
			}
			s, m = l.claim(c, peer)
			return m
		})
	})
	if s != nil {
		defer l.drop(s)
	}
	switch {
	case err != nil:
	case c.lane == Client:
		if err = l.pass(c); err == nil {
			return
		}
	default:
		err = l.await(s)
	}
	if err != nil {
		_ = c.fail(err)
		l.logRefusal("connection of a broker refused", zap.Stringer("peer", nc.RemoteAddr()), zap.Error(err))
		l.opts.Notify(Event{Kind: Rejected, From: nc.RemoteAddr(), Principal: principal, Err: err})
		return
	}
	l.use(c, Target{}, func() {
		if c.lane == Meta {
			l.serveMeta(c)
		} else {
			l.opts.Data(c)
		}
	})
}

// bounded runs a handshake, which ends with Options.Handshake or with Close.
func (l *Links) bounded(c *Conn, shake func() error) error {
	ctx, cancel := context.WithTimeoutCause(l.ctx, l.opts.Handshake, fmt.Errorf("no handshake within %v", l.opts.Handshake))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.fail(context.Cause(ctx)) })
	err := shake()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// use runs what a connection is for, with its sender, and ends it when run returns.
func (l *Links) use(c *Conn, t Target, run func()) {
	stop := context.AfterFunc(l.ctx, c.Close)
	defer stop()
	defer c.endWithCertificates()()
	defer l.opened(c)()
	var sender sync.WaitGroup
	sender.Go(c.sender.run)
	l.opts.Notify(Event{Kind: Connected, Lane: c.lane, Dialed: c.dialed, Target: t, Peer: c.peer})
	run()
	c.Close()
	sender.Wait()
	if c.lane == Meta && !errors.Is(c.Err(), ErrClosed) {
		l.endTunnels(c.peer.Node, c.dialed)
	}
	l.opts.Log.Info("connection to a broker ended", zap.Int32("node", c.peer.Node), zap.Stringer("lane", c.lane),
		zap.Bool("dialed", c.dialed), zap.Error(c.Err()))
	l.opts.Notify(Event{Kind: Broken, Lane: c.lane, Dialed: c.dialed, Target: t, Peer: c.peer, Err: c.Err()})
}

// maxRefusals bounds the lines about refused connections, for each minute: anyone who can dial
// causes them.
const maxRefusals = 20

func (l *Links) logRefusal(msg string, fields ...zap.Field) {
	now := time.Now()
	l.mu.Lock()
	if now.Sub(l.refused) > time.Minute {
		l.refused, l.refusals = now, 0
	}
	l.refusals++
	quiet := l.refusals > maxRefusals
	l.mu.Unlock()
	if !quiet {
		l.opts.Log.Warn(msg, fields...)
	}
}

// Stats describes Links at one moment.
type Stats struct {
	Accepted int                 // connections of other brokers, handshakes included
	Inbound  bufpool.BudgetStats // of Options.InboundBytes
}

// Stats returns the present state.
func (l *Links) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{Accepted: l.accepted + l.unproven.Len(), Inbound: l.inbound.Stats()}
}
