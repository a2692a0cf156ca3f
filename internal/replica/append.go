package replica

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// Acks selects the replicas that must have an append before it is acknowledged.
type Acks int16

// The values of the protocol.
const (
	AcksNone   Acks = 0
	AcksLeader Acks = 1
	AcksAll    Acks = -1
)

// Append is one request's append to one partition. It may be reused after Done has run.
type Append struct {
	// LeaderEpoch is the caller's leader epoch, -1 for the current one.
	LeaderEpoch int32
	Acks        Acks
	// Kind decides what the log checks: storage.Client, storage.Marker or storage.Coordinator.
	Kind storage.Kind
	// Permit is what the transaction's coordinator said, see storage.Append.
	Permit producers.Permit
	// Sender describes the sender of a Marker.
	Sender producers.Sender
	// Durable: Done also waits until the records are durable on every in-sync replica, whatever
	// the topic's profile, and asks the replicas to sync soon. Only with AcksAll.
	Durable bool
	// Batches were validated for the topic. Their bytes must not change before Done.
	Batches record.Accepted
	// Done is called exactly once, from any goroutine, and must not block.
	Done func(*Append)
	// Assigned, if set, is called before Done, when the records have their offsets, or are a
	// duplicate. The goroutine that commits calls it. It must neither block nor append.
	Assigned func(*Append)

	// Results, valid in Done.
	BaseOffset int64 // -1 on error
	AppendTime int64 // ms under LogAppendTime, otherwise -1
	LogStart   int64
	Err        error // matches an error of this package or of storage

	p     *Partition
	inner storage.Append
	state atomic.Uint32
	// Guarded by Partition.mu while linked.
	next, prev *Append
	queue      *fifo
	overdue    bool // Overdue was called; guarded by Partition.mu
}

// The states of an Append. Whether it is in a queue is independent of them.
const (
	pending  uint32 = iota
	expired         // Expire was called while the log assigned offsets; OffsetsAssigned finishes the append
	resolved        // the outcome is decided; finish follows
	done
)

// fifo is a queue of waiting appends, in the order of their offsets. Guarded by Partition.mu.
type fifo struct{ head, tail *Append }

func (q *fifo) push(a *Append) {
	a.queue, a.prev, a.next = q, q.tail, nil
	if q.tail != nil {
		q.tail.next = a
	} else {
		q.head = a
	}
	q.tail = a
}

func (q *fifo) remove(a *Append) {
	if a.prev != nil {
		a.prev.next = a.next
	} else {
		q.head = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	} else {
		q.tail = a.prev
	}
	a.queue, a.prev, a.next = nil, nil, nil
}

// covered moves the appends at the head that end at or below end to ready. A duplicate behind newer
// appends waits for them, which is late but correct.
func (q *fifo) covered(end int64, ready *decided) {
	for q.head != nil && q.head.inner.Next <= end {
		a := q.head
		q.remove(a)
		ready.add(a, nil)
	}
}

// discardAbove moves the appends that end beyond end to ready, with an error.
func (q *fifo) discardAbove(end int64, err error, ready *decided) {
	for a := q.head; a != nil; {
		next := a.next
		if a.inner.Next > end {
			q.remove(a)
			ready.add(a, err)
		}
		a = next
	}
}

// late moves the overdue appends that end at or below ack to ready, with ErrTimedOut, and reports
// whether others are overdue.
func (q *fifo) late(ack int64, ready *decided) (more bool) {
	for a := q.head; a != nil; {
		next := a.next
		switch {
		case !a.overdue:
		case a.inner.Next <= ack:
			q.remove(a)
			ready.add(a, a.timedOut())
		default:
			more = true
		}
		a = next
	}
	return more
}

// decided is a list of appends that were removed from their queues under Partition.mu and will be
// finished without it. Only its owner may use their links.
type decided struct{ head, tail *Append }

func (d *decided) add(a *Append, err error) {
	a.state.Store(resolved) // from here on Expire has no effect
	a.Err = err
	if d.tail != nil {
		d.tail.next = a
	} else {
		d.head = a
	}
	d.tail = a
}

// finish finishes all appends of the list in order. The caller holds no lock.
func (d *decided) finish() {
	for a := d.head; a != nil; {
		next := a.next // a may be reused after Done
		a.next = nil
		a.finish(a.Err)
		a = next
	}
}

// Refusal returns the error with which an append of a kind with acks=all would be refused now, nil
// if it would be queued. It does not block.
func (p *Partition) Refusal(epoch int32, kind storage.Kind) error {
	if err := p.accepts(p.role.Load(), epoch, AcksAll); err != nil {
		return fmt.Errorf("append to %s: %w", p, err)
	}
	return p.log.Refusal(kind)
}

// Append appends a. The log commits it when batch runs, or at once if batch is nil. Append never
// blocks, and when it returns, nothing of a need be durable or replicated. a.Done receives the
// outcome, possibly before Append returns: without an error, what a.Acks and the durability profile
// ask for holds.
func (p *Partition) Append(a *Append, batch *groupcommit.Batch) {
	a.p, a.overdue = p, false
	a.state.Store(pending)
	a.BaseOffset, a.AppendTime, a.LogStart, a.Err = -1, -1, -1, nil
	role := p.role.Load()
	if err := p.accepts(role, a.LeaderEpoch, a.Acks); err != nil {
		a.finish(fmt.Errorf("append to %s: %w", p, err))
		return
	}
	a.inner = storage.Append{
		Kind: a.Kind, Batches: a.Batches.Bytes, LeaderEpoch: role.epoch, Permit: a.Permit, Sender: a.Sender, Sink: a,
	}
	p.log.Append(&a.inner, batch)
}

// OffsetsAssigned implements storage.Sink. The append has its offsets or was refused.
func (a *Append) OffsetsAssigned(*storage.Append) {
	if a.Assigned != nil && a.inner.Err == nil {
		a.Assigned(a)
	}
	switch {
	case errors.Is(a.inner.Err, storage.ErrFencedEpoch): // the role changed while the append was queued
		a.resolve(fmt.Errorf("%w: %w", ErrNotLeader, a.inner.Err))
		return
	case a.inner.Err != nil:
		a.resolve(a.p.judged(a.inner.Err))
		return
	case a.Acks == AcksNone:
		a.BaseOffset, a.AppendTime = a.inner.Base, a.inner.Time
		a.resolve(nil)
		return
	}
	a.BaseOffset, a.AppendTime = a.inner.Base, a.inner.Time
	if a.durable() {
		a.p.requestSync(a.inner.Next)
	}
	a.await()
}

// judged returns the error of an append that the log has refused. Without a lease another broker
// may lead, and its log may have what this one lacks: batches of the producer, or the end of its
// transaction. A producer that learned here that its sequence is wrong would take that for a loss,
// begin a new epoch, and send again what the other leader has.
func (p *Partition) judged(err error) error {
	if e := p.current(p.role.Load()); e != nil {
		return fmt.Errorf("append to %s: %w; the log says: %w", p, e, err)
	}
	return err
}

// await queues an append that has its offsets until its condition holds, or resolves it at once.
func (a *Append) await() {
	p := a.p
	p.mu.Lock()
	waits, err := p.awaitLocked(a)
	p.mu.Unlock() // if it waits, another goroutine may have finished it by now
	if !waits {
		a.resolve(err)
	}
}

// resolve finishes an append that is in no queue. If Expire was called before, the outcome is
// ErrTimedOut.
func (a *Append) resolve(err error) {
	if !a.state.CompareAndSwap(pending, resolved) {
		err = a.timedOut()
	}
	a.finish(err)
}

func (a *Append) timedOut() error { return fmt.Errorf("append to %s: %w", a.p, ErrTimedOut) }

// Overdue bounds the wait for other replicas, like the timeout of Kafka's Produce requests. As soon
// as the append meets the durability profile of this broker's log, Done is called with ErrTimedOut
// unless enough other replicas have it too. Overdue has no effect unless acks is AcksAll. It must
// not be called before Append has returned or after the append may have been reused.
func (a *Append) Overdue() {
	p := a.p
	if p == nil || a.Acks != AcksAll || a.state.Load() != pending {
		return
	}
	p.mu.Lock()
	a.overdue, p.overdue = true, true
	if a.queue == nil || a.inner.Next > p.log.AckEnd() {
		p.mu.Unlock() // OffsetsAssigned or Advanced finishes it when the log has it
		return
	}
	a.queue.remove(a)
	p.mu.Unlock()
	a.finish(a.timedOut())
}

// Expire ends the append with ErrTimedOut unless its outcome is already decided, and reports
// whether it did. If the log is assigning offsets at this moment, Done follows shortly; otherwise
// Done has run when Expire returns. The records may still be stored; the producer's sequence
// protects a retry. Expire must not be called before Append has returned.
func (a *Append) Expire() bool {
	p := a.p
	if p == nil || a.state.Load() != pending {
		return false
	}
	if p.log.Cancel(&a.inner) {
		a.finish(a.timedOut())
		return true
	}
	p.mu.Lock()
	if a.queue != nil {
		a.queue.remove(a)
		p.mu.Unlock()
		a.finish(a.timedOut())
		return true
	}
	won := a.state.CompareAndSwap(pending, expired)
	p.mu.Unlock()
	return won
}

// finish calls Done once.
func (a *Append) finish(err error) {
	if a.state.Swap(done) == done {
		return
	}
	a.LogStart = a.p.startOf(a.p.log.Ends())
	if a.Err = err; err != nil {
		a.BaseOffset, a.AppendTime = -1, -1
	}
	a.Done(a)
}
