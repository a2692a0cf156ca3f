package gate

import (
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// queue has the batches of a producer that wait in a partition, oldest first. It is guarded by the
// lock of its shard.
type queue struct {
	key
	shard      *shard
	name       txn.Partition
	head, tail *Entry
	n          int
	// round asks for the queue; nil while none does.
	round *round
	guard *producers.Guard
	// granted is the producer to whom the last answer said yes, in an epoch of its coordinator. The
	// zero value: none.
	granted          Producer
	coordinatorEpoch int32
	// opening is the batch that is on its way into the log to begin the transaction.
	opening *try
	// advancing: a goroutine is in advance, or about to be.
	advancing bool
	closed    bool // the queue is no longer in the shard
}

func (q *queue) push(e *Entry) {
	e.state, e.prev, e.next = waiting, q.tail, nil
	if q.tail != nil {
		q.tail.next = e
	} else {
		q.head = e
	}
	q.tail = e
	q.count(1)
}

// pushFront returns a batch to its place.
func (q *queue) pushFront(e *Entry) {
	e.state, e.prev, e.next = waiting, nil, q.head
	if q.head != nil {
		q.head.prev = e
	} else {
		q.tail = e
	}
	q.head = e
	q.count(1)
}

func (q *queue) remove(e *Entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		q.head = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		q.tail = e.prev
	}
	e.prev, e.next, e.state = nil, nil, ended
	q.count(-1)
}

func (q *queue) count(d int) {
	q.n += d
	q.shard.gate.waiting.Add(int64(d))
}

// pop removes the oldest batch.
func (q *queue) pop() *Entry {
	e := q.head
	q.remove(e)
	return e
}

// closeIfIdle removes the queue if no batch is in it. An answer that arrives later counts for
// nothing.
func (q *queue) closeIfIdle() {
	if q.head != nil || q.opening != nil || q.closed {
		return
	}
	q.closed, q.round = true, nil
	delete(q.shard.queues, q.key)
	if q.guard != nil {
		q.partition.Log().Unguard(q.id, q.guard)
	}
}

// opened notes that the batch that was to begin the transaction is numbered or refused. If others
// wait, it starts a goroutine that advances the queue: this one may be in the log, and must not
// append. Gate.Close waits for that goroutine. None starts after Close has emptied the queue.
func (q *queue) opened() {
	q.opening = nil
	if q.advancing {
		return
	}
	if q.closeIfIdle(); !q.closed {
		q.advancing = true
		q.shard.gate.running.Go(q.run)
	}
}

// run advances the queue as far as it can.
func (q *queue) run() {
	for {
		var batch groupcommit.Batch
		if !q.advance(&batch) {
			return
		}
		batch.HandOff()
	}
}

// advance passes batches to the log, or asks the coordinator for the oldest one. It reports whether
// it passed any: then the caller must run the batch and call it again. Only one goroutine at a time
// calls it, the one that has set advancing.
func (q *queue) advance(batch *groupcommit.Batch) bool {
	q.shard.mu.Lock()
	if q.closeIfIdle(); q.closed || q.opening != nil {
		q.advancing = false
		q.shard.mu.Unlock()
		return false
	}
	var run []*try
	switch first := q.head.from; {
	case q.shard.holders.allow(q.key, first) && q.open(first.Epoch), q.late(first.Epoch):
		for q.head != nil && q.head.from == first {
			run = append(run, q.pop().attempt(producers.Permit{Bumps: first.Bumps}))
		}
	case q.granted == first:
		q.opening = q.pop().attempt(producers.Permit{Guard: q.guard, CoordinatorEpoch: q.coordinatorEpoch, Bumps: first.Bumps})
		run = []*try{q.opening}
	default:
		q.advancing = false
		next := q.ask(first)
		tries := q.head.tries
		q.shard.mu.Unlock()
		next.after(pauseAfter(tries))
		return false
	}
	q.shard.mu.Unlock()
	for _, t := range run {
		t.enter(batch)
	}
	return true
}

// ask makes a round for this queue alone.
func (q *queue) ask(from Producer) *round {
	q.round = &round{gate: q.shard.gate, from: from, queues: []*queue{q}}
	return q.round
}
