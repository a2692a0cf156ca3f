// Package simtcp is a TCP network in memory for tests of whole brokers under virtual time.
//
// A Net has hosts. A Host is the network of one process: it listens, dials and can end as processes
// and machines do. Bytes take the time that the seed says. A direction between two hosts can be
// cut: as under a real TCP, what is sent meanwhile arrives when it is restored, in order, unless
// an end gives up before that.
//
// It has no goroutine of its own, and its only clock is package time, which a synctest bubble
// replaces. It belongs to tests only.
package simtcp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how many bytes of one direction are on their way before a writer waits.
const window = 256 << 10

// Net is a network. Its methods may be called concurrently.
type Net struct {
	seed  uint64
	delay time.Duration

	mu    sync.Mutex
	cond  *sync.Cond // something that a dial waits for has changed
	hosts map[string]*Host
	cut   map[[2]string]bool
	still map[string]bool      // hosts from and to which nothing comes
	down  map[[2]string]bool   // the relay through which one host dials another does not run
	count map[[2]string]uint64 // connections that were dialed, by hosts
	open  map[*pipe]struct{}
}

// New returns a network in which a byte takes between a tenth of delay and delay.
func New(seed uint64, delay time.Duration) *Net {
	n := &Net{
		seed: seed, delay: delay, hosts: map[string]*Host{}, cut: map[[2]string]bool{}, still: map[string]bool{},
		down: map[[2]string]bool{}, count: map[[2]string]uint64{}, open: map[*pipe]struct{}{},
	}
	n.cond = sync.NewCond(&n.mu)
	return n
}

// Host starts a process on the machine with an IP address. The former process must have ended. If
// that machine was off, it is on now, and its former peers learn that their connections are gone.
func (n *Net) Host(ip string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.hosts[ip]
	h := &Host{net: n, ip: ip, listeners: map[string]*listener{}}
	n.hosts[ip] = h
	n.cond.Broadcast()
	if old != nil {
		n.forget(old)
	}
	return h
}

// Cut cuts one direction, or restores it.
func (n *Net) Cut(from, to string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[[2]string{from, to}] = cut
	n.changed()
}

// Freeze holds up everything from and to a host, or lets it continue.
func (n *Net) Freeze(ip string, still bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.still[ip] = still
	n.changed()
}

// Relay ends the relay through which one host dials another, or starts it again. When it ends, so
// do the connections, in the same way at both ends, and dials are refused.
func (n *Net) Relay(from, to string, runs bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down[[2]string{from, to}] = !runs
	for p := range n.open {
		if !runs && p.way == [2]string{from, to} {
			p.update(func() { p.finish(); p.cut = true })
			delete(n.open, p)
		}
	}
}

// Heal restores all directions and relays.
func (n *Net) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	clear(n.down)
	n.changed()
}

// changed wakes all who wait for a direction. Caller holds mu.
func (n *Net) changed() {
	n.cond.Broadcast()
	for p := range n.open {
		p.wake()
	}
}

// end ends the connections of a host. If it is off, its peers are not told. Caller holds mu.
func (n *Net) end(h *Host, off bool) {
	for p := range n.open {
		switch h {
		case p.from:
			p.update(func() { p.finish(); p.silent = off })
		case p.to:
			p.update(func() { p.left, p.silent = true, off })
		default:
			continue
		}
		if !off {
			delete(n.open, p)
		}
	}
}

// forget tells the peers of a host that was off that it knows their connections no longer. Caller
// holds mu.
func (n *Net) forget(h *Host) {
	for p := range n.open {
		if p.from == h || p.to == h {
			p.sever()
			delete(n.open, p)
		}
	}
}

// reaches reports whether packets from one host arrive at another. Caller holds mu.
func (n *Net) reaches(from, to string) bool {
	return !n.cut[[2]string{from, to}] && !n.still[from] && !n.still[to]
}

// Host is the network of one process. Its methods may be called concurrently.
type Host struct {
	net       *Net
	ip        string
	dead, off bool                 // guarded by net.mu; off: the machine answers nothing
	listeners map[string]*listener // guarded by net.mu
}

// Kill ends the process: what it sent arrives, then its connections end, and dials are refused.
func (h *Host) Kill() { h.stop(false) }

// PowerOff ends the machine: what it sent arrives, and then its peers see nothing any longer, until
// the next Host with its address.
func (h *Host) PowerOff() { h.stop(true) }

func (h *Host) stop(off bool) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.dead {
		return
	}
	h.dead, h.off = true, off
	for _, l := range h.listeners {
		_ = l.close() // its maps also go
	}
	n.end(h, off)
	n.cond.Broadcast()
}

// Listen is like that of a net.ListenConfig.
func (h *Host) Listen(_ context.Context, network, address string) (net.Listener, error) {
	at, err := netip.ParseAddrPort(address)
	fail := func(err error) error { return &net.OpError{Op: "listen", Net: network, Err: err} }
	if err != nil {
		return nil, fail(err)
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	switch {
	case h.dead:
		return nil, fail(syscall.ENETDOWN)
	case at.Addr().String() != h.ip:
		return nil, fail(syscall.EADDRNOTAVAIL)
	case h.listeners[address] != nil:
		return nil, fail(syscall.EADDRINUSE)
	}
	l := &listener{host: h, at: at, arrived: make(chan *conn, 128), closed: make(chan struct{})}
	h.listeners[address] = l
	return l, nil
}

// DialContext is like that of a net.Dialer.
func (h *Host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := h.dial(ctx, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	return c, nil
}

func (h *Host) dial(ctx context.Context, address string) (*conn, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	ip := at.Addr().String()
	n := h.net
	defer context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.cond.Broadcast()
	})()
	n.mu.Lock()
	way := [2]string{h.ip, ip}
	n.count[way]++
	random := rand.New(rand.NewPCG(n.seed, hash(way, n.count[way])))
	n.mu.Unlock()
	select {
	case <-time.After(n.delays(random) + n.delays(random)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		to := n.hosts[ip]
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case h.dead:
			return nil, syscall.ENETDOWN
		case n.down[way]:
			return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
		case to == nil || to.off || !n.reaches(h.ip, ip) || !n.reaches(ip, h.ip):
			n.cond.Wait()
			continue
		case to.dead || to.listeners[address] == nil:
			return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
		}
		port := 20000 + int(n.count[way]%40000)
		here := &net.TCPAddr{IP: net.ParseIP(h.ip), Port: port}
		there := net.TCPAddrFromAddrPort(at)
		out := newPipe(n, h, to, random)
		back := newPipe(n, to, h, rand.New(rand.NewPCG(n.seed, hash([2]string{ip, h.ip}, n.count[way]))))
		out.way, back.way = way, way
		own := &conn{in: back, out: out, local: here, remote: there}
		select {
		case to.listeners[address].arrived <- &conn{in: out, out: back, local: there, remote: here}:
		default:
			return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED) // its backlog is full
		}
		n.open[out], n.open[back] = struct{}{}, struct{}{}
		return own, nil
	}
}

// delays returns how long some bytes take.
func (n *Net) delays(random *rand.Rand) time.Duration {
	least := n.delay / 10
	return least + time.Duration(random.Int64N(int64(n.delay-least)+1))
}

func hash(way [2]string, number uint64) uint64 {
	sum := uint64(14695981039346656037)
	for _, b := range []byte(fmt.Sprint(way, number)) {
		sum = (sum ^ uint64(b)) * 1099511628211
	}
	return sum
}

// listener implements net.Listener.
type listener struct {
	host    *Host
	at      netip.AddrPort
	arrived chan *conn // the backlog: when it is full, a dial is refused
	once    sync.Once
	closed  chan struct{} // closed by close, once
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.arrived:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: net.ErrClosed}
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.host.net.mu.Lock()
	defer l.host.net.mu.Unlock()
	return l.close()
}

// close ends the listener and what it has not accepted. Caller holds net.mu.
func (l *listener) close() error {
	err := net.ErrClosed
	l.once.Do(func() {
		err = nil
		close(l.closed)
		delete(l.host.listeners, l.at.String())
		for {
			select {
			case c := <-l.arrived:
				c.in.sever()
				c.out.sever()
			default:
				return
			}
		}
	})
	return err
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }
