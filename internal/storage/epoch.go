package storage

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// noEpoch is the leader epoch of a log that has no role yet.
const noEpoch = -1

// fence is the role in which a log accepts appends (see loglife), and its epoch. It is compared
// with every append when the append's offsets are assigned, so an append that waited in the queue
// during a change of the role cannot follow records of the next epoch. Guarded by Log.producersMu.
type fence struct {
	epoch int32
	role  loglife.Role
}

// onRole records an event of the role: every role has all of them. The caller holds producersMu.
func (l *Log) onRole(e loglife.RoleEvent) {
	l.fence.role, _ = l.fence.role.On(e)
}

// Only is the role in which a change of a log was decided. Another leader may need another change,
// so the log refuses it with ErrFencedEpoch when the role has changed. The zero value permits any.
type Only struct {
	Is    bool
	Epoch int32
	Leads bool
}

// presentRole returns the role that the log has now.
func (l *Log) presentRole() Only {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return Only{Is: true, Epoch: l.fence.epoch, Leads: l.fence.role.Allows(loglife.Leads)}
}

// onlyLocked returns an error unless the log has a role. The caller holds producersMu.
func (l *Log) onlyLocked(o Only) error {
	if f := l.fence; o.Is && (f.epoch != o.Epoch || f.role.Allows(loglife.Leads) != o.Leads) && !l.dir.opt.broken.has(moveAnyStart) {
		return fmt.Errorf("%w: the log has epoch %d, and leads: %t", ErrFencedEpoch, f.epoch, f.role.Allows(loglife.Leads))
	}
	return nil
}

// mayChange is onlyLocked for a caller that does not hold producersMu.
func (l *Log) mayChange(o Only) error {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return l.onlyLocked(o)
}

// SetLeaderEpoch sets the leader epoch and the role of the log: it leads, or follows another
// broker. The caller must call it for every change of a partition's leader. From then on the log
// accepts only appends of this epoch, of kind Assigned if it follows, of the others if it leads.
// Every other append is refused with ErrFencedEpoch, including those that are queued. A log that
// was opened or created accepts no appends before the first call.
//
// An epoch that is not above the current one is ignored, because a leader epoch never returns. A
// log that holds records of a later epoch accepts no appends under an earlier one.
//
// The epoch of a leader begins at its log end (KIP-101). A follower learns the starts of epochs
// from the records of its leader; an epoch in which it led itself without a record is forgotten.
//
// SetLeaderEpoch does not wait for the disk or for the commit in progress.
func (l *Log) SetLeaderEpoch(epoch int32, leads bool) {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	if epoch <= l.fence.epoch {
		return
	}
	end := l.logEnd.Load()
	l.producers.DropGuards()
	l.fence.epoch = epoch
	if !leads {
		l.epochs.CutEnd(end)
		l.onRole(loglife.Follow)
		return
	}
	if epoch < l.epochs.Latest() {
		l.onRole(loglife.LeadBehind)
	} else {
		l.onRole(loglife.Lead)
	}
	l.epochs.Assign(epoch, end)
}

// LeaderEpoch returns the epoch of the log's role, negative if it has none yet. The log may hold
// records of a later epoch, whose leader this broker did not follow.
func (l *Log) LeaderEpoch() int32 {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return l.fence.epoch
}

// ResumeEpoch lets a leading log accept appends again in its epoch after records were discarded
// (Observer.Reverted). It has no effect in another epoch. It is only safe if no other replica can
// hold the discarded records, that is, if this broker is the only replica. Otherwise two replicas
// could have different records of one epoch at the same offset, and a new epoch is needed.
func (l *Log) ResumeEpoch(epoch int32) {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	if f := l.fence; f.role.Allows(loglife.Leads) && f.epoch == epoch && epoch >= l.epochs.Latest() {
		l.onRole(loglife.Resumed)
		l.epochs.Assign(epoch, l.logEnd.Load())
	}
}

// holdLocked refuses appends in the current epoch, because records that followers may hold were
// discarded. The caller holds producersMu.
func (l *Log) holdLocked() {
	if !l.dir.opt.broken.has(skipHold) {
		l.onRole(loglife.Discarded)
	}
}

// continues returns why an append from a leader does not continue the log at end, nil if it does.
// The caller holds producersMu.
func (l *Log) continues(end int64, a *Append) error {
	if a.PrevEnd != end && !l.dir.opt.broken.has(skipPrevEnd) {
		return fmt.Errorf("append that begins at %d to %s, which ends at %d: %w", a.PrevEnd, l, end, ErrGap)
	}
	epoch := l.epochs.Latest()
	if len(a.Batches) == 0 {
		if a.GapEnd <= end {
			return fmt.Errorf("append a gap up to %d to %s, which ends at %d: %w", a.GapEnd, l, end, ErrGap)
		}
		return l.follows(epoch, a.GapEpoch, a)
	}
	for p := a.Batches; len(p) > 0; {
		b, rest, err := record.Next(p)
		if err != nil {
			return fmt.Errorf("append to %s: %w", l, err)
		}
		p = rest
		if b.BaseOffset() < end || b.LastOffsetDelta() < 0 {
			return fmt.Errorf("append offset %d to %s, which ends at %d: %w", b.BaseOffset(), l, end, ErrGap)
		}
		if err := l.follows(epoch, b.LeaderEpoch(), a); err != nil {
			return err
		}
		epoch, end = b.LeaderEpoch(), b.LastOffset()+1
	}
	return nil
}

// follows returns an error if records of an epoch cannot follow those of the last one: epochs never
// decrease along a log, and no record is newer than the leader that sends it.
func (l *Log) follows(last, epoch int32, a *Append) error {
	if epoch >= last && epoch <= a.LeaderEpoch {
		return nil
	}
	return fmt.Errorf("append records of leader epoch %d to %s, whose last epoch is %d, from the leader of %d: %w", epoch, l, last,
		a.LeaderEpoch, ErrFencedEpoch)
}

// establish tells a segment what the log knows of its present bytes, which end where offset end
// begins.
func (l *Log) establish(s *segment.Segment, end int64) {
	if l.dir.opt.broken.has(trustHeaders) {
		return
	}
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	s.Establish(end, &l.epochs)
}

// storedEpoch returns the epoch of a gap as the journal stores it.
func (l *Log) storedEpoch(epoch int32) int32 {
	if l.dir.opt.broken.has(skipGaps) {
		return noEpoch
	}
	return epoch
}

// EpochEnd returns the largest known epoch not above epoch, and its end offset, which is not below
// the log start; see epochs.Cache.End.
func (l *Log) EpochEnd(epoch int32) (int32, int64) {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	known, end := l.epochs.End(epoch, l.logEnd.Load())
	if end >= 0 {
		end = max(end, l.logStart.Load())
	}
	return known, end
}

// Epochs returns the leader epochs of the log. The result is independent of the log.
func (l *Log) Epochs() epochs.Cache {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return l.epochs.Latter(l.epochs.Len())
}

// EpochAt returns the leader epoch of the record at an offset, -1 if unknown.
func (l *Log) EpochAt(offset int64) int32 {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return l.epochs.At(offset)
}

// LastEpoch returns the epoch of the last records of the log, also if they are deleted, -1 if it
// never had any, and the log end. A follower names both to its leader, which finds the offset where
// the two logs diverge. A leader counts its own epoch even if that has no records yet.
func (l *Log) LastEpoch() (epoch int32, end int64) {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return l.epochs.Latest(), l.logEnd.Load()
}
