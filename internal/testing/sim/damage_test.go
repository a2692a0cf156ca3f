package sim

import (
	"slices"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica/progress"
)

// discarded is the hole of a log from which compaction removed records because of others that an
// unclean election has discarded.
const discarded = -1

// damage destroys a stored record of a node, if another member of ISR or ELR has it. The broker
// notices that at once, and only it: it cannot send the record any more.
func (w *world) damage(x *node) {
	if !x.up || x.written == x.start || x.flaw || !w.expendable(x) {
		return
	}
	x.flaw, x.void, x.hole = true, 0, x.start+w.r.Int64N(x.written-x.start)
	w.oracle.destroyed(x)
	w.stats["damaged logs"]++
	w.logf("%s loses its record at %d", name(x.id), x.hole)
}

// repairLast lets an operator repair the only copy, whose damage no broker can mend: the record is
// given up.
func (w *world) repairLast() {
	l := w.store().part.Leader
	if l < 0 || !w.nodes[l].flaw || w.store().hasOther(l, nil) {
		return
	}
	w.repair(w.nodes[l])
}

// repair lets an operator repair a damaged log: the record is given up.
func (w *world) repair(x *node) {
	if !x.flaw || x.hole == discarded {
		return
	}
	w.stats["operator repairs"]++
	w.logf("an operator repairs %s", name(x.id))
	if x.flaw = false; x.hole < x.end() { // otherwise the log was cut below it
		w.oracle.giveUp(x.hole)
		x.log[x.hole].value = 0
	}
}

// report lets a broker's heartbeat report whether its log is damaged.
func (w *world) report(x *node) {
	b := &w.store().brokers[x.id]
	if !x.runs() || x.step != registered || b.epoch != x.brokerEpoch || b.damaged == x.flaw {
		return
	}
	w.commit(func(s *state) {
		s.brokers[x.id].damaged, s.brokers[x.id].livenessRev = x.flaw, s.version
	})
	w.logf("%s reports damage: %v", name(x.id), x.flaw)
}

// damagedElsewhere reports whether a broker has reported its log as damaged, and another replica
// can lead that has what it lacks.
func (s *state) damagedElsewhere(broker int32) bool {
	return s.brokers[broker].damaged && s.hasOther(broker, nil)
}

// hasOther reports whether another broker's replica has all committed records and can lead, and is
// not among those that are about to leave.
func (s *state) hasOther(broker int32, gone []election.Replica) bool {
	stays := func(b int32) bool {
		return b != broker && !slices.ContainsFunc(gone, func(x election.Replica) bool { return x.Broker == b })
	}
	leads := s.part.Leader == broker && s.Running(broker)
	there := func(b int32) bool { return stays(b) && s.Active(b) }
	return !leads && slices.ContainsFunc(s.part.ISR, stays) || slices.ContainsFunc(s.part.ISR, there) ||
		slices.ContainsFunc(s.part.ELR, there)
}

// replace lets a node replace its damaged log by an empty one, when its image shows that the
// controller knows the damage and that nothing depends on this replica, in a later epoch than the
// one in which it noticed that: the leader no longer counts what the former log had.
func (w *world) replace(x *node) {
	s := w.image(x)
	p := &s.part
	b := &s.brokers[x.id]
	if !x.runs() || !x.flaw || x.leaving || x.step != registered || b.epoch != x.brokerEpoch || !b.damaged || !p.HasReplica(x.id) {
		return
	}
	needed := slices.Contains(p.ISR, x.id) || slices.Contains(p.ELR, x.id)
	if p.Leader < 0 || p.Leader == x.id || len(p.ISR) == 0 || needed && !w.cfg.removed.has(replaceNeeded) {
		return
	}
	if lead := &s.brokers[p.Leader]; lead.damaged || lead.liveness != metadata.Active {
		return
	}
	if x.void == 0 {
		x.void = p.LeaderEpoch
	}
	if p.LeaderEpoch <= x.void && !w.cfg.removed.has(replaceInEpoch) {
		w.decide("new epoch for "+name(x.id), func(_ election.Decider, now metadata.Partition) (metadata.Partition, bool) {
			if now.LeaderEpoch != p.LeaderEpoch {
				return now, false
			}
			now.LeaderEpoch++
			now.PartitionEpoch++
			return now, true
		})
		return
	}
	w.logf("%s replaces its log", name(x.id))
	w.stats["logs replaced"]++
	w.stepDown(x)
	x.sub, x.queue, x.waits = subscription{}, nil, nil
	w.empty(x)
	x.offline, x.epoch, x.hole, x.void = false, 0, 0, 0
	x.follower = progress.Follower{Broken: w.cfg.removed.inProgress()}
	x.follower.Follow()
	w.oracle.started(x)
	w.see(x, x.image)
}

// leaveDamaged returns the replicas that leave because their logs are damaged.
func (s *state) leaveDamaged() (all []election.Replica) {
	for _, b := range s.part.Replicas {
		x := &s.brokers[b]
		if x.damaged && x.placement != (dir{}) && s.hasOther(b, all) {
			all = append(all, election.Replica{Broker: b, Dir: x.placement})
		}
	}
	return all
}

// renewLog damages a follower that is in sync, lets the controller and the broker do their parts,
// and the leader act on what it still knows of the former log.
func (w *world) renewLog() {
	l := w.store().part.Leader
	f := w.nodes[w.r.IntN(len(w.nodes))]
	if l < 0 || l == f.id || !w.nodes[l].runs() || w.nodes[l].step != registered || !f.runs() || f.step != registered {
		return
	}
	w.stretch(w.nodes[l], f)
	w.damage(f)
	w.report(f)
	if w.store().brokers[f.id].liveness != metadata.Fenced {
		w.leave()
	}
	if w.chance(2) {
		w.see(w.nodes[l], int64(len(w.history)-1))
	}
	if w.chance(4) {
		w.stretch(w.nodes[l], f)
	}
	for range 2 {
		w.see(f, int64(len(w.history)-1))
		w.replace(f)
	}
	if w.chance(2) {
		w.report(f)
		w.see(w.nodes[l], int64(len(w.history)-1))
	}
	w.goOn(w.nodes[l])
	if n := len(w.writes); n > 0 && w.chance(2) {
		w.apply(n - 1)
	}
}
