package replica

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/metadata"
)

// A topic whose profile acknowledges written records promises less to its producers than a
// transaction does: what was committed is there after a loss of power of all replicas. So the
// markers of transactions, and the records before a commit, wait until every in-sync replica has
// them durably. Nothing of such a topic waits otherwise, and its logs sync when they like; a waiter
// has them all sync, see SyncTo.

// durable reports whether an append waits for durable records.
func (a *Append) durable() bool { return a.Durable && a.Acks == AcksAll }

// DurableHigh returns the offset below which records are committed, and durable on every in-sync
// replica, whatever the profile of the topic; -1 if this broker does not lead, or does not know.
func (p *Partition) DurableHigh() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.durableHigh()
}

// durableHigh is DurableHigh for a caller that holds mu.
func (p *Partition) durableHigh() int64 {
	if p.lead == nil {
		return -1
	}
	return min(p.high.Load(), p.lead.Durable(p.log.Ends().Durable))
}

// SyncTo returns the end of the records that the followers are to make durable soon, although the
// profile of the topic may not ask for it. It grows during a leadership.
func (p *Partition) SyncTo() int64 { return p.syncTo.Load() }

// requestSync has all replicas make the records below end durable soon.
func (p *Partition) requestSync(end int64) {
	for now := p.syncTo.Load(); now < end; now = p.syncTo.Load() {
		p.syncTo.CompareAndSwap(now, end)
	}
	p.log.Sync(end)
}

// Flush makes everything in the log at this moment durable on every in-sync replica, before the
// commit of a transaction of a producer. Success means that this broker has led in leaderEpoch all
// the time: what an earlier or later leader lacks is not durable, and the caller, who knows the
// epoch from its metadata, sees there what may be lost. Flush does not block. done is called once,
// from any goroutine and possibly before Flush returns. Its error matches those of Append; then
// nothing is known.
func (p *Partition) Flush(leaderEpoch int32, producer int64, epoch int16, done func(error)) {
	a := &Append{LeaderEpoch: leaderEpoch, Acks: AcksAll, Durable: true, p: p}
	a.Done = func(a *Append) {
		err := a.Err
		if err == nil { // the role may have changed before the append had its place
			err = p.role.Load().check(leaderEpoch)
		}
		if err != nil {
			err = fmt.Errorf("flush before a commit of producer %d, epoch %d: %w", producer, epoch, err)
		}
		done(err)
	}
	role := p.role.Load()
	if err := p.accepts(role, a.LeaderEpoch, a.Acks); err != nil {
		a.finish(fmt.Errorf("%s: %w", p, err))
		return
	}
	a.inner.Next = p.log.Ends().LogEnd
	p.requestSync(a.inner.Next)
	p.moved() // the followers get no records with which they would learn SyncTo
	a.await()
}

// LostSince reports whether acknowledged records may have been lost after an epoch: a later one
// began with a leader that may lack some.
func (p *Partition) LostSince(epoch int32) bool { return p.role.Load().unclean > epoch }

// RiseSince returns by how much the leader epoch of the last such loss is above an epoch, if the
// metadata was restored in between: clients may know what was written after the copy was made.
// Otherwise it returns 0.
func (p *Partition) RiseSince(epoch int32) int32 {
	lost := p.role.Load().unclean
	if lost <= epoch || !metadata.Raised(epoch, lost) {
		return 0
	}
	return lost - epoch
}

// condition returns the end for which an append waits. The caller holds mu.
func (p *Partition) condition(a *Append) int64 {
	switch {
	case a.durable():
		return p.durableHigh()
	case a.Acks == AcksAll:
		return p.high.Load()
	}
	return p.log.AckEnd()
}

func (p *Partition) queueOf(a *Append) *fifo {
	switch {
	case a.durable():
		return &p.waitDurable
	case a.Acks == AcksAll:
		return &p.waitISR
	}
	return &p.waitLeader
}

// discardAbove moves all appends that end beyond end to ready, with an error. The caller holds mu.
func (p *Partition) discardAbove(end int64, err error, ready *decided) {
	p.waitLeader.discardAbove(end, err, ready)
	p.waitISR.discardAbove(end, err, ready)
	p.waitDurable.discardAbove(end, err, ready)
}

// discardUncommitted moves the appends that wait for other replicas to ready, with an error. The
// caller holds mu.
func (p *Partition) discardUncommitted(err error, ready *decided) {
	p.waitISR.discardAbove(p.high.Load(), err, ready)
	p.waitDurable.discardAbove(p.durableHigh(), err, ready)
}
