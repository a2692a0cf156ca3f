package network

import (
	"errors"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/share"
)

// ErrClosed is returned after the Server was shut down.
var ErrClosed = errors.New("network: server is shut down")

// Server owns listeners and their connections.
type Server struct {
	opts      Options
	produce   *admission
	other     *admission
	logins    *admission // of clients that have not logged in
	places    *share.Places
	delayed   atomic.Int64 // refusals of logins that wait, see conn.delay
	outgoing  outgoing
	yields    sync.Mutex      // held by the one reader that lets others run
	reads     *bufpool.Budget // of read buffers
	producers *Producers
	requests  sync.Pool // of *Request
	lastID    atomic.Uint64
	arrived   atomic.Int64 // requests of all connections
	limited   logLimiter
	orphans   orphans
	draining  chan struct{} // closed by Shutdown

	mu        sync.Mutex
	stopped   bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	hijacked  map[*hijackedConn]struct{} // not closed yet
	held      map[net.Conn]held          // see hold
	killed    bool                       // connections that are hijacked from now on are closed
	locals    int                        // connections in Options.LocalPlaces
	slots     int                        // connections, including closed ones whose requests are unanswered
	perIP     map[netip.Addr]int         // slots of each address
	perName   map[string]int             // slots of each listener, by name
	crowds    crowds                     // connections that have proved nothing
	wg        sync.WaitGroup             // accept loops, readers, writers

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
		produce:   newAdmission("produce", opts.ProduceBytes, max(2*opts.ProduceBytes, minProduce), opts.MaxFrame),
		other:     newAdmission("other", opts.OtherBytes, max(opts.OtherBytes/2, minOther), opts.MaxFrame),
		logins:    newAdmission("login", opts.loginBudget, int64(opts.LoginBytes), opts.LoginBytes),
		places:    opts.Places,
		reads:     bufpool.NewBudget(opts.ReadBytes),
		outgoing:  outgoing{size: opts.AnswerBytes, turns: newTurns()},
		producers: newProducers(opts.ProducerWindow),
		limited:   logLimiter{logger: opts.Log},
		draining:  make(chan struct{}),
		ended:     ending{conns: make(chan struct{}), all: make(chan struct{})},
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
		hijacked:  make(map[*hijackedConn]struct{}),
		held:      make(map[net.Conn]held),
		perIP:     make(map[netip.Addr]int),
		perName:   make(map[string]int),
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
	if l.SASL && s.opts.Authenticator == nil {
		s.mu.Unlock()
		_ = ln.Close() // the other error matters
		return errors.New("network: a listener with SASL needs an Authenticator")
	}
	s.listeners[ln] = struct{}{}
	if l.reads == (label.Label{}) { // not yet served at another address
		l.handshakes, l.reads = label.New("network handshake", l.Name), label.New("network read", l.Name)
		l.writes = label.New("network write", l.Name)
	}
	s.wg.Go(func() { s.accept(l, ln) })
	s.mu.Unlock()
	return nil
}

// SetLimits changes Options.Limits. Connections that exceed them stay.
func (s *Server) SetLimits(to Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Limits = to
}

// Producers returns the count of the connections that produce.
func (s *Server) Producers() *Producers { return s.producers }

// Stats is a Server's present state.
type Stats struct {
	Connections int // without those that were hijacked
	Hijacked    int // connections of other brokers
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
	// Unauthenticated are the connections that have not logged in, of listeners where clients do.
	Unauthenticated int
	// Login is the budget of their requests, LoginArriving describes those that are arriving.
	Login         bufpool.BudgetStats
	LoginArriving ArrivalStats
	// LoginsDelayed are logins that failed and whose clients wait for the answer.
	LoginsDelayed int
}

// Stats returns the present state.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	n, hijacked, unknown := len(s.conns), len(s.hijacked), s.crowds.visitors.Len()
	s.mu.Unlock()
	return Stats{
		Connections: n, Hijacked: hijacked, Reads: s.reads.Stats(), Unwritten: s.outgoing.held.Load(), UnwrittenLimit: s.outgoing.size,
		Orphans: s.orphans.count(), Unauthenticated: unknown, Login: s.logins.whole.Stats(), LoginArriving: s.logins.arrivals(),
		LoginsDelayed: int(s.delayed.Load()),
		Produce:       s.produce.whole.Stats(), ProduceArriving: s.produce.arrivals(),
		Other: s.other.whole.Stats(), OtherArriving: s.other.arrivals(),
	}
}

// add registers a connection and starts its goroutines, or returns why it does not.
func (s *Server) add(l *Listener, nc net.Conn) (RefuseReason, bool) {
	reason, yielding, ok := s.enter(l, nc)
	if yielding != nil {
		yielding.displace()
	}
	return reason, ok
}

// enter is add; the caller displaces the connection that it returns, if any.
func (s *Server) enter(l *Listener, nc net.Conn) (reason RefuseReason, yielding *conn, ok bool) {
	ip := remoteIP(nc)
	visitor, counts := l.TLS != nil || l.SASL, againstAll
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return RefusedDraining, nil, false
	}
	over, yielding := s.over(l, ip, visitor)
	for yielding == nil && over != "" && s.heldYields(over, l, ip) {
		over, yielding = s.over(l, ip, visitor) // there may be another limit
	}
	switch {
	case yielding != nil:
		over = ""
	case over == "":
	case s.locals < s.opts.LocalPlaces && (over == RefusedTotal || over == RefusedListener) && local(nc):
		counts, over = againstLocal, ""
	case s.opts.Link == nil || !l.Brokers:
		return over, nil, false
	case s.crowds.callers.Len() >= maxCallers:
		yielding, _ = s.crowds.callers.Yielding(origin.Of(ip), arrived, math.MaxInt64)
	}
	if yielding != nil {
		yielding.join(nil)
	}
	c := newConn(s, l, nc)
	if over != "" {
		counts = againstNone
	}
	c.slot, c.over = slot{ip: c.ip, listener: l.Name, counts: counts}, over
	c.login = s.beginLogin(l, c.opened, over != "")
	switch {
	case over != "":
		c.join(&s.crowds.callers)
	case visitor && counts != againstLocal: // one that yields its local place frees none of the limit
		c.join(&s.crowds.visitors)
	}
	s.take(c.slot, 1)
	s.assignPoller(c)
	s.conns[c] = struct{}{}
	s.opts.Observer.Opened(l) // before it can be closed
	if l.TLS != nil {
		s.wg.Go(c.begin)
	} else {
		s.wg.Go(c.readLoop)
	}
	s.wg.Go(c.writeLoop)
	return "", yielding, true
}

// over returns the limit that a new connection exceeds, and a connection that has not logged in and
// may make room for it. That counts for all later limits as well. Caller holds mu.
func (s *Server) over(l *Listener, ip netip.Addr, visitor bool) (reason RefuseReason, yielding *conn) {
	o, from, now := &s.opts, origin.Of(ip), time.Now()
	visitors, roomAfter := &s.crowds.visitors, o.roomAfter
	switch most := o.Limits.Listeners[l.Name]; {
	case o.Limits.reached(ip, s.perIP[ip]):
		return RefusedPerIP, nil
	case visitor && visitors.From(from) >= o.MaxUnauthenticatedPerIP:
		yielding, _ = visitors.YieldingOwn(from, waited(l, now), now.Add(-roomAfter).UnixNano())
		return RefusedUnauthenticated, yielding
	case most > 0 && s.perName[l.Name] >= most:
		return RefusedListener, s.crowds.yielding(from, l, roomAfter, now)
	case o.Limits.Connections > 0 && s.slots >= o.Limits.Connections:
		return RefusedTotal, s.crowds.yielding(from, nil, roomAfter, now)
	case visitor && visitors.Len() >= o.MaxUnauthenticated:
		yielding, _ = visitors.Yielding(from, waited(nil, now), now.Add(-roomAfter).UnixNano())
		return RefusedUnauthenticated, yielding
	}
	return "", nil
}

// connectionClosed is the last step of a connection's writer. answered: no request of the
// connection is left without an answer.
func (s *Server) connectionClosed(c *conn, reason CloseReason, answered bool) {
	s.mu.Lock()
	delete(s.conns, c)
	c.join(nil)
	if answered && reason != ClosedLink {
		s.take(c.slot, -1)
	}
	s.mu.Unlock()
	if c.sock.fd >= 0 {
		closeSocket(c.sock.fd)
	}
	if c.poll.by != nil {
		c.poll.by.remove(c)
	}
	if reason != ClosedLink {
		s.opts.Observer.Closed(c.listener, reason)
	}
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	if c.adopted != nil {
		c.adopted()
	}
	if session.Mechanism != "" && !session.Via {
		s.opts.Observer.Logout(&LogoutEvent{Session: session, Peer: c.peer, Reason: reason})
	}
}

// known removes a connection from those that have not logged in.
func (s *Server) known(c *conn) {
	s.mu.Lock()
	c.join(nil)
	s.mu.Unlock()
}

// slot is what a connection occupies of the limits. It is free again when the connection has ended
// and its requests are answered: clients that leave requests behind and reconnect can't have more
// of them than the connection limits allow.
type slot struct {
	ip       netip.Addr
	listener string
	counts   against
}

// against is which limits a slot counts against.
type against uint8

const (
	againstAll   against = iota // all limits
	againstNone                 // none: it is that of a broker, or of a caller
	againstLocal                // Options.LocalPlaces
)

// local reports whether a client is on the same machine: it connects to its own address, or through
// the loopback interface.
func local(nc net.Conn) bool {
	ip := remoteIP(nc)
	if a, ok := nc.LocalAddr().(*net.TCPAddr); ok && ip == a.AddrPort().Addr().Unmap() {
		return ip.IsValid()
	}
	return ip.IsLoopback()
}

// take occupies a slot (n = 1) or frees it (n = -1). Caller holds mu.
func (s *Server) take(x slot, n int) {
	switch x.counts {
	case againstNone:
		return
	case againstLocal:
		s.locals += n
		return
	case againstAll:
	}
	s.slots += n
	s.perName[x.listener] += n
	if s.perIP[x.ip] += n; s.perIP[x.ip] == 0 {
		delete(s.perIP, x.ip)
	}
}
