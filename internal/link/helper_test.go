package link

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/testing/must"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker is a broker of a test.
type broker struct {
	*Links
	net    *network
	self   Identity
	pool   *bufpool.Pool
	mu     sync.Mutex
	events []Event
}

// network connects the brokers of a test by pipes, which synctest sees waiting.
type network struct {
	mu      sync.Mutex
	brokers map[string]*broker
	cut     atomic.Bool // dials fail
	dials   atomic.Int64
	wires   []*wire
}

func newNetwork() *network { return &network{brokers: make(map[string]*broker)} }

// identity is a plausible Identity of a node.
func identity(node int32) Identity {
	return Identity{ClusterName: "test", ClusterID: "id", Generation: [16]byte{1}, Node: node, Member: uint64(node) + 1000, BrokerEpoch: 5}
}

// add starts a broker that is dialed by its node id.
func (n *network) add(t testing.TB, node int32, change func(*Options)) *broker {
	t.Helper()
	b := &broker{net: n, self: identity(node), pool: new(bufpool.Pool)}
	o := Options{
		Identity: func() Identity { return b.self }, Dial: n.dial, Pool: b.pool,
		Handler: echo{}, Data: func(c *Conn) { drain(c) },
		Notify: func(e Event) {
			b.mu.Lock()
			b.events = append(b.events, e)
			b.mu.Unlock()
		},
	}
	if change != nil {
		change(&o)
	}
	l, err := New(o)
	must.OK(t, err)
	b.Links = l
	n.mu.Lock()
	n.brokers[fmt.Sprint(node)] = b
	n.mu.Unlock()
	return b
}

// end closes a broker and checks that nothing is left of it.
func (b *broker) end(t testing.TB) {
	t.Helper()
	b.Close()
	if s := b.Stats(); s.Accepted != 0 || s.Inbound.Used != 0 {
		t.Errorf("left over: %+v", s)
	}
	if n := b.pool.Outstanding(); n != 0 {
		t.Errorf("%d buffers were not released", n)
	}
	b.Links.mu.Lock()
	defer b.Links.mu.Unlock()
	if n := len(b.serving); n != 0 {
		t.Errorf("%d connections are still known", n)
	}
}

// of returns the broker's events of a kind.
func (b *broker) of(k EventKind) (list []Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if e.Kind == k {
			list = append(list, e)
		}
	}
	return list
}

// target is a Target that names the node.
func target(node int32) Target {
	return Target{Address: fmt.Sprint(node), Node: node, Member: uint64(node) + 1000}
}

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.dials.Add(1)
	n.mu.Lock()
	b := n.brokers[address]
	n.mu.Unlock()
	if b == nil || n.cut.Load() {
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	w := newWire()
	n.mu.Lock()
	n.wires = append(n.wires, w)
	n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	go accept(w.ends[1], b.Links)
	return w.ends[0], nil
}

// wire returns the wire of the first connection.
func (n *network) wire() *wire {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wires[0]
}

// accept reads the request that begins a connection, as package network does.
func accept(nc net.Conn, l *Links) {
	var size [4]byte
	_, err := io.ReadFull(nc, size[:])
	p := make([]byte, min(binary.BigEndian.Uint32(size[:]), 1<<16))
	if err == nil {
		_, err = io.ReadFull(nc, p)
	}
	if err != nil {
		nc.Close()
		return
	}
	l.Accept(nc, "User:broker", p[10:])
}

// echo is a Handler that returns each request.
type echo struct{}

func (echo) Message(Hello, uint16, []byte) {}
func (echo) Request(_ context.Context, _ Hello, _ uint16, body []byte) ([]byte, error) {
	return append([]byte(nil), body...), nil
}

// drain reads a connection until it ends.
func drain(c *Conn) {
	for {
		if _, err := c.Next(); err != nil {
			return
		}
	}
}

// wire is a connection with a buffer in each direction, like a socket, which can be cut in each.
type wire struct {
	ends [2]*end
}

func newWire() *wire {
	w := &wire{}
	a, b := newDirection(), newDirection()
	w.ends[0] = &end{in: a, out: b}
	w.ends[1] = &end{in: b, out: a}
	return w
}

// direction is one half of a wire.
type direction struct {
	mu       sync.Mutex
	data     []byte
	room     int
	lost     bool // bytes vanish
	over     bool // closed by either end
	changed  chan struct{}
	deadline [2]time.Time // of the reader and the writer
	passed   int          // bytes that were written
	cutAt    int          // if not 0, the wire breaks after that many bytes
}

func newDirection() *direction { return &direction{room: 64 << 10, changed: make(chan struct{})} }

func (d *direction) notify() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// wait waits for a change or the deadline. Caller holds mu.
func (d *direction) wait(who int) error {
	ch, until := d.changed, d.deadline[who]
	d.mu.Unlock()
	defer d.mu.Lock()
	if until.IsZero() {
		<-ch
		return nil
	}
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-ch:
		return nil
	case <-t.C:
		return os.ErrDeadlineExceeded
	}
}

type end struct{ in, out *direction }

func (e *end) Read(p []byte) (int, error) {
	d := e.in
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.data) == 0 {
		if d.over {
			return 0, io.EOF
		}
		if err := d.wait(0); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.data)
	d.data = d.data[n:]
	d.notify()
	return n, nil
}

func (e *end) Write(p []byte) (n int, err error) {
	d := e.out
	d.mu.Lock()
	defer d.mu.Unlock()
	for n < len(p) {
		if d.over {
			return n, io.ErrClosedPipe
		}
		if d.lost {
			return len(p), nil
		}
		m := min(len(p)-n, d.room-len(d.data))
		if d.cutAt > 0 {
			m = min(m, d.cutAt-d.passed)
			if d.passed+m == d.cutAt {
				d.over = true
			}
		}
		d.data = append(d.data, p[n:n+m]...)
		d.passed += m
		if n += m; m > 0 {
			d.notify()
			continue
		}
		if err := d.wait(1); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (e *end) Close() error {
	for _, d := range []*direction{e.in, e.out} {
		d.mu.Lock()
		d.over = true
		d.notify()
		d.mu.Unlock()
	}
	return nil
}

func (e *end) set(d *direction, who int, t time.Time) error {
	d.mu.Lock()
	d.deadline[who] = t
	d.notify()
	d.mu.Unlock()
	return nil
}

func (e *end) LocalAddr() net.Addr                { return &net.UnixAddr{Name: "wire"} }
func (e *end) RemoteAddr() net.Addr               { return &net.UnixAddr{Name: "wire"} }
func (e *end) SetReadDeadline(t time.Time) error  { return e.set(e.in, 0, t) }
func (e *end) SetWriteDeadline(t time.Time) error { return e.set(e.out, 1, t) }
func (e *end) SetDeadline(t time.Time) error {
	_ = e.SetReadDeadline(t)
	return e.SetWriteDeadline(t)
}

// lose makes the bytes from one end to the other vanish from now on.
func (e *end) lose() {
	e.out.mu.Lock()
	e.out.lost = true
	e.out.mu.Unlock()
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, fn func(*testing.T)) { t.Helper(); synctest.Test(t, fn) }

// allocated returns how many bytes the process has ever allocated.
func allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// raceOrInvariants: bufpool does not reuse its buffers in this build.
const raceOrInvariants = bufpool.Invariants
