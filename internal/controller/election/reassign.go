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
// A replica that was being added, and is not wanted any longer, is removed at once, unless it may
// believe that it leads. Then it is among both, those that are added and those that are removed,
// until it knows better.
//
// Every change that removes a replica begins a new leader epoch. Otherwise a leader that sees the
// removal and a later addition of a replica at once would count records of the deleted log.

// Reassign begins to move a partition to other replicas, whose first is the preferred leader. A
// reassignment in progress is replaced: what it added and the new one does not is removed at once.
// ok is false if that would leave too few replicas with all committed records, or no leader.
func (d Decider) Reassign(p metadata.Partition, replicas []int32) (next metadata.Partition, ok bool) {
	next = p
	former := p.Former()
	next.Adding, next.Removing = minus(replicas, former), minus(former, replicas)
	next.Replicas = slices.Concat(replicas, next.Removing)
	return d.drop(p, next)
}

// Cancel ends a reassignment in progress: the partition keeps its former replicas. ok is false
// under the same conditions as for Reassign.
func (d Decider) Cancel(p metadata.Partition) (next metadata.Partition, ok bool) {
	next = p
	next.Replicas, next.Adding, next.Removing = p.Former(), nil, nil
	return d.drop(p, next)
}

// Complete ends a reassignment in progress if its replicas are all in sync and one of them can
// lead. They have every committed record, so nothing that the others have is needed. A leader that
// leaves is replaced first; the next call removes it once it knows that. As long as it can write
// and none of the others can, it stays.
func (d Decider) Complete(p metadata.Partition) (metadata.Partition, bool) {
	if dropped := common(p.Adding, p.Removing); len(dropped) > 0 {
		return d.dropped(p, dropped)
	}
	target := p.Target()
	if !p.Reassigning() || len(minus(target, p.ISR)) > 0 && !d.Broken.Has(CompleteEarly) {
		return p, false
	}
	next := p
	if p.Leader != None && !slices.Contains(target, p.Leader) && !d.Broken.Has(LeaveUnaware) {
		return d.handOver(p, common(target, p.ISR))
	}
	if !d.know(&p, minus(p.ISR, target)) {
		return p, false
	}
	next.Replicas, next.Adding, next.Removing = target, nil, nil
	next.ISR, next.ELR = common(target, p.ISR), nil
	if len(next.ISR) == 0 || !d.leadWithout(&p, &next) {
		return p, false
	}
	next.PartitionEpoch++
	return next, true
}

// drop removes from ISR, ELR and leadership what is no replica of next any longer, unless it may
// believe that it leads. ok states that enough others have every committed record: a member of the
// ISR or the ELR is only given up if the ISR has min.insync.replicas members without it.
func (d Decider) drop(p, next metadata.Partition) (_ metadata.Partition, ok bool) {
	next.ISR, next.ELR = common(next.Replicas, p.ISR), common(next.Replicas, p.ELR)
	lost := len(next.ISR) < len(p.ISR) || len(next.ELR) < len(p.ELR)
	if lost && len(next.ISR) < d.needed(&next) && !d.Broken.Has(DropInSync) {
		return p, false
	}
	if !p.Last.IsZero() && !slices.Contains(next.Replicas, p.Last.Broker) {
		return p, false
	}
	for _, b := range minus(p.ISR, next.Replicas) {
		if p.Leader != None && (b == p.Leader || !d.knows(&p, b)) && !d.Broken.Has(LeaveUnaware) {
			next.Replicas, next.ISR = append(slices.Clip(next.Replicas), b), append(slices.Clip(next.ISR), b)
			next.Adding, next.Removing = append(slices.Clip(next.Adding), b), append(slices.Clip(next.Removing), b)
		}
	}
	if !d.leadWithout(&p, &next) {
		return p, false
	}
	next.PartitionEpoch = p.PartitionEpoch + 1
	return next, true
}

// dropped removes replicas that drop has left in the ISR, if they know that they do not lead any
// longer, and enough others have every committed record. One that leads is replaced first.
func (d Decider) dropped(p metadata.Partition, all []int32) (metadata.Partition, bool) {
	next, rest := p, minus(p.ISR, all)
	if slices.Contains(all, p.Leader) {
		return d.handOver(p, rest)
	}
	next.Replicas, next.ISR, next.ELR = minus(p.Replicas, all), rest, minus(p.ELR, all)
	next.Adding, next.Removing = minus(p.Adding, all), minus(p.Removing, all)
	if len(rest) < d.needed(&next) || !d.know(&p, common(p.ISR, all)) || !d.leadWithout(&p, &next) {
		return p, false
	}
	next.PartitionEpoch++
	return next, true
}

// handOver replaces a leader that leaves by one of the members of the ISR that stay, if one of them
// can lead. One that cannot write does not replace one that can: elect would undo that, and the two
// would take turns without end.
func (d Decider) handOver(p metadata.Partition, stay []int32) (metadata.Partition, bool) {
	next := p
	to := d.first(&next, stay, None)
	if to != None && (d.View.Writes(to) || !d.View.Writes(p.Leader) || d.Broken.Has(LeadUnable)) {
		d.lead(&next, to)
	}
	return finish(p, next)
}

// know reports whether knows is true for all brokers of a list.
func (d Decider) know(p *metadata.Partition, list []int32) bool {
	for _, b := range list {
		if !d.knows(p, b) {
			return false
		}
	}
	return true
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
