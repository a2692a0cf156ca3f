package network

import (
	"errors"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/protocol"
	"go.uber.org/zap"
)

// Options are a Server's settings. Handler and Table are needed; a zero
// elsewhere takes the default.
type Options struct {
	Handler Handler
	// Table says which requests are dispatched; any other closes the connection.
	Table *protocol.Table
	// Log gets a line for each cause that closes a connection against its client's
	// will, once a minute for each address, with a count where it repeats. Default: none.
	Log *zap.Logger
	// AdminAddress is where HTTP is served, for clients that speak it here; empty is nowhere.
	AdminAddress string
	// Observer is told of connections and answers. Default: nobody.
	Observer Observer
	// Pool is where requests' memory comes from. Default: one of its own.
	Pool *bufpool.Pool

	// MaxFrame is the most bytes that a request may have
	// (socket.request.max.bytes). Default 100 MiB. Twice its kind's budget is
	// never exceeded, unless that is less than 8 MiB for a Produce and 4 MiB for others: one request must not be what a
	// broker with little memory fails of.
	MaxFrame int
	// MaxFrameUnauthenticated is the same for clients that have yet to authenticate
	// (Kafka's sasl.server.max.receive.size). Default 512 KiB.
	MaxFrameUnauthenticated int
	// ProduceBytes is how many bytes of Produce requests may be unanswered
	// together before producers are no longer read. Half as much again is for those of
	// which not all bytes have arrived; see intake. Default 32 MiB.
	ProduceBytes int64
	// OtherBytes is the same for other requests of more than SmallFrame bytes;
	// smaller ones always pass. Defaults 64 MiB and 16 KiB.
	OtherBytes int64
	SmallFrame int
	// ReadBytes is how many bytes the read buffers of connections that pipeline may have
	// together, 32 KiB for each; the others get by with small ones. Default: a quarter
	// of OtherBytes.
	ReadBytes int64
	// ConnectionBytes and ConnectionRequests are how many bytes of unanswered
	// Produce requests, and how many requests whose answers are not yet
	// written, one connection may have. Defaults 8 MiB and 1024.
	ConnectionBytes    int64
	ConnectionRequests int
	// UnwrittenBytes of answers that the client does not read stop the reading
	// of its requests. One answer may be larger. Default 1 MiB.
	UnwrittenBytes int
	// AnswerBytes of encoded answers that clients do not read, all of them together, close
	// the connections of those that read too slowly; see outgoing. Default: half of
	// OtherBytes.
	AnswerBytes int64

	// MaxConnections (max.connections) and MaxConnectionsPerIP
	// (max.connections.per.ip) are the most open connections; one that is gone counts until
	// its requests are answered. Default: no limit.
	MaxConnections      int
	MaxConnectionsPerIP int
	// Idle closes a connection without requests (connections.max.idle.ms).
	// Default 10 minutes.
	Idle time.Duration
	// FrameTimeout is how long the bytes of one request may take to arrive: its
	// first 12 bytes, and again the rest, for the broker's own waiting lies
	// between them and is not counted. Default 30 s.
	FrameTimeout time.Duration
	// WriteTimeout is how long at most a write of half a MiB may make no
	// progress; at least half of it is granted. Default 30 s.
	WriteTimeout time.Duration
	// Linger is how long a closed connection waits for its client to close too,
	// so that unread requests don't destroy the last answers. Default 250 ms.
	Linger time.Duration
	// CensusWindow is how long a producer without a request is remembered as
	// one that may come back; see Census. Default 1 s.
	ProducerWindow time.Duration

	serveTime time.Duration // of a poller; tests on slow machines have more
}

func (o *Options) complete() error {
	if o.Handler == nil || o.Table == nil {
		return errors.New("network: a handler and a version table are needed")
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Observer == nil {
		o.Observer = noopObserver{}
	}
	if o.Pool == nil {
		o.Pool = new(bufpool.Pool)
	}
	orDefault(&o.MaxFrame, 100<<20)
	orDefault(&o.MaxFrameUnauthenticated, 512<<10)
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
	orDefault(&o.serveTime, serveTime)
	return nil
}

func orDefault[T int | int64 | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

// Listener is one address that clients come to, as handlers see it.
type Listener struct {
	// Name is the listener's name in the configuration.
	Name string
	// AdvertisedHost and AdvertisedPort are what clients are told to connect
	// to; empty and 0 mean the address that the client dialled.
	AdvertisedHost string
	AdvertisedPort int32
	// Authenticate has clients show who they are before they are served.
	Authenticate bool
}

// Observer is told what happens, for metrics. Its methods are called on the
// request path, from many goroutines, some with a lock held; they must be cheap
// and may not call back.
type Observer interface {
	Opened(*Listener)
	Closed(*Listener, CloseReason)
	Refused(*Listener, RefuseReason)
	// Answered is called when a request's answer is ready, after its Code was
	// set. The request's fields are valid during the call.
	Answered(r *Request, responseBytes int, took time.Duration)
	// Sent is called when the socket has taken an answer, with the time since it
	// was ready: the wait for earlier answers and for the client to read is in it.
	Sent(key int16, took time.Duration)
	// Throttled is called for every delay that a handler asked of a client.
	Throttled(key int16, d time.Duration)
	// BudgetWait is called when a reader has to wait for "produce" or "other" bytes.
	BudgetWait(budget string)
}

// CloseReason says why a connection ended.
type CloseReason string

// The reasons that a connection ends for.
const (
	ClosedByClient   CloseReason = "client"
	ClosedIdle       CloseReason = "idle"
	ClosedSlowReader CloseReason = "slow_reader"
	ClosedSlowSender CloseReason = "slow_sender"
	// ClosedLagging is a slow sender whose memory others waited for.
	ClosedLagging  CloseReason = "lagging"
	ClosedBadFrame CloseReason = "bad_frame"
	ClosedShutdown CloseReason = "shutdown"
	ClosedError    CloseReason = "error"
)

// RefuseReason says why a connection was closed at accept, or accept failed.
type RefuseReason string

// The reasons that a connection is refused for.
const (
	RefusedTotal    RefuseReason = "total"
	RefusedPerIP    RefuseReason = "per_ip"
	RefusedFiles    RefuseReason = "files"
	RefusedDraining RefuseReason = "draining"
)

// noopObserver is the Observer that looks away.
type noopObserver struct{}

func (noopObserver) Opened(*Listener)                      {}
func (noopObserver) Closed(*Listener, CloseReason)         {}
func (noopObserver) Refused(*Listener, RefuseReason)       {}
func (noopObserver) Answered(*Request, int, time.Duration) {}
func (noopObserver) Sent(int16, time.Duration)             {}
func (noopObserver) Throttled(int16, time.Duration)        {}
func (noopObserver) BudgetWait(string)                     {}
