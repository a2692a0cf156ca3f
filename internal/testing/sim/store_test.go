package sim

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica/progress"
)

// write is a transaction on its way to the store: a proposal of a leader, or a placement.
type write struct {
	from      int32
	life      int // of the process that sent it
	proposal  progress.Proposal
	placement dir
	removal   bool  // the placement is removed
	removed   int64 // revision of the record that does not name the replica
	compare   progress.Compare
}

// answer is a refusal on its way to the leader that proposed.
type answer struct {
	to       int32
	life     int
	id       uint64
	revision int64
}

// duty is what the controller still has to do about a broker.
type duty struct {
	leave bool // it is fenced because its session ended, and its records are not adjusted yet
}

// propose lets a leader measure lag and send a proposal.
func (w *world) propose(x *node) {
	if !x.runs() || x.leader == nil {
		return
	}
	x.leader.Sweep(w.now, x.end())
	if x.leader.Undecided() && !w.cfg.removed.has(keepRole) {
		w.renew(x)
	}
	p, ok := x.leader.Propose(w.now, !w.chance(8))
	if !ok {
		return
	}
	w.logf("%s proposes isr %s elr %s: %s", name(x.id), names(p.ISR), names(p.ELR), p.Reason)
	w.writes = append(w.writes, write{from: x.id, life: x.life, proposal: p})
	w.stats["proposed "+p.Reason.String()]++
	w.complete(x)
}

// apply lets the store decide one of the transactions. It may come again.
func (w *world) apply(k int) {
	t := w.writes[k]
	if !w.chance(4) {
		w.writes = slices.Delete(w.writes, k, k+1)
	}
	if t.placement != (dir{}) || t.removal {
		w.applyPlacement(t)
		return
	}
	if w.chance(2) {
		w.commit(func(*state) {}) // a change of another topic
	}
	s := w.store()
	ok := s.part.Revision == t.proposal.Revision
	for _, m := range t.proposal.Members {
		b := &s.brokers[m.Broker]
		ok = ok && b.epoch == m.BrokerEpoch && b.livenessRev == m.Liveness
	}
	if !ok {
		if !w.chance(3) {
			w.answers = append(w.answers, answer{t.from, t.life, t.proposal.ID, s.version})
		}
		return
	}
	w.commit(func(s *state) {
		s.part.ISR, s.part.ELR = t.proposal.ISR, t.proposal.ELR
		s.part.PartitionEpoch++
		s.part.Revision = s.version
	})
	w.oracle.recorded(w, &s.part, func(b int32) bool {
		return t.proposal.Reason == progress.Damaged && (w.nodes[b].lossy || w.nodes[b].shortened)
	})
	w.stats["isr changes"]++
	w.logf("%s: accepted from %s", w.store(), name(t.from))
}

func (w *world) applyPlacement(t write) {
	s := w.store()
	b := &s.brokers[t.from]
	if b.epoch != t.compare.BrokerEpoch && !w.cfg.removed.has(placeUnconditional) {
		return
	}
	if b.livenessRev != t.compare.Liveness && !w.cfg.removed.has(placeUnconditional) {
		return
	}
	if t.removal && s.part.Revision != t.removed {
		return
	}
	w.commit(func(s *state) { s.brokers[t.from].placement = t.placement })
	w.logf("replica of %s is placed", name(t.from))
}

// deliverAnswer brings a refusal to the leader that proposed, if its process still runs.
func (w *world) deliverAnswer() {
	if len(w.answers) == 0 {
		return
	}
	a := w.answers[0]
	w.answers = w.answers[1:]
	if x := w.nodes[a.to]; x.runs() && x.life == a.life && x.leader != nil {
		x.leader.Refused(a.id, a.revision)
		w.complete(x)
	}
}

// place lets a broker record the log directory of its replica.
func (w *world) place(x *node) {
	s := w.image(x)
	b := &s.brokers[x.id]
	empty := len(s.part.ISR)+len(s.part.ELR) == 0
	if !x.runs() || x.step != registered || b.epoch != x.brokerEpoch || b.placement == x.dir || empty ||
		!s.part.HasReplica(x.id) || x.leaving {
		return
	}
	seen := progress.Compare{BrokerEpoch: b.epoch, Liveness: b.livenessRev}
	w.writes = append(w.writes, write{from: x.id, placement: x.dir, compare: seen})
}

// Active implements election.View.
func (s *state) Active(broker int32) bool { return s.brokers[broker].liveness == metadata.Active }

// Running implements election.View.
func (s *state) Running(broker int32) bool { return s.brokers[broker].liveness != metadata.Fenced }

// Online implements election.View.
func (s *state) Online(broker int32) bool {
	b := &s.brokers[broker]
	return (b.placement == dir{} || b.placement == b.dir) && !s.damagedElsewhere(broker)
}

// Writes implements election.View.
func (s *state) Writes(broker int32) bool { return s.Online(broker) && !s.brokers[broker].low }

// Compared implements election.View.
func (s *state) Compared(broker int32) bool {
	b := &s.brokers[broker]
	return b.placement == dir{} || !b.uncompared
}

// decide lets the controller change the partition's record.
func (w *world) decide(what string, f func(election.Decider, metadata.Partition) (metadata.Partition, bool)) {
	s := w.store()
	lost := w.chance(2) && !slices.ContainsFunc(s.part.ISR, s.Running)
	d := election.Decider{Broken: w.cfg.removed.inElection(), View: s, MinISR: s.minISR, ISRLost: lost, Generation: w.gen,
		Knows: func(b int32, revision int64) bool { return w.nodes[b].image >= revision }}
	next, changed := f(d, s.part)
	if !changed {
		return
	}
	w.commit(func(s *state) {
		s.part = next
		s.part.Revision = s.version
	})
	w.oracle.recorded(w, &s.part, func(b int32) bool { // the controller does not know of a repair before the next heartbeat
		return !w.whole(w.nodes[b]) || s.brokers[b].damaged
	})
	d.View = w.store()
	w.oracle.ends(w, d)
	if next.LeaderEpoch != s.part.LeaderEpoch {
		w.stats["elections"]++
		if next.Leader != election.None && !slices.Contains(s.part.ISR, next.Leader) {
			w.stats["elections from elr"]++
		}
	}
	w.logf("%s: %s", w.store(), what)
}

func (w *world) elect() { w.decide("election", election.Decider.Elect) }

// setLiveness is the controller's decision about a broker.
func (w *world) setLiveness(broker int32, to metadata.Liveness) {
	w.commit(func(s *state) {
		b := &s.brokers[broker]
		if to == metadata.Active {
			b.runs = s.version
		}
		b.liveness, b.livenessRev = to, s.version
	})
	w.logf("%s is %s", name(broker), to)
}

// setLow lets a broker report whether its log directory is low on space.
func (w *world) setLow(broker int32, low bool) {
	if w.store().brokers[broker].low != low {
		w.commit(func(s *state) { s.brokers[broker].low = low })
		w.logf("%s is low on space: %t", name(broker), low)
	}
}

// fence ends a broker's session: first the mark, and its records in a later step.
func (w *world) fence(broker int32) {
	w.setLiveness(broker, metadata.Fenced)
	w.ctl[broker].leave = true
}

// work lets the controller continue with what it has to do about a broker.
func (w *world) work(broker int32) {
	if w.ctl[broker].leave {
		w.leave()
	}
	switch w.store().brokers[broker].liveness {
	case metadata.Draining:
		w.elect()
		if w.store().part.Leader != broker {
			w.setLiveness(broker, metadata.Drained)
		}
	case metadata.Drained:
		w.leave()
	default:
		if w.store().brokers[broker].damaged {
			w.leave()
		}
	}
}

// leave lets the replicas of all brokers that were fenced or drained meanwhile leave the ISR.
func (w *world) leave() {
	all := election.Leaving{Damaged: w.store().leaveDamaged()}
	for i := range w.ctl {
		b, duty := int32(i), w.ctl[i].leave
		w.ctl[i].leave = false
		if slices.ContainsFunc(all.Damaged, func(x election.Replica) bool { return x.Broker == b }) {
			continue
		}
		switch w.store().brokers[b].liveness {
		case metadata.Fenced:
			if duty {
				all.Fenced = append(all.Fenced, b)
			}
		case metadata.Drained:
			all.Drained = append(all.Drained, b)
		}
	}
	w.decide(fmt.Sprintf("fenced %s, drained %s, damaged %v", names(all.Fenced), names(all.Drained), len(all.Damaged)),
		func(d election.Decider, p metadata.Partition) (metadata.Partition, bool) { return d.Leave(p, all) })
}

// register does the next step of a broker's registration, or repeats the last one.
func (w *world) register(x *node) {
	if !x.up || x.step == registered {
		return
	}
	order := []func(*node){w.mark, w.adjust, w.enter}
	if w.cfg.removed.has(registerFirst) {
		order = []func(*node){w.enter, w.mark, w.adjust}
	}
	b := &w.store().brokers[x.id]
	if x.step == adjusted && b.livenessRev != x.marked && !w.cfg.removed.has(oldHeartbeats) && !w.cfg.removed.has(noMark) &&
		!w.cfg.removed.has(registerFirst) {
		x.step = unregistered // the broker has become active since: its records may have changed
		return
	}
	order[x.step](x)
	if x.step == registered-1 || !w.chance(6) { // otherwise the next controller begins this step again
		x.step++
	}
	if x.step == registered {
		x.lossy = false
	}
}

// mark fences the former process, so that no change of the ISR that names it is accepted any more.
func (w *world) mark(x *node) {
	if !w.cfg.removed.has(noMark) {
		w.setLiveness(x.id, metadata.Fenced)
		x.marked = w.store().brokers[x.id].livenessRev
	}
}

// adjust adjusts the records that name the broker.
func (w *world) adjust(x *node) {
	s := w.store()
	placed := s.brokers[x.id].placement
	is := election.Whole
	switch {
	case placed != dir{} && placed != x.dir:
		is = election.Missing
	case x.lossy, x.flaw && s.hasOther(x.id, nil):
		is = election.Lossy
	}
	if !s.part.HasReplica(x.id) {
		return
	}
	w.decide("return of "+name(x.id), func(d election.Decider, p metadata.Partition) (metadata.Partition, bool) {
		return d.Return(p, x.id, placed, is)
	})
}

// enter records the registration.
func (w *world) enter(x *node) {
	w.commit(func(s *state) {
		b := &s.brokers[x.id]
		b.epoch, b.dir, b.damaged = s.version, x.dir, x.flaw
		b.uncompared = b.uncompared || !x.entered
		x.entered = true
		x.brokerEpoch = s.version
		if !w.cfg.removed.has(noMark) {
			b.liveness, b.livenessRev = metadata.Fenced, s.version
		}
	})
	w.logf("%s is registered at %d", name(x.id), x.brokerEpoch)
}

// heartbeat lets the controller handle a late heartbeat of a broker's former process.
func (w *world) heartbeat(x *node) {
	b := &w.store().brokers[x.id]
	if x.step == registered || b.epoch != x.former || b.liveness != metadata.Fenced || w.ctl[x.id].leave {
		return
	}
	x.former = 0
	w.setLiveness(x.id, metadata.Active)
}

// activate makes a broker active that has applied its registration.
func (w *world) activate(x *node) {
	b := &w.store().brokers[x.id]
	if b.liveness != metadata.Fenced || !x.runs() || x.step != registered || w.image(x).brokers[x.id].epoch != x.brokerEpoch ||
		w.ctl[x.id].leave {
		return
	}
	w.setLiveness(x.id, metadata.Active)
	w.restore(x)
	w.elect()
}

// restore lets the last replica lead again.
func (w *world) restore(x *node) {
	w.decide("restore "+name(x.id), func(d election.Decider, p metadata.Partition) (metadata.Partition, bool) {
		if w.cfg.removed.has(lossyIsLast) {
			p.Last.Lossy = false
		}
		return d.Restore(p, x.id, x.dir)
	})
}

// electUnclean lets an operator, or the topic's configuration, accept a loss.
func (w *world) electUnclean() {
	if w.store().part.Leader != election.None || w.short() {
		return
	}
	reports := w.reports(-1)
	before, part := w.store().part.Unclean, false
	for _, r := range reports {
		part = part || r.Broker == w.oracle.keeper && w.store().Active(r.Broker) && w.store().Online(r.Broker)
	}
	w.decide("UNCLEAN election", func(d election.Decider, p metadata.Partition) (metadata.Partition, bool) {
		return d.Unclean(p, reports)
	})
	if p := &w.store().part; p.Unclean != before {
		w.stats["unclean"]++
		x := w.nodes[p.Leader]
		if part {
			w.stats["unclean, with the last leader"]++
			w.oracle.compared(w, x)
		}
		w.oracle.forgive(x, w.counted(x), p.Unclean)
	}
}

// restoreMetadata puts the metadata back as they were at the start, as chronikd recover does: with
// another generation, while no broker runs. The copy may be old: it knows none of the elections.
func (w *world) restoreMetadata() {
	for _, x := range w.nodes {
		w.crash(x, kill)
		x.spare = disk{}
	}
	w.gen = w.newDir()
	binary.BigEndian.PutUint32(w.gen[12:], w.r.Uint32())
	w.writes, w.answers, w.stray = nil, nil, nil
	clear(w.ctl)
	w.commit(func(s *state) {
		p := &s.part
		p.Leader, p.LeaderEpoch, p.Unclean = election.None, w.history[0].part.LeaderEpoch+metadata.Gap(w.gen), 0
		if len(p.Replicas) > 1 {
			p.ISR, p.ELR, p.Last = nil, nil, metadata.LastReplica{}
		}
		p.PartitionEpoch += metadata.Gap(w.gen)
		p.Revision = s.version
		for i := range s.brokers {
			s.brokers[i].liveness, s.brokers[i].livenessRev = metadata.Fenced, s.version
		}
	})
	w.oracle.restored()
	w.stats["restores"]++
	w.logf("%s: restored", w.store())
}

// raise lets a leader whose log, or high watermark, has a later epoch ask for a higher one, and a
// follower that an unclean election did not know.
func (w *world) raise(x *node) {
	p := &w.store().part
	seen := x.seen()
	if !x.runs() || x.step != registered || !p.HasReplica(x.id) || x.leaving || seen <= p.LeaderEpoch {
		return
	}
	passed := p.PassedOver(x.id) && !w.cfg.removed.has(stayAhead)
	if p.Leader != x.id && !passed {
		return
	}
	w.decide("raised epoch of "+name(x.id), func(_ election.Decider, p metadata.Partition) (metadata.Partition, bool) {
		epoch, ok := metadata.NextEpoch(p.LeaderEpoch, seen, w.gen)
		p.LeaderEpoch = epoch
		if p.Unclean > 0 {
			p.Unclean = epoch
		}
		if passed {
			w.stats["raised for a follower"]++
		}
		p.PartitionEpoch++
		return p, ok
	})
	w.oracle.unclean = max(w.oracle.unclean, w.store().part.Unclean)
}

// resign lets a leader whose log took records back ask for another epoch.
func (w *world) resign(x *node) {
	if !x.runs() || x.held == 0 {
		return
	}
	w.decide("resignation of "+name(x.id), func(d election.Decider, p metadata.Partition) (metadata.Partition, bool) {
		return d.Resign(p, x.id, x.held)
	})
}
