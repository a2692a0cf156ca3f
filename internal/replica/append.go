package replica

import (
	"fmt"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
)

// Acks says which replicas must count before an append is acknowledged.
type Acks int16

// The values of the protocol.
const (
	AcksNone   Acks = 0
	AcksLeader Acks = 1
	AcksAll    Acks = -1
)

// Append is one request's append to one partition. It may be used again after
// Done ran.
type Append struct {
	// LeaderEpoch that the caller believes in, -1: whatever is current.
	LeaderEpoch int32
	Acks        Acks
	// Batches were accepted for the topic. Their bytes must stay untouched until Done.
	Batches record.Accepted
	// MinISR is min.insync.replicas; it counts for AcksAll.
	MinISR int32
	// Done is called exactly once, from any goroutine, and must not block.
	Done func(*Append)

	// Results, valid in Done.
	BaseOffset int64 // -1 on error
	AppendTime int64 // ms under LogAppendTime, else -1
	LogStart   int64
	Err        error // matches an error of this package or of storage

	p     *Partition
	inner storage.Append
	state atomic.Uint32
	// Guarded by Partition.mu while linked.
	next, prev *Append
	queue      *fifo
}

const (
	pending uint32 = iota
	expired        // Expire came while the log was numbering it
	done
)

// fifo is a list of appends that wait, in the order of their offsets. It is
// guarded by Partition.mu.
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

// covered moves the appends at the head that end covers to ready.
func (q *fifo) covered(end int64, ready *fifo) {
	for q.head != nil && q.head.inner.Next <= end {
		a := q.head
		q.remove(a)
		ready.push(a)
	}
}

// lost moves the appends beyond end to ready, with an error.
func (q *fifo) lost(end int64, err error, ready *fifo) {
	for a := q.head; a != nil; {
		next := a.next
		if a.inner.Next > end {
			q.remove(a)
			a.Err = err
			ready.push(a)
		}
		a = next
	}
}

// complete finishes everything in the list. The caller holds no lock.
func (q *fifo) complete() {
	for a := q.head; a != nil; {
		next := a.next
		a.queue, a.prev, a.next = nil, nil, nil
		a.finish(a.Err)
		a = next
	}
}

// Append queues a. It never blocks; a.Done hears of the outcome.
func (p *Partition) Append(a *Append) {
	a.p = p
	a.state.Store(pending)
	a.BaseOffset, a.AppendTime, a.LogStart, a.Err = -1, -1, -1, nil
	role := p.role.Load()
	if err := role.accepts(a); err != nil {
		a.finish(fmt.Errorf("append to %s: %w", p, err))
		return
	}
	a.inner = storage.Append{Batches: a.Batches.Bytes, LeaderEpoch: role.epoch, Sink: a}
	p.log.Append(&a.inner)
}

// Numbered is storage.Sink: the append has its place in the log, or was refused.
func (a *Append) Numbered(*storage.Append) {
	p := a.p
	if a.inner.Err != nil {
		a.finish(a.inner.Err)
		return
	}
	a.BaseOffset, a.AppendTime = a.inner.Base, a.inner.Time
	if a.Acks == AcksNone {
		a.finish(nil)
		return
	}
	p.mu.Lock()
	late := a.state.Load() == expired
	covered := a.inner.Next <= p.condition(a.Acks) // a repetition of what counts already
	if !late && !covered {
		p.queueOf(a.Acks).push(a)
	}
	p.mu.Unlock()
	switch {
	case late:
		a.finish(ErrTimedOut)
	case covered:
		a.finish(nil)
	}
}

// Expire completes the append with ErrTimedOut if nothing else has, and says
// whether it did; if the log is numbering it at this moment, Done follows with that
// error. The records may still be stored; the producer's sequence protects a retry.
func (a *Append) Expire() bool {
	p := a.p
	if p == nil || a.state.Load() == done {
		return false
	}
	if p.log.Cancel(&a.inner) {
		a.finish(fmt.Errorf("append to %s: %w", p, ErrTimedOut))
		return true
	}
	p.mu.Lock()
	if q := a.queue; q == &p.waitLeader || q == &p.waitISR {
		q.remove(a)
		p.mu.Unlock()
		a.finish(fmt.Errorf("append to %s: %w", p, ErrTimedOut))
		return true
	}
	won := a.state.CompareAndSwap(pending, expired)
	p.mu.Unlock()
	return won
}

// finish calls Done, once.
func (a *Append) finish(err error) {
	if a.state.Swap(done) == done {
		return
	}
	if a.p != nil && a.p.log != nil {
		a.LogStart = a.p.log.Ends().LogStart
	}
	if a.Err = err; err != nil {
		a.BaseOffset, a.AppendTime = -1, -1
	}
	a.Done(a)
}
