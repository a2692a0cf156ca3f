package broker

import (
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A fetch that waits is parked in the purgatory, counted in Options.ParkedBytes.

// maxFetchDelay bounds how long a connection is throttled whose fetch can't be parked.
const maxFetchDelay = time.Second

// partCost is what a part that waits takes: itself, and its key in the purgatory, which is
// a map of its own where nothing else waits for the partition. opCost is what a fetch takes
// beside its parts.
const (
	partCost = int64(unsafe.Sizeof(fetchPart{})) + 320
	opCost   = int64(unsafe.Sizeof(fetchOp{})) + 1024
)

// manyParts is how many partitions a request may name without being counted before it waits.
const manyParts = 256

// admit reports whether there is room for what a request names, before anything is made of
// it: an entry of some 20 bytes becomes a part of several hundred.
func (op *fetchOp) admit(req *kmsg.FetchRequest) bool {
	n := int64(0)
	for i := range req.Topics {
		n += int64(len(req.Topics[i].Partitions))
	}
	if n <= manyParts {
		return true
	}
	if n *= partCost; n > op.b.opt.ParkedBytes || !op.b.parked.TryAcquire(n) {
		return false
	}
	op.parked = n
	return true
}

// park counts what the fetch holds while it waits. Where there is no room for it the answer
// is due, and its connection is throttled for the time that the client wanted to wait, up to
// a second: otherwise it would ask again at once, and be answered at once.
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

// unpark gives back what is counted.
func (op *fetchOp) unpark() {
	op.b.parked.Release(op.parked)
	op.parked = 0
}

// cost is the memory that the fetch holds while it waits. The parts of one topic share
// its name.
func (op *fetchOp) cost() int64 {
	n := opCost + int64(len(op.parts))*partCost
	var last *byte
	for i := range op.parts {
		name := op.parts[i].fetchAsk.topic.name
		if at := unsafe.StringData(name); at != last {
			n, last = n+int64(len(name)), at
		}
	}
	return n
}

// TryComplete is purgatory.Op's: it starts the answer if there is enough.
func (op *fetchOp) TryComplete(i int) bool {
	if !op.enough(i) {
		return false
	}
	op.answerNow()
	return true
}

// Expire is purgatory.Op's: the answer has what there is.
func (op *fetchOp) Expire() { op.answerNow() }

// Abandon is purgatory.ClientOp's: there is no client for the answer.
func (op *fetchOp) Abandon() { op.respondEmpty() }
