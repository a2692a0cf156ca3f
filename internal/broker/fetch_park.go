package broker

import (
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A fetch that waits is parked in the purgatory, charged to Options.ParkedBytes.

// maxFetchDelay bounds how long a connection is throttled because its fetch can't be parked.
const maxFetchDelay = time.Second

// partCost is the memory of a part that waits: the part itself, and its key in the purgatory, which
// is a map of its own if no other fetch waits for the partition. opCost is the memory of a fetch
// without its parts.
const (
	partCost = int64(unsafe.Sizeof(fetchPartition{})) + 320
	opCost   = int64(unsafe.Sizeof(fetchOp{})) + 1024
)

const (
	// manyParts is how many partitions a request may have without being charged before it waits.
	manyParts = 256
	// largeSession is how many partitions of its session a request may have without a place.
	largeSession = largeAnswer / partitionAnswer
)

// namedPartitions returns how many partitions a request names.
func namedPartitions(req *kmsg.FetchRequest) (n int) {
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	return n
}

// fill adds the partitions of the request's session. It returns false if it has answered or aborted
// the request instead.
func (op *fetchOp) fill(c *call) bool {
	if op.sess.session == nil {
		return true
	}
	op.unpark() // the session has the partitions that the request names
	if op.sess.members > largeSession && c.place == nil && !c.takePlace() {
		op.recycle()
		return false
	}
	if !op.admit(c, op.sess.members) {
		op.delay = maxFetchDelay
		c.place.end()
		op.respondLater()
		return false
	}
	op.b.sessions.fill(&op.sess, &op.fetchRead)
	return true
}

// admit charges a request that has more than manyParts partitions before it makes parts: an entry
// of about 20 bytes, or none if the partition is in the session, becomes a part of several hundred.
// If Handler.parked cannot hold the parts, admit takes them from Handler.wide; they are released
// when the answer is encoded. It returns false if that memory is in use, or could never hold the
// parts.
func (op *fetchOp) admit(c *call, parts int) bool {
	if parts <= manyParts {
		return true
	}
	n := int64(parts) * partCost
	if n <= op.b.opt.ParkedBytes && op.b.parked.TryAcquire(n) {
		op.parked = n
		return true
	}
	if !c.acquireWide(n) {
		return false
	}
	op.wide = n
	return true
}

// park charges the memory that the fetch holds while it waits, and reports whether the fetch
// may wait. If the budget has too little memory left, the fetch is answered at once and its
// connection is throttled for the time that the client wanted to wait, at most maxFetchDelay:
// otherwise the client would fetch in a loop.
func (op *fetchOp) park(wait time.Duration) bool {
	n := op.cost()
	if !op.b.parked.TryShare(n, 8) {
		op.delay = max(op.delay, min(wait, maxFetchDelay))
		return false
	}
	op.unpark()
	op.parked = n
	return true
}

// unpark releases the memory that the fetch is charged with.
func (op *fetchOp) unpark() {
	op.b.parked.Release(op.parked)
	op.b.wide.Release(op.wide)
	op.parked, op.wide = 0, 0
}

// cost returns the memory that the fetch holds while it waits. The parts of one topic share its
// name.
func (op *fetchOp) cost() int64 {
	n := opCost + int64(len(op.parts))*partCost
	var last *byte
	for i := range op.parts {
		name := op.parts[i].partitionRequest.topic.name
		if at := unsafe.StringData(name); at != last {
			n, last = n+int64(len(name)), at
		}
	}
	return n
}

// TryComplete implements purgatory.Op: it starts the answer if there are enough bytes.
func (op *fetchOp) TryComplete(i int) bool {
	if !op.enough(i) {
		return false
	}
	op.answerNow()
	return true
}

// Expire implements purgatory.Op: the answer has the available records.
func (op *fetchOp) Expire() { op.answerNow() }

// Abandon implements purgatory.ClientOp: there is no client for the answer.
func (op *fetchOp) Abandon() { op.respondEmpty() }
