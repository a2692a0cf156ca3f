package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

// Dial opens a tunnel to a broker for a client.
type Dial func(ctx context.Context, broker int32, of *network.Adopted) (net.Conn, error)

// Options configures a Forwarder. Dial and Lost are required.
type Options struct {
	Dial Dial
	// Lost answers a request whose tunnel could not be opened or has ended. sent: the other broker
	// may have handled it. Any goroutine may call it.
	Lost func(r *network.Request, sent bool)
	// Answers bounds the large answers that clients have not read. Default 256 MiB.
	Answers *bufpool.Shares[netip.Prefix]
	// Bytes bounds the unanswered Produce requests to one broker. Default 8 MiB.
	Bytes int64
	Log   *zap.Logger
}

// Forwarder owns the tunnels of a broker's clients.
type Forwarder struct {
	o    Options
	pool bufpool.Pool
	work sync.WaitGroup // of the tunnels' goroutines
	ctx  context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	targets map[int32]*target
	open    map[*tunnel]struct{}
	stopped bool
}

// target is a broker to which requests are passed.
type target struct {
	id            int32
	busy, idle    *network.Waiter
	bytes         atomic.Int64 // of Produce requests without an answer
	passed, lost  atomic.Int64
	refused       atomic.Int64
	tunnels       atomic.Int64
	mu            sync.Mutex
	failing, last time.Time // since when, and when last, no tunnel could be opened; zero: one could
	err           error
}

// New returns a Forwarder without tunnels.
func New(o Options) *Forwarder {
	if o.Answers == nil {
		o.Answers = bufpool.NewShares[netip.Prefix](256<<20, 64<<10)
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	o.Bytes = cmp.Or(o.Bytes, 8<<20)
	f := &Forwarder{o: o, targets: make(map[int32]*target), open: make(map[*tunnel]struct{})}
	f.ctx, f.end = context.WithCancel(context.Background())
	return f
}

// Pass passes a request to a broker, and its answer to the client. silent: the request has no
// answer. Only Handle may call it, before it does anything else: a connection's first request to a
// broker is handled again where it may block. After an error, which MayBlock permits to wait for,
// the request was not touched: the broker cannot be reached.
func (f *Forwarder) Pass(r *network.Request, broker int32, silent bool) error {
	t, err := f.tunnel(r, broker)
	if errors.Is(err, errLater) {
		return nil
	}
	if err != nil {
		return err
	}
	if r.Key == protocol.KeyProduce {
		// Produce requests to different brokers would not keep their order. The count of the
		// tunnel comes first: it falls after that of the connection.
		if n := int(t.produces.Load()); r.Unanswered()-1 > n || r.Ends() || t.to.over(r, f.o.Bytes) {
			f.Refuse(r, broker)
			return nil
		}
	}
	w := t.to.busy
	if r.Key != protocol.KeyProduce {
		w = t.to.idle
	}
	r.WaitsAt(w, "")
	t.send(&passed{r: r, holder: r.Holder(), key: r.Key, id: r.CorrelationID, size: int64(r.FrameSize()), silent: silent})
	return nil
}

// Waits records that a request waits until a broker can be reached, or another one serves it.
func (f *Forwarder) Waits(r *network.Request, broker int32) { r.WaitsAt(f.target(broker).busy, "") }

// Refuse answers a request that is not sent.
func (f *Forwarder) Refuse(r *network.Request, broker int32) {
	f.target(broker).refused.Add(1)
	f.o.Lost(r, false)
}

// Elsewhere reports whether a Produce request of the connection is unanswered at another broker, or
// was aborted: one that is handled here would not keep its order.
func (f *Forwarder) Elsewhere(r *network.Request) bool {
	c, _ := r.Kept().(*client)
	return c != nil && (c.waits() || r.Ends())
}

// over reports whether a request exceeds the bytes for a broker.
func (t *target) over(r *network.Request, most int64) bool {
	n := t.bytes.Load()
	return n > 0 && n+int64(r.FrameSize()) > most
}

// Ask passes a request to brokers and returns the bodies of their answers. It blocks until ctx
// ends. Only a handler for which MayBlock returned true may call it; it must answer the request.
func (f *Forwarder) Ask(ctx context.Context, r *network.Request, brokers []int32) ([][]byte, error) {
	asked := make([]chan reply, 0, len(brokers))
	for _, broker := range brokers {
		t, err := f.tunnel(r, broker)
		if err != nil {
			return nil, err
		}
		p := &passed{r: r, holder: r.Holder(), key: r.Key, id: r.CorrelationID, asked: make(chan reply, 1)}
		asked = append(asked, p.asked)
		t.send(p)
	}
	var bodies [][]byte
	for _, ch := range asked {
		select {
		case got := <-ch:
			if got.err != nil {
				return nil, got.err
			}
			bodies = append(bodies, got.body)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return bodies, nil
}

// errLater: the request is handled again.
var errLater = errors.New("handled again where it may block")

// tunnel returns the tunnel of a request's connection to a broker.
func (f *Forwarder) tunnel(r *network.Request, broker int32) (*tunnel, error) {
	c, _ := r.Kept().(*client)
	if c != nil {
		if t := c.to(broker); t != nil {
			return t, nil
		}
	}
	if !r.MayBlock() {
		r.HandOver()
		return nil, errLater
	}
	if c == nil {
		c = &client{}
		r.Keep(c)
		r.OnEnd(c.end)
	}
	to := f.target(broker)
	r.WaitsAt(to.busy, "")
	nc, err := f.o.Dial(f.ctx, broker, adopted(r))
	if to.dialed(err, time.Now()) {
		f.o.Log.Warn("requests of clients cannot be passed to a broker", zap.Int32("broker", broker), zap.Error(err))
	}
	if err != nil {
		return nil, err
	}
	t := newTunnel(f, to, nc, r)
	f.mu.Lock()
	stopped := f.stopped
	if !stopped {
		f.open[t] = struct{}{}
		f.work.Go(t.read)
	}
	f.mu.Unlock()
	if stopped || !c.add(t) {
		t.fail(net.ErrClosed)
		return nil, net.ErrClosed
	}
	return t, nil
}

// adopted describes the client of a request.
func adopted(r *network.Request) *network.Adopted {
	a := &network.Adopted{Host: r.Listener.AdvertisedHost, Port: r.Listener.AdvertisedPort, Session: network.Session{
		Principal: r.Session.Principal, Host: r.Session.Host, Listener: r.Session.Listener, Mechanism: r.Session.Mechanism},
		Peer: r.Peer.String(), Software: r.Software}
	if at, ok := r.Local.(*net.TCPAddr); ok {
		a.Host, a.Port = cmp.Or(a.Host, at.IP.String()), cmp.Or(a.Port, int32(at.Port))
	}
	return a
}

func (f *Forwarder) target(id int32) *target {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.targets[id]
	if t == nil {
		step := view.WaitStep{Step: view.StepBrokers, Brokers: []int32{id},
			For: fmt.Sprintf("the answer of broker %d, to which it was passed", id)}
		t = &target{id: id, busy: network.At(step), idle: network.At(step)}
		t.idle.Idle = true
		f.targets[id] = t
	}
	return t
}

// dialed records whether a tunnel could be opened, and reports whether that is news.
func (t *target) dialed(err error, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := err != nil && t.failing.IsZero()
	switch t.err, t.last = err, now; {
	case err == nil:
		t.failing = time.Time{}
	case news:
		t.failing = now
	}
	return news
}

// Release ends what other brokers keep waiting for clients of this one, which stops. The caller
// repeats it until no request is left: one that was accepted may be passed on only now. A request
// that has waited first since the last call is lost, as on a broken tunnel: a Produce, or a commit
// of offsets, may wait for replicas until its own timeout.
func (f *Forwarder) Release() {
	for _, t := range f.tunnels() {
		t.release()
	}
}

// Close ends all tunnels and waits for their goroutines.
func (f *Forwarder) Close() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.end()
	for _, t := range f.tunnels() {
		t.fail(net.ErrClosed)
	}
	f.work.Wait()
}

func (f *Forwarder) tunnels() (list []*tunnel) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for t := range f.open {
		list = append(list, t)
	}
	return list
}

// Targets returns the brokers to which requests were passed, by id.
func (f *Forwarder) Targets() (list []view.Forwarding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.targets {
		t.mu.Lock()
		x := view.Forwarding{Broker: t.id, Tunnels: t.tunnels.Load(), Passed: t.passed.Load(), Lost: t.lost.Load(),
			Refused: t.refused.Load(), Failing: t.failing, Last: t.last}
		if t.err != nil {
			x.Err = t.err.Error()
		}
		t.mu.Unlock()
		list = append(list, x)
	}
	sorts.Sort(list, func(a, b view.Forwarding) int { return cmp.Compare(a.Broker, b.Broker) })
	return list
}

// client has the tunnels of a client's connection.
type client struct {
	mu      sync.Mutex
	tunnels []*tunnel
	ended   bool
}

// to returns the tunnel to a broker, and forgets it if it has ended.
func (c *client) to(broker int32) *tunnel {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, t := range c.tunnels {
		if t.to.id != broker {
			continue
		}
		if t.usable() {
			return t
		}
		c.tunnels = slices.Delete(c.tunnels, i, i+1)
		break
	}
	return nil
}

// add keeps a tunnel, unless the connection has ended.
func (c *client) add(t *tunnel) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.tunnels = append(c.tunnels, t)
	}
	return !c.ended
}

// waits reports whether a Produce request is unanswered on a tunnel.
func (c *client) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.tunnels, func(t *tunnel) bool { return t.produces.Load() > 0 })
}

// end is called when the connection has ended.
func (c *client) end() {
	c.mu.Lock()
	c.ended = true
	list := c.tunnels
	c.mu.Unlock()
	for _, t := range list {
		t.finish()
	}
}
