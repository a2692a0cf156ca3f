package audit

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/text"
)

// Kind is what happened, as a line names it.
type Kind string

// The kinds of events. Overflow and lost are made by this package.
const (
	Login       Kind = "login"
	LoginFailed Kind = "login_failed"
	Logout      Kind = "logout"
	Expired     Kind = "expired" // the session of a client that did not log in again
	Refused     Kind = "refused" // a request, or a part of one
	Allowed     Kind = "allowed"
	Change      Kind = "change" // of the metadata
	Read        Kind = "read"   // records, by the admin port

	overflow Kind = "overflow"
	lost     Kind = "lost"
)

// Mode is which events are recorded.
type Mode uint8

// The modes.
const (
	Off Mode = iota
	// Refusals records all kinds but Allowed.
	Refusals
	All
)

// Doubt is the Why of a change whose outcome err leaves unknown.
func Doubt(err error) string { return "it is not known whether the change was made: " + err.Error() }

// Client is who an event is about. Values that are not known are empty.
type Client struct {
	Who       string // the principal; of a failed login, the user that was named
	Host      string // the address without a port
	From      string // the address with its port
	Listener  string
	Mechanism string // of the login
	ID        string // the client id
	// API, Version and Correlation are those of the request; API is empty without one.
	API         string
	Version     int16
	Correlation int32
}

// Event is one event. Events with the same kind, client (Who and the address), operation and
// resource have the same cause, but each Change has one of its own: what a client changes and
// changes back must not hide behind a number.
type Event struct {
	Kind Kind
	Client
	Operation string // "WRITE"
	Resource  string // "Topic:LITERAL:orders"
	// Rule returns the access rule that decides. It is called for each line, by another goroutine.
	// nil: no rule is concerned.
	Rule func() string
	// Why says more of a failed login, a refused connection of a broker, the end of a session, or a
	// doubt whether a change was made.
	Why string
	// Old and New are the values before and after a change, without secrets; nil for none.
	Old, New json.RawMessage
}

// Bounds of what is remembered, see the package comment.
const (
	// period is the time for which events of one cause are counted.
	period = 10 * time.Second
	// maxCauses bounds the causes of a class, and maxOfHost those of one address (IPv6: of one
	// /64).
	maxCauses = 10_000
	maxOfHost = 1_000
	// maxWaiting bounds the lines that wait for the writer, and maxDecisions those of decisions.
	maxWaiting   = 4096
	maxDecisions = maxWaiting / 2
)

// class is what has bounds and a sink of its own: a flood of requests that are refused, which every
// client can make, must not hide or displace who logged in and what was changed.
type class uint8

const (
	decisions class = iota
	sessions
	changes
	numClasses
)

func (k Kind) class() class {
	switch k {
	case Login, Logout, Expired, Read:
		return sessions
	case Change:
		return changes
	}
	return decisions
}

// beyond is what a line of kind overflow says about the events of a class.
var beyond = [numClasses]string{"refusals and failed logins beyond the bounds", "logins, logouts and reads beyond the bounds",
	"changes beyond the bounds"}

// Sink takes lines. Its methods are called by one goroutine and may block.
type Sink interface {
	// Write takes one line, which ends with "\n", completely or not at all.
	Write(line []byte) error
	// Flush makes what was written durable, as far as the sink can. After an error, what was
	// written since the last Flush without one counts as lost, also if a later Flush has none.
	Flush() error
	Close() error
}

// Sinks are where the lines of each class go. They may be the same.
type Sinks struct {
	Decisions, Sessions, Changes Sink
}

// Same returns Sinks that are all one.
func Same(s Sink) Sinks { return Sinks{s, s, s} }

// of returns the sink of a class.
func (s *Sinks) of(c class) Sink { return [numClasses]Sink{s.Decisions, s.Sessions, s.Changes}[c] }

// Close closes all sinks.
func (s *Sinks) Close() error {
	err := s.Decisions.Close()
	if s.Sessions != s.Decisions {
		err = errors.Join(err, s.Sessions.Close())
	}
	if s.Changes != s.Decisions {
		err = errors.Join(err, s.Changes.Close())
	}
	return err
}

// Options configure a Log.
type Options struct {
	Mode Mode
	Sink Sinks
	Node int32 // the broker's id, for each line
	// Failed is called when writing begins to fail, and with nil when it works again. It may be
	// nil.
	Failed func(error)
}

// Stats are numbers since the start.
type Stats struct {
	Written int64 // lines, also those that a failed flush has lost
	Dropped int64 // lines that were not written, or that a flush has lost, because the sink was slow or failed
	Counted int64 // events that have no line of their own
	// Err is why lines cannot be written, or made durable; nil if they can.
	Err error
}

// Log records events. A nil Log records nothing.
type Log struct {
	opt   Options
	lines chan line             // to the writer, at most maxWaiting; never closed
	stop  chan struct{}         // closed by the first Close
	ended chan struct{}         // closed by the writer at its end
	sinks [numClasses]sinkState // owned by the writer

	mu      sync.Mutex
	causes  map[cause]*count
	classes [numClasses]classCount
	changes uint64 // so far
	stats   Stats
	closed  bool
}

// classCount is what a class has of the bounds.
type classCount struct {
	causes     int
	hosts      map[string]int // causes of each address
	overflow   int64          // events since the last line of that kind, which was written at overflowAt
	overflowAt time.Time
	dropped    int64 // lines since the last line of kind lost
}

// sinkState is what became of the lines of a class.
type sinkState struct {
	// The last write or flush failed, and lines are written that were not flushed.
	unwritten, unflushed, dirty bool
	// Lines since the last flush without an error, and those that the lost lines among them name.
	pending, named int64
}

// waits reports whether a flush has something to say: also a sink that takes no line until it was
// asked for the error of a sync.
func (s *sinkState) waits() bool { return s.dirty || s.unwritten }

// line is an event that stands for n.
type line struct {
	Event
	at time.Time
	n  int64
	of class
}

type cause struct {
	kind                      Kind
	who, host, operation, res string
	change                    uint64 // which one; 0 for other kinds
}

// count is what came of a cause since its last line.
type count struct {
	n     int64
	last  Event
	until time.Time // of the period
}

// Open returns a Log that writes to a sink until Close; nil with mode Off.
func Open(o Options) *Log {
	if o.Mode == Off {
		return nil
	}
	l := &Log{opt: o, lines: make(chan line, maxWaiting), stop: make(chan struct{}), ended: make(chan struct{}),
		causes: map[cause]*count{}}
	for i := range l.classes {
		l.classes[i].hosts = map[string]int{}
	}
	go l.run()
	return l
}

// Records reports whether events of a kind are recorded, so that others need not be made.
func (l *Log) Records(k Kind) bool { return l != nil && (k != Allowed || l.opt.Mode == All) }

// Record records an event. It does not block, and keeps no text of the event that is longer than a
// line may have. Any goroutine may call it, also after Close.
func (l *Log) Record(e Event) {
	if !l.Records(e.Kind) {
		return
	}
	e = bounded(e)
	c := cause{kind: e.Kind, who: e.Who, host: origin.OfHost(e.Host), operation: e.Operation, res: e.Resource}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if e.Kind == Change {
		l.changes++
		c.change = l.changes
	}
	of := &l.classes[e.Kind.class()]
	if k := l.causes[c]; k != nil {
		k.n, k.last = k.n+1, e
		l.stats.Counted++
		return
	}
	if of.causes >= maxCauses || of.hosts[c.host] >= maxOfHost {
		of.overflow++
		l.stats.Counted++
		return
	}
	l.causes[c] = &count{until: now.Add(period)}
	of.causes++
	of.hosts[c.host]++
	l.write(line{e, now, 1, e.Kind.class()})
}

// bounded returns an event with texts that a line may have, and that share no memory with the
// caller's.
func bounded(e Event) Event {
	for _, s := range []*string{&e.Who, &e.Host, &e.From, &e.Listener, &e.Mechanism, &e.ID, &e.API, &e.Operation, &e.Resource, &e.Why} {
		*s = strings.Clone(text.Cut(*s, maxText))
	}
	return e
}

// write passes a line to the writer, or drops it. Caller holds mu.
func (l *Log) write(x line) {
	if x.of != decisions || len(l.lines) < maxDecisions {
		select {
		case l.lines <- x:
			return
		default:
		}
	}
	l.classes[x.of].dropped++
	l.stats.Dropped++
}

// Stats returns the numbers since the start.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Close writes what is counted and waits, and closes the sink. Later events are not recorded. If
// ctx ends before, that is an error. A sink that hangs holds up Close beyond it: the caller then
// abandons Close, and knows that the sink may still write.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.stop)
	}
	l.mu.Unlock()
	select {
	case <-l.ended:
		return l.opt.Sink.Close()
	case <-ctx.Done():
		<-l.ended
		return errors.Join(ctx.Err(), l.opt.Sink.Close())
	}
}
