package network

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/network/connlife"
	"github.com/chronik-io/chronik/internal/protocol"
	"go.uber.org/zap"
)

// Handler answers requests.
type Handler interface {
	// Handle is called by the connection's reader, or by a poller that has other connections to
	// serve. It must not block unless Request.MayBlock allows it. The handler must call exactly one
	// of Respond, RespondRaw, RespondNone and Abort, before or after Handle returns, from any
	// goroutine. If it calls HandOver instead, it must call one of the four after the second call
	// of Handle.
	Handle(*Request)
}

// Software is the client's name and version from ApiVersions (KIP-511).
type Software struct{ Name, Version string }

// Request is one request of a client. The handler owns it until it answers, and must not touch any
// part of it afterwards.
type Request struct {
	Listener *Listener
	// Connection is the connection's number, in the order of arrival.
	Connection uint64
	// Session is who the client is; never nil in a request that a Server read.
	Session  *Session
	ClientID string
	Software Software
	// Peer and Local are the two ends of the connection.
	Peer, Local   net.Addr
	Key, Version  int16
	CorrelationID int32
	// Unsupported marks an ApiVersions request whose version is not in the table. It has no Body;
	// the answer is error 35 in the form of version 0.
	Unsupported bool
	// Body is what follows the header.
	Body []byte
	// Received is when the last byte arrived.
	Received time.Time
	// Code is the error code of the answer, for metrics. The handler sets it.
	Code int16

	conn     *conn
	commits  *groupcommit.Batch // the batch of the goroutine that handles the request
	flexible bool               // header and body have tagged fields, as the table says

	frame  *bufpool.Buffer // the memory of Body
	budget *bufpool.Budget // charged with size bytes; nil if nothing was charged
	size   int             // of the frame, without its length field
	proven bool            // its connection was not new (Holder) when it came

	records int64 // see CountRecords

	waiter atomic.Pointer[Waiter] // see WaitsAt
	about  string                 // written before waiter

	answered    atomic.Bool
	expireAt    time.Time
	expire      func()
	orphanTimer *time.Timer // calls expire if the connection has ended

	// The answer. ready and next are guarded by conn.mu.
	ready   bool
	aborted bool
	head    []byte           // frame length, header, and a body that was encoded here
	large   *bufpool.Scratch // has head; nil: the heap has it
	parts   [][]byte         // follow head
	files   []FileBytes      // between parts
	release func()           // called when parts were written or dropped
	outSize int
	raw     int // bytes of parts
	next    *Request
	// reserved is the memory that ReserveAnswer gave it, of reservedKind.
	reserved     int64
	reservedKind int
	readied      time.Time // when the answer was ready
}

// maxKeptHead bounds the memory for an encoded answer that a Request keeps for its next use.
const maxKeptHead = 16 << 10

// Respond answers with a response of kmsg, or with one that encodes itself. The response is encoded
// during the call; its version must be the request's. Error 35 to an Unsupported request has
// version 0.
func (r *Request) Respond(resp protocol.Response) { r.encode(resp) }

func (r *Request) encode(resp interface{ AppendTo(dst []byte) []byte }) {
	if !r.claim() {
		return
	}
	var prefix [protocol.MaxResponsePrefix]byte // overwritten when the length is known
	scratch := r.conn.srv.opts.Pool.Scratch()
	b := resp.AppendTo(append(scratch.Bytes(), prefix[:r.prefixLen()]...))
	if len(b) <= bufpool.SmallScratch {
		r.head = append(r.head[:0], b...)
		scratch.Release(b)
	} else {
		r.head, r.large = scratch.Hold(b), scratch
	}
	r.outSize = len(r.head)
	r.prefix(r.head[:0], r.outSize-r.prefixLen())
	r.complete()
}

// Length returns how many bytes a response of kmsg has. It encodes it.
func (r *Request) Length(resp protocol.Response) int {
	scratch := r.conn.srv.opts.Pool.Scratch()
	b := resp.AppendTo(scratch.Bytes())
	defer scratch.Release(b)
	return len(b)
}

// RespondRaw answers with a body that consists of parts, which are written without a copy. They
// must not change until release is called, exactly once, when they were written or will never be.
// release may be nil; it must not block.
func (r *Request) RespondRaw(parts [][]byte, release func()) { r.RespondFiles(parts, nil, release) }

// RespondFiles is RespondRaw with bytes of files between the parts, in the order of
// FileBytes.Before. Only a request for which SendsFiles returns true may have them.
func (r *Request) RespondFiles(parts [][]byte, files []FileBytes, release func()) {
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
	r.raw = n
	for _, f := range files {
		n += f.File.Size()
	}
	r.head = r.prefix(r.head[:0], n)
	r.parts, r.files, r.release, r.outSize = parts, files, release, len(r.head)+n
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
	r.conn.srv.limited.log(r.conn, zap.InfoLevel, "request closes its connection",
		fmt.Errorf("API %d version %d: %w", r.Key, r.Version, err))
	r.head, r.aborted = r.head[:0], true
	r.conn.stopReading(ClosedError)
	r.complete()
}

// Reset is Abort, but the client sees that its connection was reset, as if no process listened
// there. Some clients take the end of a connection without an answer for a mistake in their own
// configuration, and give up; they try another broker after a reset. A connection that a poller has
// served for some time ends without a reset.
func (r *Request) Reset(err error) {
	r.conn.mu.Lock()
	r.conn.life.reset = true
	r.conn.mu.Unlock()
	r.Abort(err)
}

// ExpireAt calls fn once, when t has passed and this request is the connection's oldest without an
// answer. fn runs on the connection's writer and must not block; it usually answers the request.
// When the connection has ended there is no oldest request: then fn is called at t, so that a stuck
// request releases what it holds. ExpireAt must be called before the request may be answered.
//
// If another goroutine answers at the same moment, it does not wait for fn, which may therefore
// still run afterwards. Until then, the values that fn uses must not be reused, or fn must
// recognize that they were.
func (r *Request) ExpireAt(t time.Time, fn func()) {
	c := r.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	r.expireAt, r.expire = t, fn
	switch {
	case c.life.Life() >= connlife.Gone:
		r.expireAlone()
	case c.queue.oldest == r:
		c.watchExpiry()
	}
}

// expireAlone arms the expiry of a request without a writer. Caller holds conn.mu.
func (r *Request) expireAlone() {
	if r.expire != nil {
		r.orphanTimer = time.AfterFunc(time.Until(r.expireAt), r.expire)
	}
}

// OnClose calls fn, once and on a goroutine of its own, when the connection or its session has
// ended, or its client has closed its side; at once if it already has. The stop function that it
// returns cancels that and reports whether fn will not be called. A handler that parks a request
// uses it to release what is parked for a client that is gone. The request must still be answered,
// and requests that the client sent before it closed its side are still handled. While a parked
// request keeps the reader from reading, only a poller can notice the close.
func (r *Request) OnClose(fn func()) (stop func() bool) {
	return context.AfterFunc(r.conn.span.client, fn)
}

// Client returns the context that ends when OnClose would call its function. It may be kept for
// longer than the request.
func (r *Request) Client() context.Context { return r.conn.span.client }

// Batch returns the commits that run when the requests that arrived together with this one have
// been handled, on the same goroutine. Only Handle may call it and add to it, before the request
// may be answered.
func (r *Request) Batch() *groupcommit.Batch {
	if bufpool.Invariants && r.answered.Load() {
		// A bug of a handler: nothing that a client sends leads here. Without this check of test
		// builds it would be another request's batch by now, and work would be lost.
		panic(fmt.Sprintf("network: API %d version %d asked for its batch after its answer", r.Key, r.Version))
	}
	return r.commits
}

// MayBlock reports whether the handler may block because it runs on the connection's own reader; on
// a poller it must not. If it may, MayBlock first runs the commits and writes the answers of
// earlier requests. Only Handle may call it.
func (r *Request) MayBlock() bool {
	c := r.conn
	if r.commits != &c.batch {
		return false
	}
	c.in.pollable = false // the next request is most probably alike
	c.batch.HandOff()
	c.mu.Lock()
	c.flush()
	c.blocked = blocking{r.Key, time.Now()}
	c.mu.Unlock()
	return true
}

// HandOver passes this request to Handle again, on the connection's own reader, where MayBlock
// returns true. Only Handle may call it, if MayBlock returned false, before it does anything else;
// it must not touch the request afterwards. It is for requests that take far longer than a small
// plain one, since a poller's other connections wait for it. The requests behind it also wait.
func (r *Request) HandOver() { r.conn.in.handed = r }

// Throttle stops reading the connection for d from now on (KIP-219). The handler calls it before it
// answers, and sets throttle_time_ms in the answer.
func (r *Request) Throttle(d time.Duration) {
	r.conn.srv.opts.Observer.Throttled(r.Key, d)
	r.conn.mute(time.Now().Add(d))
}

// Frame returns the buffer that contains Body. A handler that needs the bytes after the answer
// retains it; the byte budget no longer counts it then.
func (r *Request) Frame() *bufpool.Buffer { return r.frame }

// ReleaseBody releases the request's memory and its charge before the answer, for a request that is
// parked after it was decoded. Body is nil afterwards.
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

// FrameSize is the size of the whole request in bytes, without its length field.
func (r *Request) FrameSize() int { return r.size }

// claim reports whether the caller is the first to answer.
func (r *Request) claim() bool {
	if !r.answered.Swap(true) {
		return true
	}
	if bufpool.Invariants { // in test builds: a bug of a handler, whatever the client sent
		panic(fmt.Sprintf("network: API %d version %d answered twice", r.Key, r.Version))
	}
	r.conn.srv.opts.Log.Error("BUG: a request was answered twice",
		zap.Int16("api", r.Key), zap.Int16("version", r.Version))
	return false
}

// headerTags reports whether the response header has tagged fields. The header of ApiVersions never
// has, since its client does not know yet which versions the broker supports (KIP-511).
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

// small reports whether the answer may be copied and written with other small ones.
func (r *Request) small() bool { return r.outSize <= copyLimit && len(r.files) == 0 }

// Now returns the present time, from the time when the request was received and the monotonic clock
// since then. That is one reading of a clock, where time.Now needs two: with small requests, which
// need it three times, 1 % of the broker's processor time.
func (r *Request) Now() time.Time { return r.Received.Add(time.Since(r.Received)) }

// complete releases what the request held and queues the answer.
func (r *Request) complete() {
	now := r.Now()
	r.conn.srv.opts.Observer.Answered(r, r.outSize, now.Sub(r.Received))
	r.ReleaseBody()
	r.readied = now
	o, reserved, kind := &r.conn.srv.outgoing, r.reserved, r.reservedKind
	r.conn.answer(r, now) // counts the answer
	o.release(reserved, kind)
}

// recycle drops the answer and makes the request ready for another use.
func (r *Request) recycle(s *Server) {
	if r.release != nil {
		r.release()
	}
	if r.large != nil {
		r.large.Release(r.head)
	}
	if bufpool.Invariants {
		return // not reused, so that a handler that answers through it again is detected
	}
	head := r.head[:0]
	if cap(head) > maxKeptHead {
		head = nil
	}
	*r = Request{head: head}
	s.requests.Put(r)
}
