package network

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/share"
	"go.uber.org/zap"
)

// Options configures a Server. Handler and Table are required; other fields have defaults.
type Options struct {
	Handler Handler
	// Link handles the requests of API key protocol.KeyLink, version 0, on listeners with Brokers
	// set. It calls Request.Hijack or Request.Abort. Default: such a request is an unknown one.
	Link Handler
	// Authenticator logs clients in on listeners with SASL. Required if there is one.
	Authenticator Authenticator
	// Table lists the requests that are dispatched; any other closes the connection.
	Table *protocol.Table
	// Log receives a line if a connection is closed against its client's will: at most one per
	// minute for each cause and address, with a count of repetitions. Default: none.
	Log *zap.Logger
	// AdminAddress is the address of the HTTP port, for clients that speak HTTP to this one; empty
	// if there is none.
	AdminAddress string
	// Observer is notified of connections and answers. Default: none.
	Observer Observer
	// Pool provides the memory of requests. Default: a pool of its own.
	Pool *bufpool.Pool

	// MaxFrame is the maximum size of a request in bytes (socket.request.max.bytes). Default 100
	// MiB. The maximum is lower if the budget of the request's kind is small: twice the budget, but
	// at least 8 MiB for Produce and 4 MiB for others. One request must not exhaust a broker with
	// little memory.
	MaxFrame int
	// ProduceBytes bounds the unanswered Produce requests of all connections, in bytes; at the
	// limit the server does not read from producers. Another half of it is for requests that are
	// still arriving; see admission. Default 32 MiB.
	ProduceBytes int64
	// OtherBytes is the same for other requests of more than SmallFrame bytes; smaller ones always
	// pass. Defaults 64 MiB and 16 KiB.
	OtherBytes int64
	SmallFrame int
	// ReadBytes bounds the read buffers of connections that pipeline, 32 KiB each, and the buffers
	// of large answers over TLS, 128 KiB each while they are written; at the limit connections use
	// small buffers. Default: a quarter of OtherBytes.
	ReadBytes int64
	// ConnectionBytes bounds the unanswered Produce requests of one connection, in bytes.
	// ConnectionRequests bounds its requests whose answers are not yet written. Defaults 8 MiB and
	// 1024.
	ConnectionBytes    int64
	ConnectionRequests int
	// UnwrittenBytes bounds the answers that a client has not read. Above it, the server does not
	// read the client's further requests. One answer may be larger. Default 1 MiB.
	UnwrittenBytes int
	// AnswerBytes bounds the encoded answers of all connections that clients have not read. Beyond
	// it connections that read too slowly are closed; see outgoing. Default: half of OtherBytes.
	AnswerBytes int64

	// Limits bound the open connections; SetLimits changes them. Default: no limits.
	Limits Limits
	// LocalPlaces is how many connections from the broker's own machine are served above the limits
	// of all connections and of a listener, so that an administrator can raise them. Default: none.
	LocalPlaces int
	// Connecting is called for each new connection; it returns for how long its address has to wait
	// because it made too many, 0 if it need not. Such a connection is not served, and closed after
	// that time. Listeners of other brokers are exempt. Default: none waits.
	Connecting func(netip.Addr) time.Duration
	// Accepting is called for each connection that was accepted from a listener, and returns after
	// how long it is served (max.connection.creation.rate, KIP-612). Until then later ones wait in
	// the kernel's queue. Listeners of other brokers are exempt. Default: none waits.
	Accepting func(listener string) time.Duration
	// Quotas decides when the requests of clients that have logged in are read. Default: at once.
	Quotas Quotas
	// MaxUnauthenticated (max.connections.unauthenticated) and MaxUnauthenticatedPerIP bound the
	// connections that have not completed their TLS handshake and login; the second counts a /64 of
	// IPv6 as one address. Defaults 1000 and 64.
	MaxUnauthenticated      int
	MaxUnauthenticatedPerIP int
	// Places are where handshakes and logins compute. Other ports may share them. Default: places
	// of its own.
	Places *share.Places
	// LoginTimeout is how long TLS handshake and login may take together (login.timeout.ms), and
	// another login of the same client. Default 10 s.
	LoginTimeout time.Duration
	// LoginBytes is the maximum size of a request of a client that has not logged in
	// (login.max.bytes), and of a request that logs in. Default 64 KiB.
	LoginBytes int
	// Idle is how long a connection may be without requests before it is closed
	// (connections.max.idle.ms). Default 10 minutes.
	Idle time.Duration
	// FrameTimeout is how long the bytes of one request may take to arrive: it applies to the first
	// 12 bytes and, separately, to the rest, because the broker's own waiting lies between them and
	// does not count. Default 30 s.
	FrameTimeout time.Duration
	// WriteTimeout is how long one write may take, even if it makes progress. Long answers are
	// several writes of at most half a MiB. Some writes get less time, but at least half of it.
	// Default 30 s.
	WriteTimeout time.Duration
	// Linger is how long a closed connection waits for its client to also close, so that unread
	// requests don't destroy the last answers. Default 250 ms.
	Linger time.Duration
	// ProducerWindow is how long a producer without a request counts as one that will send again;
	// see Producers. Default 1 s.
	ProducerWindow time.Duration

	// roomAfter is how long a connection that has not logged in may let the broker wait before it
	// makes room for a new one; 1 s. Honest clients answer within a round trip.
	roomAfter   time.Duration
	loginBudget int64         // bytes of requests before login, in all connections; 16 MiB
	serveTime   time.Duration // of a poller; tests on slow machines set more
}

// Quotas gives the requests of clients their turns. Any goroutine may call it; it does not block.
type Quotas interface {
	// Any reports whether there are quotas. If there are none, no turn is asked for.
	Any() bool
	// Turn charges a request of size bytes to the quotas of its client, and returns its place
	// behind what they were charged with before. Of a long client id it gets what is distinct.
	Turn(s *Session, clientID string, key, version int16, size int) quota.Turn
}

// Limits bound the open connections. A closed connection counts until its requests are answered.
// Connections of other brokers do not count. 0 means no limit.
type Limits struct {
	Connections int // of all addresses (max.connections)
	// PerIP limits the connections of each address (max.connections.per.ip). With PerIPOf, 0
	// refuses every address that it does not list.
	PerIP int32
	// PerIPOf are limits of single addresses instead of PerIP; here 0 means that there may be none
	// (max.connections.per.ip.overrides). It must not be modified.
	PerIPOf map[netip.Addr]int32
	// Listeners are limits of single listeners by name (listener.name.NAME.max.connections). It
	// must not be modified.
	Listeners map[string]int
}

// reached reports whether an address that has n connections may have no further one.
func (l *Limits) reached(ip netip.Addr, n int) bool {
	if most, own := l.PerIPOf[ip]; own {
		return n >= int(most)
	}
	return (l.PerIP > 0 || len(l.PerIPOf) > 0) && n >= int(l.PerIP)
}

func (o *Options) complete() error {
	if o.Handler == nil || o.Table == nil {
		return errors.New("network: a handler and a version table are needed")
	}
	if o.Places == nil {
		o.Places = share.New().Of(share.Logins)
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Observer == nil {
		o.Observer = NoObserver{}
	}
	if o.Pool == nil {
		o.Pool = new(bufpool.Pool)
	}
	orDefault(&o.MaxFrame, 100<<20)
	orDefault(&o.ProduceBytes, 32<<20)
	orDefault(&o.OtherBytes, 64<<20)
	orDefault(&o.AnswerBytes, o.OtherBytes/2)
	orDefault(&o.ReadBytes, o.OtherBytes/4)
	orDefault(&o.SmallFrame, 16<<10)
	orDefault(&o.ConnectionBytes, 8<<20)
	orDefault(&o.ConnectionRequests, 1024)
	orDefault(&o.UnwrittenBytes, 1<<20)
	orDefault(&o.Idle, 10*time.Minute)
	orDefault(&o.FrameTimeout, 30*time.Second)
	orDefault(&o.WriteTimeout, 30*time.Second)
	orDefault(&o.Linger, 250*time.Millisecond)
	orDefault(&o.ProducerWindow, time.Second)
	orDefault(&o.LoginTimeout, 10*time.Second)
	orDefault(&o.LoginBytes, 64<<10)
	orDefault(&o.MaxUnauthenticated, 1000)
	orDefault(&o.MaxUnauthenticatedPerIP, 64)
	orDefault(&o.loginBudget, 16<<20)
	orDefault(&o.roomAfter, time.Second)
	orDefault(&o.serveTime, serveTime)
	return nil
}

func orDefault[T int | int64 | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

// BrokerID stands for a broker's id in the AdvertisedHost of a Listener that forwards.
const BrokerID = "{id}"

// Listener is one address that clients connect to, as handlers see it.
type Listener struct {
	// Name is the listener's name in the configuration.
	Name string
	// AdvertisedHost and AdvertisedPort are the address that clients receive from Metadata. Empty
	// and 0 stand for the address that the client dialed.
	AdvertisedHost string
	AdvertisedPort int32
	// TLS is nil for plain text.
	TLS *TLSOptions
	// SASL requires clients to log in with SASL before they are served. Then a client certificate
	// is only another condition: the principal is the user's.
	SASL bool
	// Brokers allows other brokers to connect: see Options.Link.
	Brokers bool
	// Forward: its address is that of all brokers, and requests are passed to the one that serves
	// them (docs/forwarding.md).
	Forward bool

	// The labels of the goroutines of its connections; set by Serve.
	handshakes, reads, writes label.Label
}

// Observer is notified of events, for metrics. Its methods are called on the request path, from
// many goroutines, some with a lock held. They must be cheap and must not call back.
type Observer interface {
	Opened(*Listener)
	Closed(*Listener, CloseReason)
	// Refused is called when a connection from an address was refused; the address is not valid if
	// accept failed.
	Refused(*Listener, netip.Addr, RefuseReason)
	// Answered is called when a request's answer is ready, after its Code was
	// set. The request's fields are valid during the call.
	Answered(r *Request, responseBytes int, took time.Duration)
	// Sent is called when the socket has taken an answer, with the time since the answer was ready.
	// That includes the wait for earlier answers and for the client to read.
	Sent(key int16, took time.Duration)
	// Throttled is called for every delay that a handler imposed on a client.
	Throttled(key int16, d time.Duration)
	// BudgetWait is called when a reader has to wait for "produce" or "other" bytes.
	BudgetWait(budget string)
	// Handshake is called when a TLS handshake has ended. It must not keep the event.
	Handshake(*HandshakeEvent)
	// Login is called when a client has logged in, or failed to, with SASL or with a certificate.
	// It must not keep the event.
	Login(*LoginEvent)
	// Logout is called when a connection whose client had logged in has closed. It must not keep
	// the event.
	Logout(*LogoutEvent)
}

// HandshakeEvent is the end of a TLS handshake.
type HandshakeEvent struct {
	Listener *Listener
	Session  *Session // of the connection
	// Result is "ok", or why it failed, which is one of plain_text, late, certificate, principal,
	// ClientRefused, protocol, busy, size and broken.
	Result string
	Err    error  // nil: it succeeded
	Remedy string // empty if there is none
}

// ClientRefused is the result of a handshake in which the client does not accept the listener's
// certificate.
const ClientRefused = "client_refused"

// LoginEvent is a login that succeeded or failed.
type LoginEvent struct {
	Listener  *Listener
	Peer      net.Addr
	Session   *Session // the new one; after a failure the one that the connection has
	Mechanism string   // empty if the client asked for one that its listener does not have
	Again     bool     // of a client that had logged in before (KIP-368)
	Err       error    // nil: it succeeded
	Remedy    string   // of a certificate that was refused; Err has it, too
}

// LogoutEvent is the end of a connection whose client had logged in.
type LogoutEvent struct {
	Session *Session
	Peer    net.Addr
	Reason  CloseReason
}

// CloseReason is why a connection ended.
type CloseReason string

// The reasons for the end of a connection.
const (
	ClosedByClient   CloseReason = "client"
	ClosedIdle       CloseReason = "idle"
	ClosedSlowReader CloseReason = "slow_reader"
	ClosedSlowSender CloseReason = "slow_sender"
	// ClosedLagging is a slow sender that held memory others waited for.
	ClosedLagging  CloseReason = "lagging"
	ClosedBadFrame CloseReason = "bad_frame"
	ClosedShutdown CloseReason = "shutdown"
	ClosedError    CloseReason = "error"
	// ClosedLink is the end of a connection that was hijacked for another broker.
	ClosedLink CloseReason = "link"
	// ClosedSession is the end of a session by Session.End.
	ClosedSession CloseReason = "session"
	// ClosedExpired is the end of a connection whose session had expired when a request came.
	ClosedExpired CloseReason = "expired"
	// ClosedHandshake is the end of a connection whose TLS handshake failed. ClosedLogin is that of
	// one whose client did not log in: late, wrongly, or with another request before.
	ClosedHandshake CloseReason = "handshake"
	ClosedLogin     CloseReason = "login"
	// ClosedLimit is the end of a connection above the limits that was not another broker's, and of
	// one that had not logged in and made room for another.
	ClosedLimit CloseReason = "limit"
)

// RefuseReason is why a connection was closed at accept, or why accept failed.
type RefuseReason string

// The reasons for refusing a connection.
const (
	RefusedTotal RefuseReason = "total"
	RefusedPerIP RefuseReason = "per_ip"
	// RefusedListener: the listener has too many.
	RefusedListener RefuseReason = "listener"
	RefusedFiles    RefuseReason = "files"
	// RefusedRate: the client's address has a quota for new connections (KIP-612).
	RefusedRate RefuseReason = "rate"
	// RefusedUnauthenticated: too many connections have not logged in. It counts also those that
	// make room for another one.
	RefusedUnauthenticated RefuseReason = "unauthenticated"
	RefusedDraining        RefuseReason = "draining"
)

// NoObserver ignores all events. An Observer of some events embeds it.
type NoObserver struct{}

// Opened implements Observer.
func (NoObserver) Opened(*Listener) {}

// Closed implements Observer.
func (NoObserver) Closed(*Listener, CloseReason) {}

// Refused implements Observer.
func (NoObserver) Refused(*Listener, netip.Addr, RefuseReason) {}

// Answered implements Observer.
func (NoObserver) Answered(*Request, int, time.Duration) {}

// Sent implements Observer.
func (NoObserver) Sent(int16, time.Duration) {}

// Throttled implements Observer.
func (NoObserver) Throttled(int16, time.Duration) {}

// BudgetWait implements Observer.
func (NoObserver) BudgetWait(string) {}

// Handshake implements Observer.
func (NoObserver) Handshake(*HandshakeEvent) {}

// Login implements Observer.
func (NoObserver) Login(*LoginEvent) {}

// Logout implements Observer.
func (NoObserver) Logout(*LogoutEvent) {}
