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

// manyParts is how many partitions a request may name without being charged before it waits.
const manyParts = 256

// admit charges a request that names more than manyParts partitions before it makes parts:
// an entry of about 20 bytes becomes a part of several hundred. If Handler.parked cannot hold the
// parts, admit takes them from Handler.wide; they are released when the answer is encoded. It
// returns false if that memory is in use, or could never hold the parts.
func (op *fetchOp) admit(c *call, req *kmsg.FetchRequest) bool {
	n := int64(0)
	for i := range req.Topics {
		n += int64(len(req.Topics[i].Partitions))
	}
	if n <= manyParts {
		return true
	}
	if n *= partCost; n <= op.b.opt.ParkedBytes && op.b.parked.TryAcquire(n) {
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
