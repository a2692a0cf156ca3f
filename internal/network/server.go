package network

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/bufpool"
)

// ErrClosed is returned after the Server was shut down.
var ErrClosed = errors.New("network: server is shut down")

// Server owns listeners and their connections.
type Server struct {
	opts      Options
	produce   *admission
	other     *admission
	outgoing  outgoing
	reads     *bufpool.Budget // of read buffers
	producers *Producers
	requests  sync.Pool // of *Request
	lastID    atomic.Uint64
	limited   logLimiter
	orphans   orphans
	draining  chan struct{} // closed by Shutdown

	mu        sync.Mutex
	stopped   bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	slots     int                // connections, including closed ones whose requests are unanswered
	perIP     map[netip.Addr]int // slots of each address
	wg        sync.WaitGroup     // accept loops, readers, writers

	endOnce sync.Once
	ended   ending

	pollOnce sync.Once
	poll     []*poller // guarded by mu; created by the first connection
	pollNext int       // the poller of the next connection
	pollWG   sync.WaitGroup
	loops    sync.WaitGroup // the goroutines of pollLoops, including replaced ones
}

// New returns a Server without listeners. The error names missing options.
func New(opts Options) (*Server, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	return &Server{
		opts:      opts,
		produce:   newAdmission("produce", opts.ProduceBytes, opts.MaxFrame, minProduce),
		other:     newAdmission("other", opts.OtherBytes, opts.MaxFrame, minOther),
		reads:     bufpool.NewBudget(opts.ReadBytes),
		outgoing:  outgoing{size: opts.AnswerBytes},
		producers: newProducers(opts.ProducerWindow),
		limited:   logLimiter{logger: opts.Log},
		draining:  make(chan struct{}),
		ended:     ending{conns: make(chan struct{}), all: make(chan struct{})},
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
		perIP:     make(map[netip.Addr]int),
	}, nil
}

// Serve accepts connections from ln, on a goroutine of its own, until Shutdown or Close, which
// close ln. If they were called before, it closes ln and returns an error.
func (s *Server) Serve(l *Listener, ln net.Listener) error {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		_ = ln.Close() // the other error matters
		return ErrClosed
	}
	s.listeners[ln] = struct{}{}
	s.wg.Go(func() { s.accept(l, ln) })
	s.mu.Unlock()
	return nil
}

// Producers returns the count of the connections that produce.
func (s *Server) Producers() *Producers { return s.producers }

// Stats is a Server's present state.
type Stats struct {
	Connections int
	// Produce and Other are the budgets of Options.ProduceBytes and OtherBytes.
	Produce, Other bufpool.BudgetStats
	// ProduceArriving and OtherArriving describe the requests of these kinds that are still
	// arriving.
	ProduceArriving, OtherArriving ArrivalStats
	// Reads is the budget of the large read buffers of connections that pipeline; see
	// Options.ReadBytes.
	Reads bufpool.BudgetStats
	// Unwritten is how many bytes of encoded answers clients have not read, in steps of 16 KiB for
	// each connection; see Options.AnswerBytes.
	Unwritten, UnwrittenLimit int64
	// Orphans are requests without an answer whose connection has ended.
	Orphans int
}

// Stats returns the present state.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	n := len(s.conns)
	s.mu.Unlock()
	return Stats{
		Connections: n, Reads: s.reads.Stats(), Unwritten: s.outgoing.held.Load(), UnwrittenLimit: s.outgoing.size,
		Orphans: s.orphans.count(),
		Produce: s.produce.whole.Stats(), ProduceArriving: s.produce.arrivals(),
		Other: s.other.whole.Stats(), OtherArriving: s.other.arrivals(),
	}
}

// add registers a connection and starts its goroutines, or returns why it does not.
func (s *Server) add(l *Listener, nc net.Conn) (RefuseReason, bool) {
	ip := remoteIP(nc)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := &s.opts; {
	case s.stopped:
		return RefusedDraining, false
	case o.MaxConnections > 0 && s.slots >= o.MaxConnections:
		return RefusedTotal, false
	case o.MaxConnectionsPerIP > 0 && s.perIP[ip] >= o.MaxConnectionsPerIP:
		return RefusedPerIP, false
	}
	c := newConn(s, l, nc)
	s.assignPoller(c)
	s.conns[c] = struct{}{}
	s.slots++
	s.perIP[ip]++
	s.opts.Observer.Opened(l) // before it can be closed
	s.wg.Go(c.readLoop)
	s.wg.Go(c.writeLoop)
	return "", true
}

// connectionClosed is the last step of a connection's writer. answered: no request of the
// connection is left without an answer.
func (s *Server) connectionClosed(c *conn, reason CloseReason, answered bool) {
	s.mu.Lock()
	delete(s.conns, c)
	if answered {
		s.releaseSlot(c.ip)
	}
	s.mu.Unlock()
	if c.fd >= 0 {
		closeSocket(c.fd)
	}
	if c.poll != nil {
		c.poll.remove(c)
	}
	s.opts.Observer.Closed(c.listener, reason)
}

// releaseSlot frees a connection's slot when the connection has ended and its requests are
// answered. Clients that leave requests behind and reconnect can't have more of them than the
// connection limits allow. Caller holds mu.
func (s *Server) releaseSlot(ip netip.Addr) {
	s.slots--
	if s.perIP[ip]--; s.perIP[ip] == 0 {
		delete(s.perIP, ip)
	}
}
