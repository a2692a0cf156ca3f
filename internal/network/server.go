package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/membuf"
)

// ErrClosed says that the Server was shut down.
var ErrClosed = errors.New("network: server is shut down")

// Server owns listeners and their connections.
type Server struct {
	opts     Options
	produce  *membuf.Budget
	other    *membuf.Budget
	census   *Census
	requests sync.Pool // of *Request
	lastID   atomic.Uint64
	noise    noise
	orphans  orphans
	draining chan struct{} // closed by Shutdown

	mu        sync.Mutex
	stopped   bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	perIP     map[netip.Addr]int
	wg        sync.WaitGroup // accept loops, readers, writers

	pollOnce sync.Once
	poll     []*poller // guarded by mu; made by the first connection
	pollNext int       // whose turn it is to get a connection
	pollWG   sync.WaitGroup
	shifts   sync.WaitGroup // what does the pollers' work, or did
}

// New returns a Server that listens to nothing yet. The error names what is
// missing from the options.
func New(opts Options) (*Server, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	return &Server{
		opts:      opts,
		produce:   membuf.NewBudget(opts.ProduceBytes),
		other:     membuf.NewBudget(opts.OtherBytes),
		census:    newCensus(opts.CensusWindow),
		noise:     noise{logger: opts.Log},
		draining:  make(chan struct{}),
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
		perIP:     make(map[netip.Addr]int),
	}, nil
}

// Serve accepts connections from ln, on a goroutine of its own, until Shutdown
// or Close, which close ln. It fails, and closes ln, if they came before.
func (s *Server) Serve(l *Listener, ln net.Listener) error {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		_ = ln.Close() // the other error is the one to tell
		return ErrClosed
	}
	s.listeners[ln] = struct{}{}
	s.wg.Go(func() { s.accept(l, ln) })
	s.mu.Unlock()
	return nil
}

// Census counts the connections that produce.
func (s *Server) Census() *Census { return s.census }

// Stats is a Server's present state.
type Stats struct {
	Connections int
	// Produce and Other are the budgets of Options.ProduceBytes and OtherBytes.
	Produce, Other membuf.BudgetStats
	// Orphans are requests whose connection is gone and that were not yet answered.
	Orphans int
}

// Stats returns the present state.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	n := len(s.conns)
	s.mu.Unlock()
	return Stats{Connections: n, Produce: s.produce.Stats(), Other: s.other.Stats(), Orphans: s.orphans.count()}
}

// Shutdown stops accepting and reading requests, lets those that were handed to
// the handler be answered and written, and closes the connections. When ctx ends
// first it closes them at once and says how many requests are unanswered. All
// goroutines of the Server have ended when it returns, unless ctx ended while one
// waited for a disk.
func (s *Server) Shutdown(ctx context.Context) error {
	for c := range s.stop() {
		c.stopReading(ClosedShutdown)
	}
	ended := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		s.killAll()
		<-ended
	}
	s.stopPollers()
	idle := make(chan struct{})
	go func() {
		s.shifts.Wait() // on the disk perhaps
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	select {
	case <-s.orphans.none():
		return nil
	case <-ctx.Done():
	}
	if n := s.orphans.count(); n > 0 {
		return fmt.Errorf("network: %d requests are still unanswered: %w", n, ctx.Err())
	}
	return nil
}

// Close closes all listeners and connections at once. Requests that are
// unanswered may still be answered, to nobody.
func (s *Server) Close() error {
	s.stop()
	s.killAll()
	s.wg.Wait()
	s.stopPollers()
	return nil
}

// stop closes the listeners and returns the connections; no more are added.
func (s *Server) stop() map[*conn]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.stopped = true
		close(s.draining)
	}
	for ln := range s.listeners {
		_ = ln.Close() // it is not used again, whatever close says
	}
	return s.snapshot()
}

// snapshot copies the set of connections. Caller holds mu.
func (s *Server) snapshot() map[*conn]struct{} {
	conns := make(map[*conn]struct{}, len(s.conns))
	for c := range s.conns {
		conns[c] = struct{}{}
	}
	return conns
}

func (s *Server) killAll() {
	s.mu.Lock()
	conns := s.snapshot()
	s.mu.Unlock()
	for c := range conns {
		c.mu.Lock()
		c.kill(ClosedShutdown)
		c.mu.Unlock()
	}
}

// add registers a connection and starts its goroutines, or says why not.
func (s *Server) add(l *Listener, nc net.Conn) (RefuseReason, bool) {
	ip := remoteIP(nc)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := &s.opts; {
	case s.stopped:
		return RefusedDraining, false
	case o.MaxConnections > 0 && len(s.conns) >= o.MaxConnections:
		return RefusedTotal, false
	case o.MaxConnectionsPerIP > 0 && s.perIP[ip] >= o.MaxConnectionsPerIP:
		return RefusedPerIP, false
	}
	c := newConn(s, l, nc)
	s.join(c)
	s.conns[c] = struct{}{}
	s.perIP[ip]++
	s.opts.Observer.Opened(l) // before it can be closed
	s.wg.Go(c.readLoop)
	s.wg.Go(c.writeLoop)
	return "", true
}

// gone is the last act of a connection's writer.
func (s *Server) gone(c *conn, reason CloseReason) {
	s.mu.Lock()
	delete(s.conns, c)
	if s.perIP[c.ip]--; s.perIP[c.ip] == 0 {
		delete(s.perIP, c.ip)
	}
	s.mu.Unlock()
	if c.fd >= 0 {
		closeSocket(c.fd)
	}
	if c.poll != nil {
		c.poll.leave(c)
	}
	s.opts.Observer.Closed(c.listener, reason)
}

// orphans counts requests whose connection is gone before they were answered.
type orphans struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n gets to zero; nil if nobody waits
}

func (o *orphans) add(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n += n; o.n == 0 && o.zero != nil {
		close(o.zero)
		o.zero = nil
	}
}

func (o *orphans) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n
}

// none returns a channel that is closed when there are none.
func (o *orphans) none() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.zero == nil {
		o.zero = make(chan struct{})
	}
	ch := o.zero
	if o.n == 0 {
		close(ch)
		o.zero = nil
	}
	return ch
}
