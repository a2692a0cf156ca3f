package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of Peer.Call.
var (
	// ErrNotSent: no byte of the request was passed to a connection; the peer has not seen it.
	ErrNotSent = errors.New("request was not sent")
	// ErrNoAnswer: the request may have been handled, but its response did not come.
	ErrNoAnswer = errors.New("no answer")
)

// Codes of a RemoteError that link itself uses; others begin at FirstCode.
const (
	CodeFailed uint16 = 0 // an error of the handler without a code
	CodeBusy   uint16 = 1 // the peer handles too many requests already, or too many bytes
	CodeSize   uint16 = 2 // the response is too large
	FirstCode  uint16 = 100
)

// RemoteError is the error that a peer's Handler returned for a request. A Handler returns one to
// choose the code.
type RemoteError struct {
	Code uint16
	Text string
}

// Error returns the text.
func (e *RemoteError) Error() string { return e.Text }

// Peer is the lane of metadata to another broker, from the end that asks. It is connected in the
// background until Close.
type Peer struct {
	links  *Links
	target Target
	dialer *Dialer

	lastID  atomic.Uint64
	dropped atomic.Uint64

	mu      sync.Mutex
	now     *session // nil while there is no connection
	pending map[uint64]*call
}

// session is a connection of a Peer and what waits to be sent on it.
type session struct {
	*Conn
	out outbox
}

// call is a request that waits for its response.
type call struct {
	sent   atomic.Bool // a piece was passed to the connection
	result chan result // has room for one
}

type result struct {
	body []byte
	err  error
}

// PeerStats describes a Peer at one moment.
type PeerStats struct {
	Connected bool
	Queued    int64  // bytes of requests and messages that were not passed to the connection
	Dropped   uint64 // messages that Send dropped, since the Peer was created
}

// Peer connects to a target on the lane of metadata, and keeps connected until Close.
func (l *Links) Peer(t Target) *Peer {
	p := &Peer{links: l, target: t, pending: make(map[uint64]*call)}
	p.dialer = l.dial(t, Meta, p.run)
	return p
}

// Target returns what the Peer dials.
func (p *Peer) Target() Target { return p.target }

// Failing is Dialer.Failing.
func (p *Peer) Failing() (since time.Time, err error) { return p.dialer.Failing() }

// Close ends the connection and fails the requests that wait. It waits for the Peer's goroutine.
func (p *Peer) Close() { p.dialer.Close() }

// Hello returns what the peer stated in the present connection; false while there is none.
func (p *Peer) Hello() (Hello, bool) {
	if s := p.session(); s != nil {
		return s.peer, true
	}
	return Hello{}, false
}

// Stats returns the present state.
func (p *Peer) Stats() PeerStats {
	stats := PeerStats{Dropped: p.dropped.Load()}
	if s := p.session(); s != nil {
		stats.Connected, stats.Queued = true, s.out.queued()
	}
	return stats
}

// Send passes a message to the peer. It never blocks; it drops the message and returns false if
// there is no connection or the queue of messages is full. A message is lost if the connection
// breaks before it arrives. Small messages, of at most 16 KiB, arrive in the order of the calls,
// and so do large ones, but small ones overtake large ones. body must not change afterwards.
func (p *Peer) Send(method uint16, body []byte) bool {
	s := p.session()
	if s == nil || !s.out.add(&outgoing{kind: kindMessage, method: method, body: body}) {
		p.dropped.Add(1)
		return false
	}
	s.Kick()
	return true
}

// Call sends a request and waits for its response until ctx ends, which must have a deadline. It
// does not wait for a connection. The error matches ErrNotSent or ErrNoAnswer, or is a
// *RemoteError. body must not change before Call returns, and not after an ErrNoAnswer.
func (p *Peer) Call(ctx context.Context, method uint16, body []byte) ([]byte, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil, fmt.Errorf("%w: it has no deadline", ErrNotSent)
	}
	k := &call{result: make(chan result, 1)}
	id := p.lastID.Add(1)
	m := &outgoing{kind: kindRequest, id: id, method: method, body: body, call: k, deadline: deadline}
	m.hasten(p.links.opts.Urgent(method))
	p.mu.Lock()
	s := p.now
	if s == nil {
		p.mu.Unlock()
		return nil, fmt.Errorf("%w: not connected to %s", ErrNotSent, p.target.Address)
	}
	p.pending[id] = k
	p.mu.Unlock()
	if !s.out.add(m) {
		p.forget(id)
		return nil, fmt.Errorf("%w: too many requests to %s wait, or one of %d bytes is too large", ErrNotSent, p.target.Address, len(body))
	}
	s.Kick()
	select {
	case r := <-k.result:
		return r.body, r.err
	case <-ctx.Done():
	}
	p.forget(id)
	if s.out.cancel(m) {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
	}
	return nil, fmt.Errorf("%w from %s: %w", ErrNoAnswer, p.target.Address, ctx.Err())
}

func (p *Peer) session() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *Peer) forget(id uint64) {
	p.mu.Lock()
	delete(p.pending, id)
	p.mu.Unlock()
}

// run uses a connection until it ends: it reads responses.
func (p *Peer) run(c *Conn) {
	s := &session{Conn: c}
	c.Start(&s.out)
	p.mu.Lock()
	p.now = s
	p.mu.Unlock()
	in := inbox{conn: c, budget: p.links.inbound, urgent: p.links.opts.Urgent}
	for {
		m, err := in.next()
		if err != nil {
			break
		}
		p.mu.Lock()
		k := p.pending[m.ID]
		delete(p.pending, m.ID)
		p.mu.Unlock()
		if k != nil { // otherwise its caller has given up
			k.result <- m.result()
		}
		in.release(&m)
	}
	in.close()
	p.disconnect(s)
}

// disconnect fails the requests of a connection that has ended.
func (p *Peer) disconnect(s *session) {
	s.Close()
	s.out.close()
	p.mu.Lock()
	p.now = nil
	calls := p.pending
	p.pending = make(map[uint64]*call)
	p.mu.Unlock()
	for _, k := range calls {
		err := ErrNoAnswer
		if !k.sent.Load() {
			err = ErrNotSent
		}
		k.result <- result{err: fmt.Errorf("%w, the connection to %s has ended: %w", err, p.target.Address, s.Err())}
	}
}

// result returns a response as Call does.
func (m *inbound) result() result {
	switch {
	case m.dropped:
		return result{err: fmt.Errorf("%w: the response of %d bytes exceeds the memory for arriving messages", ErrNoAnswer, m.Total)}
	case m.failed:
		return result{err: &RemoteError{Code: m.Method, Text: string(m.body)}}
	}
	return result{body: m.body}
}

// timeout returns the milliseconds until a deadline, for the handler of the request.
func timeout(deadline time.Time) uint32 {
	return uint32(min(max(time.Until(deadline).Milliseconds(), 1), int64(time.Hour/time.Millisecond)))
}
