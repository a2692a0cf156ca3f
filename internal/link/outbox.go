package link

import (
	"slices"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/link/frame"
)

// The kinds of what an outbox sends. Each has two queues: small messages, which go first, and large
// ones, of which a piece of each kind is sent in turn. What is urgent has a queue before all these:
// a heartbeat waits for what is being written, at most one piece of a transaction or a snapshot.
const (
	kindMessage = iota
	kindRequest
	kindResponse
	kindCount
)

const (
	// maxSmall is the most bytes of a small message.
	maxSmall = 16 << 10
	// maxQueued and maxQueuedBytes bound each queue. One message of any allowed size fits into an
	// empty queue.
	maxQueued      = 4096
	maxQueuedBytes = 64 << 20
)

// outgoing is a request, response or message that waits to be sent.
type outgoing struct {
	kind     int
	id       uint64
	method   uint16
	failed   bool
	urgent   bool // it has one piece
	body     []byte
	sent     int // bytes of body
	call     *call
	deadline time.Time
}

// queueCount is the number of queues: those of small messages, those of large ones, and the urgent
// one.
const (
	urgentQueue = 2 * kindCount
	queueCount  = urgentQueue + 1
)

type queue struct {
	list  []*outgoing
	bytes int64
}

// hasten makes m urgent if it fits into one piece.
func (m *outgoing) hasten(urgent bool) { m.urgent = urgent && len(m.body) <= frame.MaxPiece }

func (m *outgoing) queue() int {
	if m.urgent {
		return urgentQueue
	}
	if len(m.body) > maxSmall {
		return kindCount + m.kind
	}
	return m.kind
}

// outbox is the Source of a connection on the lane of metadata. Its methods are safe for concurrent
// use and do not block.
type outbox struct {
	mu     sync.Mutex
	queues [queueCount]queue
	turn   int // the kind whose large message is next
	closed bool
}

// add queues m, and returns false if there is no room or m is too large.
func (o *outbox) add(m *outgoing) bool {
	if len(m.body) > frame.MaxMessage {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	q := &o.queues[m.queue()]
	n := len(q.list)
	if o.closed || n >= maxQueued || n > 0 && q.bytes+int64(len(m.body)) > maxQueuedBytes {
		return false
	}
	q.list = append(q.list, m)
	q.bytes += int64(len(m.body))
	return true
}

// cancel removes a request of which nothing was sent, and reports whether it did.
func (o *outbox) cancel(m *outgoing) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := &o.queues[m.queue()]
	i := slices.Index(q.list, m)
	if i < 0 || m.call.sent.Load() {
		return false
	}
	q.list = slices.Delete(q.list, i, i+1)
	q.bytes -= int64(len(m.body))
	return true
}

// close drops everything; nothing is added from now on.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.queues = [queueCount]queue{}
}

// queued returns the bytes that wait.
func (o *outbox) queued() (n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.queues {
		n += o.queues[i].bytes
	}
	return n
}

// Fill implements Source. It adds urgent messages, small ones and one piece of a large one, so that
// small ones that come meanwhile are next. The connection's goroutine, which alone calls it, calls
// it again.
func (o *outbox) Fill(v *Vector) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queues[urgentQueue].empty(v)
	for kind := range kindCount {
		o.queues[kind].empty(v)
	}
	for range kindCount {
		q := &o.queues[kindCount+o.turn]
		o.turn = (o.turn + 1) % kindCount
		if len(q.list) > 0 {
			if q.first().piece(v) {
				q.pop()
			}
			return
		}
	}
}

// empty adds messages of one piece to v as long as there is room.
func (q *queue) empty(v *Vector) {
	for len(q.list) > 0 && !v.Full() {
		q.first().piece(v)
		q.pop()
	}
}

func (q *queue) first() *outgoing { return q.list[0] }

func (q *queue) pop() {
	q.bytes -= int64(len(q.list[0].body))
	q.list[0] = nil
	if q.list = q.list[1:]; len(q.list) == 0 {
		q.list = nil
	}
}

// piece adds the next piece of m to v, and reports whether it is the last one.
func (m *outgoing) piece(v *Vector) (last bool) {
	n := min(len(m.body)-m.sent, frame.MaxPiece)
	var flags uint8
	if m.sent > 0 {
		flags |= frame.FlagNext
	}
	if last = m.sent+n == len(m.body); !last {
		flags |= frame.FlagMore
	}
	if m.failed {
		flags |= frame.FlagFailed
	}
	p := frame.Piece{ID: m.id, Offset: uint32(m.sent), Total: uint32(len(m.body)), Method: m.method}
	kind := frame.MS
	switch m.kind {
	case kindRequest:
		kind, p.Timeout = frame.RQ, timeout(m.deadline)
		m.call.sent.Store(true)
	case kindResponse:
		kind = frame.RS
	}
	v.End(kind, flags, p.AppendTo(v.Begin(frame.PieceSize)), nil, m.body[m.sent:m.sent+n])
	m.sent += n
	return last
}
