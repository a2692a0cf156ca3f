package election

import (
	"slices"

	"github.com/chronik-io/chronik/internal/metadata"
)

// A reassignment (KIP-455) is in the record only, so that any controller continues it:
//
//	            replicas         adding   removing
//	            A B C
//	Reassign    D B A C          D        C          the added replicas copy the log
//	Complete    D B A                                once D, B and A are in sync
//	Cancel      B A C                                instead
//
// Every change that removes a replica begins a new leader epoch. Otherwise a leader that sees the
// removal and a later addition of a replica at once would count records of the deleted log.

// Reassign begins to move a partition to other replicas, whose first is the preferred leader. A
// reassignment in progress is replaced: what it added and the new one does not is removed at once.
// If all replicas are in sync already, nothing is left to be copied, and the result is complete. ok
// is false if that would leave too few replicas with all committed records, or no leader.
func (d Decider) Reassign(p metadata.Partition, replicas []int32) (next metadata.Partition, ok bool) {
	next = p
	former := p.Former()
	next.Adding, next.Removing = minus(replicas, former), minus(former, replicas)
	next.Replicas = slices.Concat(replicas, next.Removing)
	if !d.drop(&p, &next) {
		return p, false
	}
	if done, changed := d.Complete(next); changed {
		next = done
	}
	next.PartitionEpoch = p.PartitionEpoch + 1
	return next, true
}

// Cancel ends a reassignment in progress: the partition keeps its former replicas. ok is false
// under the same conditions as for Reassign.
func (d Decider) Cancel(p metadata.Partition) (next metadata.Partition, ok bool) {
	next = p
	next.Replicas, next.Adding, next.Removing = p.Former(), nil, nil
	if !d.drop(&p, &next) {
		return p, false
	}
	next.PartitionEpoch = p.PartitionEpoch + 1
	return next, true
}

// Complete ends a reassignment in progress if its replicas are all in sync and one of them can
// lead. They have every committed record, so nothing that the others have is needed.
func (d Decider) Complete(p metadata.Partition) (metadata.Partition, bool) {
	target := p.Target()
	if !p.Reassigning() || len(minus(target, p.ISR)) > 0 && !d.Broken.Has(CompleteEarly) {
		return p, false
	}
	next := p
	next.Replicas, next.Adding, next.Removing = target, nil, nil
	next.ISR, next.ELR = common(target, p.ISR), nil
	if len(next.ISR) == 0 || !d.leadWithout(&p, &next) {
		return p, false
	}
	next.PartitionEpoch++
	return next, true
}

// drop removes from ISR, ELR and leadership what is no replica of next any longer. It reports
// whether enough others have every committed record: a member of the ISR or the ELR is only given
// up if the ISR has min.insync.replicas members without it.
func (d Decider) drop(p, next *metadata.Partition) bool {
	next.ISR, next.ELR = common(next.Replicas, p.ISR), common(next.Replicas, p.ELR)
	lost := len(next.ISR) < len(p.ISR) || len(next.ELR) < len(p.ELR)
	if lost && len(next.ISR) < d.needed(next) && !d.Broken.Has(DropInSync) {
		return false
	}
	if !p.Last.IsZero() && !slices.Contains(next.Replicas, p.Last.Broker) {
		return false
	}
	return d.leadWithout(p, next)
}

// leadWithout gives the partition its leader after the replicas of p became those of next. It
// reports false if the leader must be replaced and no other member of the ISR can lead. A partition
// without a leader gives up no replica: those in the ISR may turn out to be lost.
func (d Decider) leadWithout(p, next *metadata.Partition) bool {
	if p.Leader == None {
		return len(minus(p.Replicas, next.Replicas)) == 0
	}
	to := p.Leader
	if !slices.Contains(next.ISR, to) {
		if to = d.fromISR(next, None); to == None {
			return false
		}
	}
	removed := len(minus(p.Replicas, next.Replicas)) > 0 && !d.Broken.Has(KeepEpoch)
	if to != p.Leader || removed {
		d.lead(next, to)
	}
	return true
}

// minus returns the members of a that are not in b.
func minus(a, b []int32) (out []int32) {
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

// common returns the members of a that are in b, in the order of a.
func common(a, b []int32) (out []int32) {
	for _, x := range a {
		if slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}
