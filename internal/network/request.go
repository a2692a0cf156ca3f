package network

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/protocol"
	"go.uber.org/zap"
)

// Handler answers requests.
type Handler interface {
	// Handle is called by the connection's reader, or by a poller for which other
	// connections wait, and must not block unless Request.MayBlock allows it. Exactly
	// one of the request's Respond, RespondRaw, RespondNone and Abort is to be called,
	// then or later, from any goroutine; or HandOver, and one of them on the second call.
	Handle(*Request)
}

// Software is what a client called itself in ApiVersions (KIP-511).
type Software struct{ Name, Version string }

// Request is one request of a client. All of it is the handler's until the
// answer is given, and nothing of it may be touched afterwards.
type Request struct {
	Listener *Listener
	// Connection is the connection's number, in the order of arrival.
	Connection uint64
	// Principal is who the client is: Anonymous without authentication.
	Principal      string
	Authentication Authentication
	ClientID       string
	Software       Software
	// Peer and Local are the two ends of the connection.
	Peer, Local   net.Addr
	Key, Version  int16
	CorrelationID int32
	// Unsupported marks an ApiVersions request of a version that the table does
	// not have. It has no Body; the answer is error 35 in the form of version 0.
	Unsupported bool
	// Body is what follows the header.
	Body []byte
	// Received is when the last byte had arrived.
	Received time.Time
	// Code is the error that the answer has, for metrics. The handler sets it.
	Code int16

	conn     *conn
	commits  *groupcommit.Batch // of the goroutine that handles the request
	flexible bool               // header and body, as the table says

	frame  *bufpool.Buffer // what Body lies in
	budget *bufpool.Budget // charged with size bytes; nil where it was not
	size   int             // of the frame, its length not counted

	records int64 // see CountRecords

	answered atomic.Bool
	expireAt time.Time
	expire   func()
	alone    *time.Timer // calls expire when the connection is gone

	// Of the answer. Guarded by conn.mu: ready, next.
	ready   bool
	aborted bool
	head    []byte   // frame length, header, and a body that was encoded here
	parts   [][]byte // what follows head
	release func()   // when parts were written or dropped
	outSize int
	next    *Request
	readied time.Time // when the answer was ready
}

// maxKeptHead bounds the memory for an encoded answer that a Request keeps for
// its next use.
const maxKeptHead = 16 << 10

// Respond answers with a body of kmsg, or one that writes itself. It is encoded
// during the call; its version must be the request's. Error 35 to an Unsupported
// request has version 0.
func (r *Request) Respond(resp protocol.Response) {
	if !r.claim() {
		return
	}
	var room [protocol.MaxResponsePrefix]byte // overwritten when the length is known
	r.head = append(r.head[:0], room[:r.prefixLen()]...)
	r.head = resp.AppendTo(r.head)
	r.outSize = len(r.head)
	r.prefix(r.head[:0], r.outSize-r.prefixLen())
	r.complete()
}

// RespondRaw answers with a body that lies in parts, which are written as they
// are. They may not change until release is called, exactly once, when they were
// written or will never be. release may be nil; it must not block.
func (r *Request) RespondRaw(parts [][]byte, release func()) {
	if !r.claim() {
		if release != nil {
			release()
		}
		return
	}
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	r.head = r.prefix(r.head[:0], n)
	r.parts, r.release, r.outSize = parts, release, len(r.head)+n
	r.complete()
}

// RespondNone ends a request that has no answer: a Produce with acks=0.
func (r *Request) RespondNone() {
	if r.claim() {
		r.head = r.head[:0]
		r.complete()
	}
}

// Abort ends a request by closing its connection, once the requests before it
// have their answers. Nothing more is read. The cause is logged.
func (r *Request) Abort(err error) {
	if !r.claim() {
		return
	}
	r.conn.srv.limited.log(r.conn, zap.InfoLevel, "request closes its connection", fmt.Errorf("API %d version %d: %w", r.Key, r.Version, err))
	r.head, r.aborted = r.head[:0], true
	r.conn.stopReading(ClosedError)
	r.complete()
}

// ExpireAt has fn called, once, when t has passed and this request is the
// connection's oldest without an answer. fn runs on the connection's writer and
// must not block; it usually answers the request. When the connection is gone
// there is no oldest: fn is called when t has passed, so that a request which is
// stuck gives back what it holds. ExpireAt is called before the answer can be
// given.
//
// An answer that another goroutine gives at the same moment does not wait for
// fn, which may therefore still run after it: what fn refers to must not be
// reused by then, or must know which of its lives is meant.
func (r *Request) ExpireAt(t time.Time, fn func()) {
	c := r.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	r.expireAt, r.expire = t, fn
	switch {
	case c.abandoned:
		r.expireAlone()
	case c.oldest == r:
		c.watchExpiry()
	}
}

// expireAlone sees to the expiry of a request without a writer. Caller holds
// conn.mu.
func (r *Request) expireAlone() {
	if r.expire != nil {
		r.alone = time.AfterFunc(time.Until(r.expireAt), r.expire)
	}
}

// OnClose has fn called, once and on a goroutine of its own, when the connection has
// ended or its client has closed its side; at once if it has already. The stop function
// that it returns takes that back and reports whether fn will not be called. A handler that
// parks a request releases what is parked for a client that is gone; the request is still
// to be answered, and what comes from a client that closed its side first is still handled.
// While a parked request keeps the reader from reading, it takes a poller to notice.
func (r *Request) OnClose(fn func()) (stop func() bool) { return context.AfterFunc(r.conn.client, fn) }

// Batch returns the commits that are run when the requests that arrived together with this
// one have been handled, on the same goroutine. Only Handle may call it and add to it,
// before the answer can be given.
func (r *Request) Batch() *groupcommit.Batch {
	if bufpool.Invariants && r.answered.Load() {
		// Outside such a build it would be another request's batch by now, and work
		// would be lost between two goroutines.
		panic(fmt.Sprintf("network: API %d version %d asked for its batch after its answer", r.Key, r.Version))
	}
	return r.commits
}

// MayBlock reports whether the handler may block, since it runs on the connection's own
// reader; a poller must not. Where it may, what requests before this one left to be
// done or written is done first. Only Handle may call it.
func (r *Request) MayBlock() bool {
	c := r.conn
	if r.commits != &c.batch {
		return false
	}
	c.in.pollable = false // the next one is like it, most probably
	c.batch.HandOff()
	c.mu.Lock()
	c.flush()
	c.blocked = blocking{r.Key, time.Now()}
	c.mu.Unlock()
	c.mayBlock = true
	return true
}

// HandOver has Handle called again with this request, on the connection's own reader,
// where MayBlock reports true. Only Handle may call it, where MayBlock reported false,
// before it began anything, and does nothing with the request afterwards. A request whose
// work takes far longer than a small plain one does belongs there: a poller's other
// connections wait for it. The requests behind it wait too.
func (r *Request) HandOver() { r.conn.handed = r }

// Throttle has the connection not read for d from now on (KIP-219). The handler
// calls it before it answers, and fills the answer's throttle_time_ms.
func (r *Request) Throttle(d time.Duration) {
	r.conn.srv.opts.Observer.Throttled(r.Key, d)
	r.conn.mute(time.Now().Add(d))
}

// Frame returns the buffer that Body lies in. Who needs the bytes beyond the
// answer retains it; the byte budget no longer counts it then.
func (r *Request) Frame() *bufpool.Buffer { return r.frame }

// ReleaseBody gives the request's memory and charge back before the answer, for
// a request that is parked after it was decoded. Body is nil afterwards.
func (r *Request) ReleaseBody() {
	r.Body = nil
	if r.frame != nil {
		r.frame.Release()
		r.frame = nil
	}
	if r.budget != nil {
		r.budget.Release(int64(r.size))
		r.budget = nil
	}
}

// FrameSize is the number of bytes of the whole request, its length field not
// counted.
func (r *Request) FrameSize() int { return r.size }

// claim says that the caller is the first to answer.
func (r *Request) claim() bool {
	if !r.answered.Swap(true) {
		return true
	}
	if bufpool.Invariants {
		panic(fmt.Sprintf("network: API %d version %d answered twice", r.Key, r.Version))
	}
	r.conn.srv.opts.Log.Error("BUG: a request was answered twice",
		zap.Int16("api", r.Key), zap.Int16("version", r.Version))
	return false
}

// headerTags says whether the response header has tagged fields: never that of
// ApiVersions, whose client does not know yet what the broker speaks (KIP-511).
func (r *Request) headerTags() bool { return r.flexible && r.Key != protocol.KeyApiVersions }

func (r *Request) prefixLen() int {
	if r.headerTags() {
		return protocol.MaxResponsePrefix
	}
	return protocol.MaxResponsePrefix - 1
}

func (r *Request) prefix(dst []byte, bodyLen int) []byte {
	return protocol.AppendResponsePrefix(dst, r.CorrelationID, r.headerTags(), bodyLen)
}

// complete gives back what the request held and puts the answer in its place.
func (r *Request) complete() {
	now := time.Now()
	r.conn.srv.opts.Observer.Answered(r, r.outSize, now.Sub(r.Received))
	r.ReleaseBody()
	r.readied = now
	r.conn.answer(r, now)
}

// recycle drops the answer and makes the request ready for another use.
func (r *Request) recycle(s *Server) {
	if r.release != nil {
		r.release()
	}
	if bufpool.Invariants {
		return // whoever still answers through it is found out
	}
	head := r.head[:0]
	if cap(head) > maxKeptHead {
		head = nil
	}
	*r = Request{head: head}
	s.requests.Put(r)
}
