package gate

import (
	"errors"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// Entry is a batch that waits at the gate, or has waited. It is not reused, so that its methods may
// be called at any time: they have no effect on a batch that has ended.
type Entry struct {
	queue    *queue
	to       *replica.Append // of the caller, who may reuse it after its Done
	from     Producer
	client   Client
	deadline time.Time

	// Guarded by the lock of the queue's shard.
	prev, next       *Entry // in the queue, while it waits
	state            state
	try              *try
	tries            int  // that the log refused, because the answer was outdated
	overdue, expired bool // Overdue, Expire were called after it had left the queue
}

type state uint8

const (
	waiting  state = iota
	entering       // a goroutine is in Partition.Append
	entered        // the partition has it
	ended          // its Done was called, or is about to be
)

// try is a batch on its way into the log. It is not the caller's Append, so that an Expire that
// comes late meets nothing that is reused.
type try struct {
	replica.Append
	entry *Entry
}

// attempt makes a try of a batch that has left the queue. The caller holds the lock, and must call
// enter without it.
func (e *Entry) attempt(permit producers.Permit) *try {
	e.state = entering
	e.try = &try{entry: e, Append: replica.Append{LeaderEpoch: e.to.LeaderEpoch, Acks: e.to.Acks, Kind: e.to.Kind, Durable: e.to.Durable,
		Batches: e.to.Batches, Permit: permit}}
	e.try.Done, e.try.Assigned = e.try.done, e.try.assigned
	return e.try
}

// enter passes a try to its partition. The caller must not hold the lock.
func (t *try) enter(batch *groupcommit.Batch) {
	e := t.entry
	e.queue.partition.Append(&t.Append, batch)
	mu := &e.queue.shard.mu
	mu.Lock()
	if e.state != entering || e.try != t {
		mu.Unlock()
		return
	}
	e.state = entered
	overdue, expired := e.overdue, e.expired
	mu.Unlock()
	switch {
	case expired:
		t.Expire()
	case overdue:
		t.Overdue()
	}
}

// assigned is called by the goroutine that commits: the batch has its offsets.
func (t *try) assigned(*replica.Append) {
	e, q := t.entry, t.entry.queue
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if q.opening == t {
		q.shard.holders.add(q.key, e.from, e.client)
		q.opened()
	}
}

// done receives the outcome. A batch that was to begin the transaction, and met an outdated answer
// of the coordinator, returns to its place.
//
// Without an epoch for each transaction it must not: its transaction may have ended, and the
// coordinator would then permit it in the next one. The sender repeats it if it still wants it.
func (t *try) done(*replica.Append) {
	e, q := t.entry, t.entry.queue
	err := t.Err
	q.shard.mu.Lock()
	opening := q.opening == t
	outdated := opening && errors.Is(err, storage.ErrUnverified)
	var stale refused
	switch {
	case !outdated:
	case q.shard.gate.closed.Load():
		err = errClosed()
	case e.overdue || e.expired:
		err = replica.ErrTimedOut
	case !e.from.Bumps:
		err = errOutdated(e.from, err)
		q.refuse(e.from, err, &stale)
	case e.tries+1 >= maxTries:
		err = errOutdated(e.from, err)
	default:
		e.tries++
		q.granted = Producer{}
		q.pushFront(e)
	}
	again := e.state == waiting
	if !again {
		e.state = ended
	}
	if opening {
		q.opened()
	}
	q.shard.mu.Unlock()
	if again {
		return
	}
	stale.finish()
	if err != nil {
		fail(e.to, err)
		return
	}
	e.to.BaseOffset, e.to.AppendTime, e.to.LogStart, e.to.Err = t.BaseOffset, t.AppendTime, t.LogStart, nil
	e.to.Done(e.to)
}

// fail ends a caller's append with an error.
func fail(a *replica.Append, err error) {
	a.BaseOffset, a.AppendTime, a.LogStart, a.Err = -1, -1, -1, err
	a.Done(a)
}

// Overdue is Append.Overdue of package replica: a batch that still waits for the coordinator ends
// with replica.ErrTimedOut.
func (e *Entry) Overdue() { e.end(replica.ErrTimedOut, &e.overdue, (*replica.Append).Overdue) }

// Expire is Append.Expire of package replica.
func (e *Entry) Expire() {
	e.end(replica.ErrTimedOut, &e.expired, func(a *replica.Append) { a.Expire() })
}

// Leave ends the batch if it still waits, because its sender has gone.
func (e *Entry) Leave() { e.end(errGone(), nil, nil) }

// end ends the batch if it waits. Otherwise it sets the mark, and calls late if the partition has
// the batch.
func (e *Entry) end(err error, mark *bool, late func(*replica.Append)) {
	q := e.queue
	q.shard.mu.Lock()
	if e.state == waiting {
		q.remove(e)
		q.closeIfIdle()
		q.shard.mu.Unlock()
		fail(e.to, err)
		return
	}
	if mark != nil {
		*mark = true
	}
	state, t := e.state, e.try
	q.shard.mu.Unlock()
	if late != nil && state == entered {
		late(&t.Append)
	}
}

// refused is a list of batches that were removed from their queues under the lock and are ended
// without it.
type refused struct {
	entries []*Entry
	errs    []error
}

func (r *refused) add(e *Entry, err error) {
	r.entries, r.errs = append(r.entries, e), append(r.errs, err)
}

func (r *refused) finish() {
	for i, e := range r.entries {
		fail(e.to, r.errs[i])
	}
}
