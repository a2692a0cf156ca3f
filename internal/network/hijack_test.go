package network

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
)

// hijacker hands the connections that it takes over to a test.
type hijacker struct {
	conns chan net.Conn
	errs  chan error
}

func newHijacker() *hijacker {
	return &hijacker{conns: make(chan net.Conn, 100), errs: make(chan error, 100)}
}

func (h *hijacker) Handle(r *Request) {
	nc, err := r.Hijack()
	if err != nil {
		r.Abort(err)
		h.errs <- err
		return
	}
	h.conns <- nc
}

// startForBrokers starts a server whose listener is also for brokers.
func startForBrokers(t testing.TB, h func(*Request), o Observer) (*fixture, *hijacker) {
	t.Helper()
	taker := newHijacker()
	f := start(t, h, func(opts *Options) { opts.Link, opts.Observer = taker, o })
	f.name.Brokers = true
	return f, taker
}

// counts counts the events of connections.
type counts struct {
	NoObserver
	opened, closed, links atomic.Int64
}

func (c *counts) Opened(*Listener) { c.opened.Add(1) }
func (c *counts) Closed(_ *Listener, why CloseReason) {
	c.closed.Add(1)
	if why == ClosedLink {
		c.links.Add(1)
	}
}

func hello() []byte { return frame(protocol.KeyLink, 0, 0, []byte("hello")) }

// The bytes behind the request are the first of the connection's new life, on a socket and on a
// pipe, after Produce requests that a poller handled, and with the answers before them.
func TestHijackedConnectionKeepsItsBytes(t *testing.T) {
	var count counts
	f, taker := startForBrokers(t, echo, &count)
	clients := []*client{dial(t, f.tcp(t)), f.pipe.dial(), dial(t, f.tcp(t))}
	for i, c := range clients {
		if i == 2 {
			for id := range int32(2 * detachAfter) {
				c.send(t, frame(protocol.KeyProduce, 3, id, nil))
				c.want(t, id)
			}
		}
		early := bytes.Repeat([]byte("early"), 1000)
		c.sendAsync(append(append(frame(keyMetadata, 1, 7, nil), hello()...), early...))
		c.want(t, 7)
		nc := <-taker.conns
		got := make([]byte, len(early))
		if _, err := io.ReadFull(nc, got); err != nil || !bytes.Equal(got, early) {
			t.Fatalf("connection %d: %v, the bytes behind the request are others", i, err)
		}
		go func() { _, _ = nc.Write([]byte("welcome")) }()
		answer := make([]byte, 7)
		if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "welcome" {
			t.Fatalf("connection %d: %q, %v", i, answer, err)
		}
		c.sendAsync([]byte("later"))
		if _, err := io.ReadFull(nc, got[:5]); err != nil || string(got[:5]) != "later" {
			t.Fatalf("connection %d: %q, %v", i, got[:5], err)
		}
		if s := f.Stats(); s.Hijacked != i+1 {
			t.Errorf("%d are hijacked, want %d", s.Hijacked, i+1)
		}
	}
	f.end(t)
	for _, c := range clients {
		c.wantClosed(t)
		c.Close()
	}
	if count.opened.Load() != 3 || count.closed.Load() != 3 || count.links.Load() != 3 {
		t.Errorf("%d opened, %d closed, %d of them links", count.opened.Load(), count.closed.Load(), count.links.Load())
	}
	if s := f.Stats(); s.Hijacked != 0 || f.slots != 0 {
		t.Errorf("left over: %+v, %d slots", s, f.slots)
	}
}

// A hijacked connection has no idle limit, and takes no slot from clients.
func TestHijackedConnectionIsNotIdleAndTakesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taker := newHijacker()
		f := start(t, echo, func(o *Options) { o.Link, o.Limits.Connections = taker, 1 })
		f.name.Brokers = true
		defer f.end(t)
		c := f.pipe.dial()
		c.send(t, hello())
		nc := <-taker.conns
		time.Sleep(24 * time.Hour)
		c.sendAsync([]byte{1})
		if _, err := io.ReadFull(nc, make([]byte, 1)); err != nil {
			t.Errorf("after a day: %v", err)
		}
		other := f.pipe.dial()
		other.send(t, frame(keyMetadata, 1, 1, nil))
		other.want(t, 1)
		nc.Close()
		nc.Close()
		refused := f.pipe.dial()
		refused.sendAsync(frame(keyMetadata, 1, 1, nil))
		refused.wantClosed(t)
		refused.Close()
		other.Close()
		c.Close()
		synctest.Wait()
		if f.slots != 0 || len(f.perIP) != 0 {
			t.Errorf("left over: %d slots, %v", f.slots, f.perIP)
		}
	})
}

// Clients at the limits do not keep out other brokers, which have places of their own until they
// say so.
func TestLinksAreAcceptedAboveTheLimits(t *testing.T) {
	for name, limit := range map[RefuseReason]func(*Options, int){
		RefusedTotal:    func(o *Options, n int) { o.Limits.Connections = n },
		RefusedPerIP:    func(o *Options, n int) { o.Limits.PerIP = int32(n) },
		RefusedListener: func(o *Options, n int) { o.Limits.Listeners = map[string]int{"test": n, "other": 1} },
	} {
		t.Run(string(name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				taker, seen := newHijacker(), &refusals{}
				f := start(t, echo, func(o *Options) { o.Link, o.Observer = taker, seen; limit(o, 1) })
				f.name.Brokers = true
				defer f.end(t)
				served := f.pipe.dial()
				defer served.Close()
				served.send(t, frame(keyMetadata, 1, 1, nil))
				served.want(t, 1)
				var open []io.Closer
				for range 2 * maxCallers { // links that were taken leave room for others
					c := f.pipe.dial()
					c.send(t, hello())
					open = append(open, c, <-taker.conns)
				}
				another := f.pipe.dial()
				another.sendAsync(frame(keyMetadata, 1, 1, nil))
				another.wantClosed(t)
				another.Close()
				synctest.Wait()
				var silent []*client // neither clients nor brokers
				for range maxCallers {
					silent = append(silent, f.pipe.dial())
					time.Sleep(time.Millisecond)
				}
				c := f.pipe.dial()
				defer c.Close()
				silent[0].wantClosed(t) // the oldest makes room
				c.send(t, hello())
				defer (<-taker.conns).Close()
				for _, c := range silent[1:] {
					c.wantClosed(t)
				}
				served.send(t, frame(keyMetadata, 1, 2, nil))
				served.want(t, 2)
				for _, c := range open {
					_ = c.Close()
				}
				got := seen.list()
				if len(got) != 1+maxCallers || slices.ContainsFunc(got, func(r RefuseReason) bool { return r != name }) {
					t.Errorf("refused: %q", got)
				}
			})
		})
	}
}

// refusals are the reasons why connections were refused.
type refusals struct {
	NoObserver
	mu  sync.Mutex
	all []RefuseReason
}

func (r *refusals) Refused(_ *Listener, _ netip.Addr, why RefuseReason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, why)
}

func (r *refusals) list() []RefuseReason {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// Elsewhere a broker's request is what any unknown request is.
func TestLinkIsUnknownWhereItIsNotServed(t *testing.T) {
	for name, change := range map[string]func(*Options, *Listener){
		"listener for clients": func(o *Options, _ *Listener) { o.Link = newHijacker() },
		"no links":             func(_ *Options, l *Listener) { l.Brokers = true },
	} {
		var l Listener
		f := start(t, func(*Request) { t.Errorf("%s: handled", name) }, func(o *Options) { change(o, &l) })
		f.name.Brokers = l.Brokers
		c := f.pipe.dial()
		c.sendAsync(hello())
		c.wantClosed(t)
		c.Close()
		f.end(t)
	}
	f, taker := startForBrokers(t, func(*Request) { t.Error("handled") }, &counts{})
	for _, request := range [][]byte{frame(protocol.KeyLink, 1, 0, nil), frame(protocol.KeyLink, 0, 0, make([]byte, maxLink))} {
		c := f.pipe.dial()
		c.sendAsync(request)
		c.wantClosed(t)
		c.Close()
	}
	f.end(t)
	if len(taker.conns) > 0 {
		t.Error("a request of another version, or a large one, has a connection")
	}
}

// While the server drains no connection is taken; one that was taken before stays until the
// requests that may need it are answered.
func TestHijackDuringShutdown(t *testing.T) {
	p := newParked()
	entered, resume := make(chan struct{}), make(chan struct{})
	taker := newHijacker()
	f := start(t, p.handle, func(o *Options) {
		o.Link = handlerFunc(func(r *Request) {
			entered <- struct{}{}
			<-resume
			taker.Handle(r)
		})
	})
	f.name.Brokers = true
	addr := f.tcp(t)
	taken, late, producer := dial(t, addr), dial(t, addr), dial(t, addr)
	taken.send(t, hello())
	<-entered
	resume <- struct{}{}
	nc := <-taker.conns
	late.send(t, hello())
	<-entered
	producer.send(t, frame(protocol.KeyProduce, 3, 1, nil))
	r := p.next()
	done := make(chan error)
	go func() { done <- f.Shutdown(context.Background()) }()
	<-f.draining
	for { // until the connections are asked to end
		f.mu.Lock()
		conns := f.snapshot()
		f.mu.Unlock()
		asked := 0
		for c := range conns {
			if c.is(connlife.Draining) {
				asked++
			}
		}
		if asked == len(conns) {
			break
		}
	}
	resume <- struct{}{}
	if err := <-taker.errs; !errors.Is(err, ErrClosed) {
		t.Errorf("taken during the drain: %v", err)
	}
	late.wantClosed(t)
	go func() { _, _ = nc.Write([]byte{7}) }()
	if _, err := io.ReadFull(taken, make([]byte, 1)); err != nil {
		t.Errorf("closed before the requests are answered: %v", err)
	}
	r.Respond(body("ok"))
	producer.want(t, 1)
	producer.Close()
	late.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	taken.wantClosed(t)
	taken.Close()
	if _, err := nc.Write([]byte{8}); err == nil {
		t.Error("open after Shutdown")
	}
	f.end(t)
}
