package gate

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/storage"
)

// round asks the coordinator for one producer in one or more partitions, until the answer is final
// or no batch waits for it. A queue that has another round, or is closed, has left.
type round struct {
	gate     *Gate
	from     Producer
	queues   []*queue
	failures int // answers in a row that were not final
}

// after asks after a pause, on another goroutine. After Close, no batch waits for the answer, which
// then counts for nothing.
func (r *round) after(d time.Duration) { time.AfterFunc(d, r.ask) }

// pauseAfter returns the pause after n outdated answers.
func pauseAfter(n int) time.Duration {
	if n < 2 {
		return 0
	}
	return backoff.After(n - 1)
}

// ask asks the coordinator. The guards are older than the question: nothing that happens in the log
// between the answer and the append remains unnoticed.
func (r *round) ask() {
	q := Question{ID: r.from.TransactionalID, ProducerID: r.from.ID, Epoch: r.from.Epoch, Add: r.from.Bumps}
	var ended refused
	r.queues = slices.DeleteFunc(r.queues, func(x *queue) bool { return !x.guarded(r, &q, &ended) })
	ended.finish()
	if len(r.queues) > 0 {
		r.gate.coordinators.Ask(q, r.answered)
	}
}

// guarded adds the queue to a question, with a new or the present guard, unless it has left. If the
// guard of an earlier question is destroyed, its batches may be of a transaction that has ended;
// their epoch tells if they have one of their own. Otherwise they end.
func (q *queue) guarded(r *round, to *Question, ended *refused) bool {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if q.round != r {
		return false
	}
	p := q.partition
	before := q.guard
	q.guard = p.Log().Guard(q.id)
	if before != nil && before != q.guard && !r.from.Bumps {
		q.refuse(r.from, errOutdated(r.from, storage.ErrUnverified), ended)
		if q.closeIfIdle(); !q.closed {
			q.ask(q.head.from).after(0)
		}
		return false
	}
	for e := q.head; e != nil; e = e.next {
		if e.deadline.After(to.Deadline) {
			to.Deadline = e.deadline
		}
	}
	to.Partitions = append(to.Partitions, txn.AddedPartition{Partition: q.name, TopicID: p.Log().ID().Topic})
	return true
}

// isFinal reports whether asking again can't change an answer.
func isFinal(err *kerr.Error) bool {
	switch err {
	case kerr.InvalidProducerIDMapping, kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.TransactionAbortable:
		return true
	}
	return false
}

// answered receives the answer for all queues. The first batches of those that are permitted share
// their commits: a transaction that begins in many partitions is one write.
func (r *round) answered(a Answer) {
	r.failures++
	wait := backoff.After(r.failures)
	var decided, again []*queue
	var alone []*round
	var ended refused
	for i, q := range r.queues {
		err := a.of(i)
		q.shard.mu.Lock()
		switch {
		case q.round != r:
		case err == nil:
			q.round, q.granted, q.coordinatorEpoch, q.advancing = nil, r.from, a.CoordinatorEpoch, true
			decided = append(decided, q)
		case isFinal(err):
			q.refuse(r.from, errRefused(r.from, err), &ended)
			q.round, q.granted, q.advancing = nil, Producer{}, true
			decided = append(decided, q) // those behind may be of another epoch
		default:
			q.giveUp(time.Now().Add(wait), err, &ended)
			switch q.closeIfIdle(); {
			case q.closed:
			// A coordinator that knows no such partition has refused all of them.
			case q.head.from != r.from, err == kerr.UnknownTopicOrPartition && len(r.queues) > 1:
				alone = append(alone, q.ask(q.head.from))
			default:
				again = append(again, q)
			}
		}
		q.shard.mu.Unlock()
	}
	advance(decided)
	ended.finish()
	for _, x := range alone {
		x.after(wait)
	}
	if r.queues = again; len(again) > 0 {
		r.after(wait)
	}
}

// advance advances queues as far as they can.
func advance(queues []*queue) {
	var batch groupcommit.Batch
	queues = slices.DeleteFunc(queues, func(q *queue) bool { return !q.advance(&batch) })
	batch.HandOff()
	for _, q := range queues {
		q.run()
	}
}

// refuse ends the batches at the head that are the producer's.
func (q *queue) refuse(from Producer, err error, to *refused) {
	for q.head != nil && q.head.from == from {
		to.add(q.pop(), err)
	}
}

// giveUp ends the batches that can't wait until then.
func (q *queue) giveUp(then time.Time, err *kerr.Error, to *refused) {
	for e := q.head; e != nil; {
		next := e.next
		if !e.deadline.After(then) {
			q.remove(e)
			to.add(e, errUnanswered(e.from, err))
		}
		e = next
	}
}
