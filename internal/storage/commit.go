package storage

import (
	"fmt"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/pkg/durability"
)

// chunkTarget is the maximum size of a chunk in bytes. Only a single larger append makes a larger
// chunk.
const chunkTarget = 256 << 10

// joinMs is the maximum difference, in milliseconds, between the timestamps of chunks that are
// joined. A segment can only roll between two chunks.
const joinMs = 1000

// Kind is where an append comes from. It decides what the log checks.
type Kind uint8

const (
	// Client is a produce request. The log checks epochs, sequences and transactions.
	Client Kind = iota
	// Assigned is a part of the stream of a leader: batches that have offsets and epochs, or a gap.
	// Offsets that are missing between its batches were removed by a compaction, and stay missing.
	// Only a log that follows accepts such appends. They are accepted as long as the disk has room
	// at all, whatever its reserve is.
	Assigned
	// Marker is one control batch that ends a transaction (record.EndTxnMarker). It is accepted
	// even if the disk has too little space for the records of clients: until it is there, readers
	// of committed records wait, and no segment above can be removed.
	Marker
	// Coordinator is a coordinator's own batches in its internal topic: plain ones, those of
	// transactions and markers, all or none of them. The log checks nothing of their producers: the
	// coordinator has. With a marker the append is accepted like a Marker.
	Coordinator
)

// Append is a request to append the batches of one produce request, of one part of a replication
// stream, or one transaction marker.
type Append struct {
	Kind Kind
	// Batches are whole, validated batches. The log does not change the bytes and does not need
	// them after Sink.OffsetsAssigned.
	Batches []byte
	// LeaderEpoch is the epoch of the leader that accepted the append. The append is refused with
	// ErrFencedEpoch unless the log still has this epoch when its offsets are assigned; see
	// SetLeaderEpoch. It is written into the batches unless Kind is Assigned.
	LeaderEpoch int32
	// Permit is what the coordinator said of the transactional batches of a Client.
	Permit producers.Permit
	// Sender describes the sender of a Marker.
	Sender producers.Sender
	// PrevEnd is the log end of the leader before the append; only for Assigned. The append is
	// refused with ErrGap unless the log ends there. This distinguishes a lost append from offsets
	// that a compaction removed.
	PrevEnd int64
	// GapEnd is set if Kind is Assigned and Batches is empty: the leader has no batches in
	// [PrevEnd, GapEnd), which is not empty, and had GapEpoch there. The log end moves to GapEnd.
	GapEnd   int64
	GapEpoch int32
	// Sink receives the outcome.
	Sink Sink

	// Results, valid from Sink.OffsetsAssigned on.
	Base      int64 // first offset
	Next      int64 // offset after the last one
	Time      int64 // ms under LogAppendTime, otherwise -1
	Duplicate bool  // the batch is already in the log at [Base, Next); nothing was appended
	Err       error // nothing was appended
}

// Sink receives the outcome of appends.
type Sink interface {
	// OffsetsAssigned is called exactly once per Append, in log order, by the goroutine that
	// commits. Either offsets are assigned or Err is set. It must neither block nor append. The
	// records count only when the log's ends pass Next.
	OffsetsAssigned(*Append)
}

// queueState is a log's append queue and the right to commit. No goroutine is dedicated to a log: a
// caller that finds no commit in progress commits.
type queueState struct {
	queueMu    sync.Mutex
	freed      *sync.Cond // signaled when committing becomes false, or onLoan true
	queue      []*Append
	spare      []*Append // the previous group's slice, for reuse
	committing bool
	onLoan     bool // see lendCommit
	waiters    int  // goroutines that wait in acquireCommit
	markers    int  // queued appends of kind Marker
}

func (q *queueState) init() { q.freed = sync.NewCond(&q.queueMu) }

// Append queues a. It is committed when batch runs, together with everything that is queued by
// then: these appends share a chunk, a journal entry and a wake-up. If batch is nil, Append commits
// it at once, or leaves it to the goroutine that is committing. Offsets are assigned in the order
// of a caller's calls. Append does not block; a.Sink may receive the outcome before Append returns.
// Nothing is durable when it returns.
func (l *Log) Append(a *Append, batch *groupcommit.Batch) {
	l.queueMu.Lock()
	l.queue = append(l.queue, a)
	if a.Kind == Marker {
		l.markers++
	}
	l.queueMu.Unlock()
	if batch != nil {
		batch.Add(l)
	} else {
		l.Commit(nil)
	}
}

// Commit implements groupcommit.Committer. It commits the queued appends unless another goroutine
// is committing. The journal writes them when batch runs, or soon if batch is nil. Nothing is
// durable when it returns.
func (l *Log) Commit(batch *groupcommit.Batch) {
	l.queueMu.Lock()
	if l.committing || l.waiters > 0 || len(l.queue) == 0 {
		l.queueMu.Unlock()
		return
	}
	l.committing = true
	l.queueMu.Unlock()
	l.commit(batch)
}

// acquireCommit acquires the right to commit, and waits for the goroutine that has it, unless that
// has lent it. Until releaseCommit no other goroutine commits. The caller must not hold the log's
// flushMu.
func (l *Log) acquireCommit() {
	l.queueMu.Lock()
	l.waiters++
	for l.committing && !l.onLoan {
		l.freed.Wait()
	}
	l.waiters--
	l.committing, l.onLoan = true, false
	l.queueMu.Unlock()
}

// lendCommit lets the next caller of acquireCommit take over the right to commit from the caller,
// which must call reclaimCommit. Until then no append is committed.
func (l *Log) lendCommit() {
	l.queueMu.Lock()
	defer l.queueMu.Unlock()
	l.onLoan = true
	l.freed.Broadcast()
}

// reclaimCommit ends lendCommit. It reports whether the caller still has the right to commit.
func (l *Log) reclaimCommit() bool {
	l.queueMu.Lock()
	defer l.queueMu.Unlock()
	still := l.onLoan
	l.onLoan = false
	return still
}

// tryAcquireCommit acquires the right to commit if it is free and the queue is empty.
func (l *Log) tryAcquireCommit() bool {
	l.queueMu.Lock()
	defer l.queueMu.Unlock()
	if l.committing || l.waiters > 0 || len(l.queue) > 0 {
		return false
	}
	l.committing = true
	return true
}

// releaseCommit releases the right to commit and commits what was queued in the meantime.
func (l *Log) releaseCommit() { l.commit(nil) }

// commit commits the queue in groups of one chunk each until the queue is empty. The caller has the
// right to commit. Nothing is durable when it returns.
func (l *Log) commit(batch *groupcommit.Batch) {
	for {
		l.queueMu.Lock()
		if l.waiters > 0 {
			l.committing = false
			l.freed.Broadcast()
			l.queueMu.Unlock()
			return
		}
		// An append that is going to be refused needs no memory and must not wait for it.
		next := everything
		if len(l.queue) == 0 {
			next = nothing
		} else if l.refusal(l.queue[0]) == nil {
			next = l.admittedLocked()
		}
		if next == nothing {
			l.committing = false
			l.queueMu.Unlock()
			return
		}
		group, size := l.takeLocked(next)
		l.queueMu.Unlock()

		take := group
		if l.Refusal(Client) != nil { // what refuses no batch of a client refuses nothing
			take = l.refuse(group)
		}
		if len(take) > 0 {
			l.commitGroup(take, size, batch)
		}

		clear(group)
		l.queueMu.Lock()
		l.spare = group[:0]
		l.queueMu.Unlock()
	}
}

// commitGroup assigns offsets to a group of appends in order, copies the accepted ones into one
// chunk, and submits the chunk to the journal. Their Sinks learn the offsets, which are not durable
// yet: a failed write takes them back (Observer.Reverted).
func (l *Log) commitGroup(group []*Append, size int, batch *groupcommit.Batch) {
	now := time.Now()
	c := l.newChunk(size, now)
	l.producersMu.Lock()
	for _, a := range group {
		a.Err = l.assignOffsets(c, a, now)
	}
	l.noteUnstableLocked()
	l.producersMu.Unlock()
	accepted := c.next > c.base
	if accepted {
		l.dir.guard.count(len(c.data))
		l.publish(c)
	} else {
		l.dir.memory.release(c)
	}
	for _, a := range group {
		a.Sink.OffsetsAssigned(a)
	}
	if accepted {
		l.observer().Appended(batch)
		l.handOver(c, batch)
	}
}

func (l *Log) newChunk(size int, now time.Time) *chunk {
	c := l.dir.memory.alloc(l, size)
	end := l.logEnd.Load()
	c.base, c.next, c.maxTs, c.queued = end, end, -1, now
	return c
}

// assignOffsets checks a's batches, assigns their offsets and copies them into the chunk: all of
// them or none. The caller holds producersMu.
func (l *Log) assignOffsets(c *chunk, a *Append, now time.Time) error {
	if err := l.fenced(a); err != nil {
		return err
	}
	a.Duplicate, a.Time = false, -1
	if a.Kind == Assigned {
		if err := l.continues(c.next, a); err != nil {
			return err
		}
	}
	if a.Kind != Assigned {
		if err := l.check(a); err != nil || a.Duplicate {
			return err
		}
	}
	if a.isGap() {
		l.assignGap(c, a)
		return nil
	}
	at := len(c.data)
	c.data = append(c.data, a.Batches...)
	for p := c.data[at:]; len(p) > 0; {
		b, rest, _ := record.Next(p)
		p = rest
		l.assignBatch(c, a, b, now)
		if len(c.data)-len(rest) == at+len(b) {
			a.Base = b.BaseOffset()
		}
	}
	a.Next = c.next
	return nil
}

// check checks the batches of an append that come from no leader. It sets a's results if they are
// in the log already. The caller holds producersMu.
func (l *Log) check(a *Append) error {
	for p := a.Batches; len(p) > 0; {
		b, rest, err := record.Next(p)
		if err != nil {
			return fmt.Errorf("append to %s: %w", l, err)
		}
		p = rest
		var d producers.Duplicate
		var dup bool
		switch a.Kind {
		case Client:
			d, dup, err = l.producers.Check(b, a.Permit)
		case Marker:
			d, dup, err = l.producers.CheckMarker(b, a.Sender)
		}
		if err != nil {
			return fmt.Errorf("append to %s: %w", l, err)
		}
		if dup {
			a.Duplicate, a.Base, a.Next = true, d.BaseOffset, d.LastOffset+1
			if b.LogAppendTime() {
				a.Time = d.Timestamp
			}
			return nil
		}
	}
	return nil
}

func (a *Append) isGap() bool { return a.Kind == Assigned && len(a.Batches) == 0 }

// assignGap moves the log end over a gap. The caller holds producersMu.
func (l *Log) assignGap(c *chunk, a *Append) {
	c.gap, c.epoch = true, a.GapEpoch
	a.Base, a.Next, c.next = c.base, a.GapEnd, a.GapEnd
	l.logEnd.Store(a.GapEnd)
	l.epochs.Assign(a.GapEpoch, c.base)
	l.dir.memory.charge(c, gapSize)
}

// assignBatch assigns offsets to a batch in the chunk.
func (l *Log) assignBatch(c *chunk, a *Append, b record.Batch, now time.Time) {
	n := int64(b.LastOffsetDelta()) + 1
	if a.Kind == Assigned {
		l.logEnd.Store(b.BaseOffset() + n)
		l.epochs.Assign(b.LeaderEpoch(), b.BaseOffset())
	} else {
		base := l.logEnd.Add(n) - n
		b.SetBaseOffset(base)
		b.SetLeaderEpoch(a.LeaderEpoch)
		l.epochs.Assign(a.LeaderEpoch, base)
	}
	l.producers.Add(b, now)
	c.next = b.BaseOffset() + n
	c.records += int(b.Records())
	c.maxTs = max(c.maxTs, b.MaxTimestamp())
	if b.LogAppendTime() {
		a.Time = b.MaxTimestamp()
	}
}

// publish adds the chunk to the log's tail.
func (l *Log) publish(c *chunk) {
	l.mu.Lock()
	c.ready = l.dir.opt.broken.has(notDurable)
	l.tail.add(c)
	all, fewer := l.countDebtLocked()
	l.mu.Unlock()
	if fewer {
		l.dir.debts.resume(all)
	}
}

// handOver submits the chunk to the journal. The journal holds its own reference to the bytes until
// Written or Durable, so they do not change while it writes, even if the log drops the chunk. They
// need not be written when it returns.
func (l *Log) handOver(c *chunk, batch *groupcommit.Batch) {
	if c.ready { // only in tests that disable a rule
		l.dir.schedule(l)
	}
	cfg := l.cfg.Load()
	c.entry = journal.Entry{
		Stream: l.stream, Type: journal.Batches, Payload: c.data, PrevEnd: c.base, NextEnd: c.next,
		Records: c.records, Profile: &cfg.Profile, Internal: cfg.Cleanup.Internal, Owner: c,
	}
	if c.gap {
		c.entry.Type, c.entry.Epoch = journal.Gap, l.storedEpoch(c.epoch)
	}
	c.buf.Retain()
	if err := l.dir.journal.Submit(batch, &c.entry); err != nil {
		// The journal has failed. The directory is about to revert every log, including this chunk,
		// to its acknowledged end.
		c.buf.Release()
	}
}

// chunkWritten is called by the journal when the chunk's frame is written.
func (l *Log) chunkWritten(c *chunk) {
	end := c.next
	l.journaled(c, false)
	l.dir.unsynced.add(l)
	// If the profile has changed since the chunk was submitted, the record waits for a datasync,
	// even if the profile has changed again in the meantime.
	if l.written.Load() < end || l.durable.Load() < l.syncTo.Load() {
		l.dir.journal.Sync()
	}
	l.observer().Advanced()
}

// chunkDurable is called by the journal when the chunk's frame and all frames before it are
// durable.
func (l *Log) chunkDurable(c *chunk) {
	l.durableAdvanced(l.journaled(c, true))
}

// journaled records that the chunk is in the journal, and joins it to the previous chunk if
// possible; c must not be used afterwards. It reports whether the log has enough data in memory for
// a flush.
func (l *Log) journaled(c *chunk, durable bool) (flush bool) {
	l.dir.observeWait(c)
	limits := &l.cfg.Load().Segment
	l.mu.Lock()
	c.setLSN(c.entry.LSN)
	c.firstTs = c.maxTs
	early := c.ready // a flusher may hold it already, but only in tests that disable a rule
	switch {
	case durable:
		l.tail.durable(c.last)
		l.durable.Store(c.next)
	case l.cfg.Load().Profile.Ack == durability.Written: // otherwise no checkpoint may have the log's mark
		l.written.Store(c.next)
	}
	joined := !early && l.tail.join(c, limits.Bytes/2, min(limits.Ms, joinMs))
	flush = l.tail.unflushedBytes() >= flushAt
	l.mu.Unlock()
	if joined {
		l.dir.memory.joined(c)
		if l.debt.owed.Load() > 0 {
			l.countDebt()
		}
	}
	return flush
}

// unsyncedLogs are the logs with chunks that are written and not known to be durable. Only the
// journal's callbacks use it, and they run one at a time.
type unsyncedLogs []*Log

func (u *unsyncedLogs) add(l *Log) {
	if !l.unsynced {
		l.unsynced = true
		*u = append(*u, l)
	}
}

// durableThrough is called by the journal when all frames up to an LSN are durable.
func (d *Dir) durableThrough(lsn journal.LSN) {
	logs := d.unsynced
	d.unsynced = nil
	for _, l := range logs {
		l.mu.Lock()
		end, rest := l.tail.durable(lsn)
		moved := end > l.durable.Load()
		if moved {
			l.durable.Store(end)
		}
		flush := l.tail.unflushedBytes() >= flushAt
		l.mu.Unlock()
		l.unsynced = false
		if rest {
			d.unsynced.add(l)
		}
		if moved {
			l.durableAdvanced(flush)
		}
	}
	d.syncedLSN.Store(uint64(lsn))
}

// durableAdvanced notifies the observer that the durable end advanced, and schedules a flush if it
// is worth a write. The end and the state of the chunks changed together under mu, so readers see
// both or neither.
func (l *Log) durableAdvanced(flush bool) {
	l.observer().Advanced()
	if flush || l.dir.memory.nearLimit() || l.dir.overdue(l) {
		l.dir.schedule(l)
	}
}
