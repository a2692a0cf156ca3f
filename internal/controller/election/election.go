package election

import (
	"math"
	"slices"

	"github.com/chronik-io/chronik/internal/metadata"
)

// None is the leader of a partition that has none.
const None int32 = -1

// View is what the controller knows about the brokers that have replicas of one partition.
type View interface {
	// Active reports whether a broker may lead: it is neither fenced nor draining nor drained.
	Active(broker int32) bool
	// Running reports whether a broker's session is live: it is active, draining or drained.
	Running(broker int32) bool
	// Online reports whether the log directory that the metadata records for the broker's replica
	// is one that the broker registered and does not report as failed, and its log is not damaged.
	// A replica without a recorded directory has lost nothing, since none of its records was ever
	// counted. It is online if the broker has a directory that works, in which its log can be made.
	Online(broker int32) bool
	// Writes reports whether clients can write if the broker leads: that directory takes their
	// records, because it neither hangs nor is low on space, and followers reach the broker.
	Writes(broker int32) bool
	// Compared reports whether the broker's replica has lost nothing unnoticed: since the last stop
	// that was not clean, a leader has compared its log.
	Compared(broker int32) bool
}

// Decider decides about one partition. Its methods return the next record and whether it differs
// from the given one, which they do not modify. A changed record has the next partition epoch.
type Decider struct {
	// Broken is empty in an ordinary build.
	Broken Broken
	View   View
	// MinISR is the topic's min.insync.replicas. It may exceed the number of replicas.
	MinISR int
	// ISRLost states that for a session timeout no member of the ISR has been running without a
	// break. Until then a member of the ELR is not elected: a member that merely restarts, or
	// drains, has records that were acknowledged with acks=1, and the ELR may lack them.
	ISRLost bool
	// Generation is that of the metadata; see metadata.NextEpoch.
	Generation [16]byte
	// Knows reports whether a running broker has applied a revision of the metadata. nil: of none
	// this is known.
	Knows func(broker int32, revision int64) bool
}

// knows reports whether a broker can't believe that it leads the partition although it does not: it
// has applied the record, or holds no lease. Until then it must not leave the ISR, unless it has
// given its leadership up itself: without it, others could commit records that its readers lack.
func (d Decider) knows(p *metadata.Partition, broker int32) bool {
	return p.Leader == broker || !d.View.Running(broker) || d.Knows != nil && d.Knows(broker, p.Revision) || d.Broken.Has(LeaveUnaware)
}

// Elect replaces the leader if it cannot lead, first with a member of the ISR, then with one of the
// ELR (KIP-966), of each first with one that can write, in the order of the replicas. If there is
// none, the partition has no leader. A leader that is draining leads on unless another member of
// the ISR can, and one that cannot write unless a member of the ISR can write. A replica that is
// not compared is elected only if no other one has all committed records; see Compare.
func (d Decider) Elect(p metadata.Partition) (metadata.Partition, bool) {
	next := p
	d.elect(&next)
	return finish(p, next)
}

// Leaving are the replicas that leave the ISR in one decision. The view must not show them as
// electable.
type Leaving struct {
	// Fenced are those whose broker's session ended, or whose log directory failed.
	Fenced []int32
	// Drained have no leadership to give away. One stays if it is the only member or the leader.
	Drained []int32
	// Damaged are those whose log is damaged, while their broker runs. They also leave the ELR.
	Damaged []Replica
}

// Replica is a broker's replica in the log directory that the metadata record for it.
type Replica struct {
	Broker int32
	Dir    [16]byte
}

// Leave removes the replicas that leave the ISR at a time. If it is below min.insync.replicas
// without them, those that are whole stay eligible, all of them: nothing can have been committed
// between the leaving of one and that of the next.
//
// They also stay eligible if one member remains: it may have stopped, too, and come back with less
// than they have. If it runs, it ends that before it commits.
func (d Decider) Leave(p metadata.Partition, all Leaving) (metadata.Partition, bool) {
	next, rest := p, p.ISR
	whole := all.Fenced
	for _, b := range all.Fenced {
		rest = without(rest, b)
	}
	for _, x := range all.Damaged {
		rest = without(rest, x.Broker)
	}
	for _, b := range all.Drained {
		if p.Leader != b && len(rest) > 1 && d.knows(&p, b) {
			rest, whole = without(rest, b), append(slices.Clip(whole), b)
		}
	}
	for _, b := range whole {
		d.leave(&next, b, len(rest))
	}
	for _, x := range all.Damaged {
		d.remove(&next, x.Broker, x.Dir, Lossy)
	}
	d.elect(&next)
	return finish(p, next)
}

// Condition is the condition in which a replica returns with its broker.
type Condition uint8

// The conditions.
const (
	// Whole: the replica has everything that it acknowledged.
	Whole Condition = iota
	// Missing: its log directory is not among those of the broker.
	Missing
	// Lossy: the directory is there, but the log may lack records that it acknowledged: the machine
	// lost power while records were acknowledged unsynced, the log is damaged, or an older copy of
	// the directory was put back.
	Lossy
	// LossySole: as Lossy, but no other replica has what it lacks.
	LossySole
)

// Return adjusts the record before a broker registers a new process, where dir is the recorded log
// directory of its replica. A leadership of the former process ends, since a leader epoch belongs
// to one process: what that process sent and lost must not be followed by other records with the
// same epoch. A replica that is not whole leaves the ISR and the ELR. A whole one stays: without
// it, the failure of the others would lose records that it has. The only
// replica stays as well, but if it lost records, those of earlier epochs count as after an unclean
// election.
func (d Decider) Return(p metadata.Partition, broker int32, dir [16]byte, is Condition) (metadata.Partition, bool) {
	next := p
	if is == Whole && d.Broken.Has(ReturnLeaves) {
		d.leave(&next, broker, len(without(p.ISR, broker)))
	}
	if is == Missing && !d.Broken.Has(KeepMissing) || is == Lossy && !d.Broken.Has(KeepLossy) {
		d.remove(&next, broker, dir, is)
	}
	if next.Leader == broker && !d.Broken.Has(ResumeEpoch) {
		d.resign(&next, broker)
	}
	if is == LossySole && !d.Broken.Has(ForgetLoss) {
		// The replica led in no later epoch than the one before. An operator may have confirmed an
		// earlier loss in this epoch, and knows nothing of this one.
		next.Unclean, next.Confirmed = next.LeaderEpoch, 0
	} else if next.Leader != None && next.Leader != broker {
		d.elect(&next)
	}
	return finish(p, next)
}

// Restore makes the replica whose leaving emptied ISR and ELR the leader again, once its broker is
// active with the same log directory dir. The high watermark cannot have moved since. A lossy one
// needs Unclean.
func (d Decider) Restore(p metadata.Partition, broker int32, dir [16]byte) (metadata.Partition, bool) {
	last := p.Last
	if len(p.ISR)+len(p.ELR) > 0 || last.IsZero() || last.Broker != broker || last.Dir != dir || last.Lossy || !d.able(broker) {
		return p, false
	}
	next := p
	next.ISR = []int32{broker}
	d.elect(&next)
	return finish(p, next)
}

// Resign ends the leadership of a broker in an epoch, because its log took records back or cannot
// be read. Another member of the ISR leads, or the same one in the next epoch. It ignores an epoch
// that is not the present one.
func (d Decider) Resign(p metadata.Partition, broker, epoch int32) (metadata.Partition, bool) {
	if p.Leader != broker || p.LeaderEpoch != epoch {
		return p, false
	}
	next := p
	d.resign(&next, broker)
	return finish(p, next)
}

// Prefer makes the first replica the leader if it can lead and write, and another one leads.
func (d Decider) Prefer(p metadata.Partition) (metadata.Partition, bool) {
	first := p.Replicas[0]
	if p.Leader == None || p.Leader == first || !slices.Contains(p.ISR, first) || !d.able(first) || !d.View.Writes(first) ||
		!d.compared(&p, first) {
		return p, false
	}
	next := p
	d.lead(&next, first)
	return finish(p, next)
}

// LogState is what a broker reports about the log of one replica.
type LogState struct {
	Broker int32
	// LastEpoch is the epoch of the last record, which may be deleted, -1 if there was none, or a
	// later one in which the replica led, see progress.Leader.Note. End is the log end.
	LastEpoch int32
	// RecordEpoch is the epoch of the last record alone.
	RecordEpoch int32
	End         int64
	// Damaged: some of its records cannot be read.
	Damaged bool
}

// longer reports whether a log has more records than another one: it goes further, or as far
// without damage. What damage took, a shorter log may have; it keeps that when it follows, and
// leads then.
func (r *LogState) longer(than *LogState) bool {
	if r.LastEpoch != than.LastEpoch {
		return r.LastEpoch > than.LastEpoch
	}
	return r.End > than.End || r.End == than.End && than.Damaged && !r.Damaged
}

// Comparable returns the members of ISR and ELR that Compare chooses from: those that can lead, if
// the partition has no leader, one of them is not compared, and none can be elected without that.
// As long as the ISR may return, one of its members has to be there: see ISRLost.
func (d Decider) Comparable(p *metadata.Partition) []int32 {
	if p.Leader != None || d.candidate(p, None) != None {
		return nil
	}
	able := slices.DeleteFunc(union(p, p.ISR, p.ELR), func(b int32) bool { return !d.able(b) })
	from := able
	if len(p.ISR) > 0 && !d.ISRLost {
		from = common(able, p.ISR)
	}
	if !slices.ContainsFunc(from, func(b int32) bool { return !d.compared(p, b) }) {
		return nil
	}
	return able
}

// Compare elects one of the members that Comparable returns, by their logs.
// Each of them had every committed record, so what one has lost unnoticed, another one has: the one
// whose records go furthest leads, of equal ones first one that can write. The epochs in which they
// led do not count: a log may have led last and have lost what it had before. One report alone says
// nothing, so it suffices only if waited states that the others had their time to return; then one
// that does not report leads, too, if none does.
func (d Decider) Compare(p metadata.Partition, reports []LogState, waited bool) (metadata.Partition, bool) {
	var best *LogState
	members, known := d.Comparable(&p), 0
	for _, b := range members {
		i := slices.IndexFunc(reports, func(r LogState) bool { return r.Broker == b })
		if i < 0 {
			continue
		}
		known++
		if r := &reports[i]; best == nil || d.further(r, best) || d.Broken.Has(CompareLed) && r.longer(best) {
			best = r
		}
	}
	switch {
	case len(members) == 0, known < 2 && !waited && !d.Broken.Has(CompareAlone):
		return p, false
	case best == nil:
		best = &LogState{Broker: members[0]}
	}
	if !slices.Contains(p.ISR, best.Broker) && !d.know(&p, p.ISR) {
		return p, false // what leaves the ISR for it may still believe that it leads
	}
	next := p
	d.lead(&next, best.Broker)
	return finish(p, next)
}

// further reports whether the records of a log go further than those of another one, or as far
// without damage, or so that its broker can write. A log that has none knows no epoch.
func (d Decider) further(r, than *LogState) bool {
	switch {
	case r.RecordEpoch != than.RecordEpoch && min(r.RecordEpoch, than.RecordEpoch) >= 0:
		return r.RecordEpoch > than.RecordEpoch
	case r.End != than.End:
		return r.End > than.End
	case r.Damaged != than.Damaged:
		return than.Damaged
	}
	return d.View.Writes(r.Broker) && !d.View.Writes(than.Broker)
}

// Unclean elects the active replica with the most records, by last epoch and end, although it may
// lack acknowledged ones. It does nothing as long as the partition has a leader or Elect finds one.
// If Compare finds a member of ISR or ELR, that one leads, and the record remembers no loss: what
// other members know to be committed is still kept. The caller must log another result as a loss of
// data.
func (d Decider) Unclean(p metadata.Partition, reports []LogState) (metadata.Partition, bool) {
	next := p
	if d.elect(&next); next.Leader != None {
		return finish(p, next)
	}
	if found, ok := d.Compare(p, reports, true); ok {
		return found, true
	}
	var best *LogState
	for _, b := range p.Replicas {
		i := slices.IndexFunc(reports, func(r LogState) bool { return r.Broker == b })
		if i < 0 || !d.able(b) {
			continue
		}
		if r := &reports[i]; best == nil || r.longer(best) {
			best = r
		}
	}
	if best == nil {
		return finish(p, next)
	}
	seen := int32(-1)
	for _, r := range reports { // restored metadata may be older than the logs
		seen = max(seen, r.LastEpoch)
	}
	if d.Broken.Has(ReportedEpoch) {
		next.LeaderEpoch, seen = max(next.LeaderEpoch, seen), -1
	}
	epoch, ok := metadata.NextEpoch(next.LeaderEpoch, seen, d.Generation)
	if !ok {
		return p, false
	}
	next.ISR, next.ELR, next.LeaderEpoch = []int32{best.Broker}, nil, epoch-1
	d.lead(&next, best.Broker)
	next.Unclean = next.LeaderEpoch
	return finish(p, next)
}

// elect replaces a leader that cannot lead.
func (d Decider) elect(p *metadata.Partition) {
	if l := p.Leader; l != None && slices.Contains(p.ISR, l) && d.View.Online(l) && d.View.Running(l) {
		active := d.View.Active(l)
		if active && d.View.Writes(l) {
			return
		}
		if to := d.fromISR(p, l); to == None || active && !d.View.Writes(to) {
			return // a draining leader stays if no other can lead, and one that cannot write if no other can
		}
	}
	if to := d.candidate(p, None); to != p.Leader {
		d.lead(p, to)
	}
}

// resign ends a leadership: another replica leads, or the same one in the next epoch if it can and
// no other one can, or can write as it can.
func (d Decider) resign(p *metadata.Partition, broker int32) {
	to := d.fromISR(p, broker)
	stays := slices.Contains(p.ISR, broker) && d.able(broker)
	if stays && (to == None || d.View.Writes(broker) && !d.View.Writes(to)) {
		to = broker
	}
	if to == None {
		to = d.candidate(p, broker)
	}
	d.lead(p, to)
}

// candidate returns the replica to elect, None if there is none.
func (d Decider) candidate(p *metadata.Partition, except int32) int32 {
	if to := d.fromISR(p, except); to != None {
		return to
	}
	if len(p.ISR) > 0 && !d.ISRLost {
		return None
	}
	return d.first(p, p.ELR, except)
}

func (d Decider) fromISR(p *metadata.Partition, except int32) int32 { return d.first(p, p.ISR, except) }

// first returns the first replica, in their order, that is in set, is compared, and can lead and
// write; if none can write, the first one that can lead.
func (d Decider) first(p *metadata.Partition, set []int32, except int32) int32 {
	found := None
	for _, b := range p.Replicas {
		if b == except || !slices.Contains(set, b) || !d.able(b) || !d.compared(p, b) {
			continue
		}
		if d.View.Writes(b) {
			return b
		}
		if found == None {
			found = b
		}
	}
	return found
}

// compared reports whether a replica may lead without a comparison: a leader has compared its log,
// it leads, or no other replica has all committed records.
func (d Decider) compared(p *metadata.Partition, broker int32) bool {
	return d.View.Compared(broker) || p.Leader == broker || len(without(union(p, p.ISR, p.ELR), broker)) == 0 ||
		d.Broken.Has(LeadUncompared)
}

func (d Decider) able(broker int32) bool { return d.View.Active(broker) && d.View.Online(broker) }

// lead makes a broker the leader in the next epoch. If it is not in the ISR, it becomes the only
// member, and the former members remain eligible: the high watermark stands still until enough of
// them have followed.
func (d Decider) lead(p *metadata.Partition, to int32) {
	if p.Leader == to && to == None || p.LeaderEpoch == math.MaxInt32 {
		return
	}
	p.Leader = to
	p.LeaderEpoch++
	if to == None {
		return
	}
	p.Last = metadata.LastReplica{}
	if slices.Contains(p.ISR, to) {
		return
	}
	p.ELR = without(union(p, p.ISR, p.ELR), to)
	p.ISR = []int32{to}
	if d.Broken.Has(ForgetISR) {
		p.ELR = nil
	}
}

// leave removes a broker from the ISR; it is eligible if the ISR is too small without all that
// leave it in this decision, or has one member.
func (d Decider) leave(p *metadata.Partition, broker int32, rest int) {
	if !slices.Contains(p.ISR, broker) {
		return
	}
	p.ISR = without(p.ISR, broker)
	if d.Broken.Has(LeaveOneByOne) {
		rest = len(p.ISR)
	}
	small := rest < d.needed(p) || rest == 1 && !d.Broken.Has(LeaveOne)
	if small && !d.Broken.Has(FenceWithoutELR) {
		p.ELR = union(p, p.ELR, []int32{broker})
	}
}

// needed returns min.insync.replicas, limited to the number of replicas that are not being added.
func (d Decider) needed(p *metadata.Partition) int {
	return max(1, min(d.MinISR, len(p.Replicas)-len(p.Adding)))
}

// remove removes a broker from ISR and ELR. If that empties both, the record notes it as the last.
func (d Decider) remove(p *metadata.Partition, broker int32, dir [16]byte, is Condition) {
	if p.Last.Broker == broker && p.Last.Dir == dir && dir != [16]byte{} && is == Lossy {
		p.Last.Lossy = true
	}
	if !slices.Contains(p.ISR, broker) && !slices.Contains(p.ELR, broker) && !d.Broken.Has(AnyLast) {
		return
	}
	p.ISR, p.ELR = without(p.ISR, broker), without(p.ELR, broker)
	if len(p.ISR)+len(p.ELR) == 0 || d.Broken.Has(AnyLast) {
		p.Last = metadata.LastReplica{Broker: broker, Dir: dir, Lossy: is == Lossy}
	}
}

// without returns set without a broker. It does not modify set.
func without(set []int32, broker int32) []int32 {
	if !slices.Contains(set, broker) {
		return set
	}
	out := make([]int32, 0, len(set))
	for _, b := range set {
		if b != broker {
			out = append(out, b)
		}
	}
	return out
}

// union returns the replicas that are in a or b, in their order.
func union(p *metadata.Partition, a, b []int32) []int32 {
	var out []int32
	for _, r := range p.Replicas {
		if slices.Contains(a, r) || slices.Contains(b, r) {
			out = append(out, r)
		}
	}
	return out
}

// finish returns the next record with its partition epoch, and whether it differs from p.
func finish(p, next metadata.Partition) (metadata.Partition, bool) {
	same := p.Leader == next.Leader && p.LeaderEpoch == next.LeaderEpoch && p.Last == next.Last && p.Unclean == next.Unclean &&
		p.Confirmed == next.Confirmed && slices.Equal(p.ISR, next.ISR) && slices.Equal(p.ELR, next.ELR)
	if same {
		return p, false
	}
	next.PartitionEpoch++
	return next, true
}
