package sim

import (
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

// walk runs one walk to its end or to its first violation.
func walk(seed uint64, cfg config) *world {
	w := newWorld(seed, cfg)
	for range cfg.steps {
		w.step()
		if w.fault != "" {
			return w
		}
	}
	w.heal()
	return w
}

// step does one random thing.
func (w *world) step() {
	n := len(w.nodes)
	x, y := w.nodes[w.r.IntN(n)], w.nodes[w.r.IntN(n)]
	w.now += time.Duration(w.r.IntN(20)) * time.Millisecond
	switch k := w.r.IntN(44); {
	case k < 4:
		if l := w.image(x).part.Leader; l >= 0 {
			w.produce(w.nodes[l])
		}
	case k < 7:
		w.syncSome(x)
	case k < 11:
		if x != y {
			w.push(x, y.id)
		}
	case k < 15:
		if x != y {
			w.deliver(x.id, y.id)
		}
	case k < 17:
		w.ack(x)
	case k < 18:
		w.subscribe(x)
	case k < 21:
		if x.runs() {
			w.number(x)
		}
	case k < 23:
		if behind := len(w.history) - 1 - int(x.image); x.runs() && behind > 0 {
			w.see(x, x.image+1+int64(w.r.IntN(behind)))
		}
	case k < 24:
		if l := w.store().part.Leader; l >= 0 {
			x = w.nodes[l]
		}
		w.propose(x)
	case k < 26:
		if len(w.writes) > 0 && (!w.slow || w.chance(6)) {
			w.apply(w.r.IntN(len(w.writes)))
		}
	case k < 27:
		w.deliverAnswer()
		w.deliverStray()
	case k < 28:
		w.oracle.read(w, x)
	case k < 32:
		if l := w.store().part.Leader; l >= 0 && w.chance(2) {
			x = w.nodes[l]
		}
		if x != y {
			w.stretch(x, y)
		}
	case k < 34:
		switch w.r.IntN(10) {
		case 9:
			w.halfDelete()
		case 8:
			w.renewLog()
		case 0:
			w.joining()
			w.ambush()
		case 1:
			w.ambushFormer()
		case 2:
			w.moveTwice()
		default:
			w.ambush()
		}
	case k < 44:
		w.rare(k, x, y)
	}
	w.starts(x)
	w.compare(x)
	w.oracle.check(w)
}

// starts lets the log starts of the nodes move, and compaction run.
func (w *world) starts(x *node) {
	switch w.r.IntN(24) {
	case 0:
		w.syncStart(x)
	case 1:
		w.moveStart(x)
	case 2:
		if l := w.image(x).part.Leader; l >= 0 && w.chance(4) {
			w.deleteRecords(w.nodes[l])
		}
	case 3:
		w.compact(x)
	}
}

// rare does something that happens rarely: a fault, a recovery, or a decision of the controller.
func (w *world) rare(k int, x, y *node) {
	switch k {
	case 34:
		if w.chance(4) {
			w.crash(x, []crashKind{kill, kill, power, power, wipe, unmount, rollback, shorten}[w.r.IntN(8)])
		}
	case 35:
		w.start(x)
	case 36:
		w.revive(x)
	case 37, 38:
		w.register(x)
		if w.chance(3) {
			w.intrude(x)
		}
		w.register(x)
	case 39:
		w.report(x)
		w.reportCompared(x)
		w.replace(x)
		w.activate(x)
		w.place(x)
		if w.chance(4) {
			w.heartbeat(x)
		}
	case 40:
		w.work(x.id)
		live := w.store().brokers[x.id].liveness
		if live == metadata.Active && w.chance(2) && (!x.runs() || w.chance(6)) {
			if w.fence(x.id); x != y && w.store().brokers[y.id].liveness == metadata.Active && w.chance(3) {
				w.fence(y.id) // the controller decides about both at once
			}
		} else if live == metadata.Active && w.chance(12) {
			w.setLiveness(x.id, metadata.Draining)
		}
	case 41:
		w.breakSomething(x, y)
	case 42:
		w.resign(x)
		w.raise(x)
		if w.chance(3) {
			w.prefer()
		} else if p := w.store().part; w.chance(3) && p.Leader == x.id {
			w.decide("move from "+name(x.id), func(d election.Decider, p metadata.Partition) (metadata.Partition, bool) {
				return d.Resign(p, x.id, p.LeaderEpoch)
			})
		}
	case 43:
		if w.chance(6) {
			w.setLow(x.id, !w.store().brokers[x.id].low)
		}
		w.elect()
		w.compareLogs()
		w.endReassignment(8)
		w.forget(x)
		w.adopt(x)
		if w.chance(20) {
			w.commit(func(s *state) { s.written = !s.written })
		}
		if w.chance(10) {
			min := 1 + w.r.IntN(2)
			if !w.oneMin {
				w.commit(func(s *state) { s.minISR = min })
			}
		}
		if w.cfg.unclean && w.chance(10) || w.cfg.restores && w.gone() && w.chance(2) {
			w.electUnclean()
		}
		if w.cfg.restores && w.chance(6) {
			w.restoreMetadata()
		}
		if w.chance(4) {
			w.now += time.Duration(w.r.IntN(4000)) * time.Millisecond
		}
	}
}

func (w *world) breakSomething(x, y *node) {
	faults := 5
	if w.moves() {
		faults = 7
	}
	switch w.r.IntN(faults) {
	case 0:
		x.paused = !x.paused && w.chance(3)
	case 1:
		if x != y {
			w.breakLink(x.id, y.id)
		}
	case 2:
		l := &w.links[x.id][y.id]
		l.cut = !l.cut && w.chance(3)
	case 3:
		if w.chance(4) {
			w.damage(x)
		}
		w.revert(x)
	case 4:
		if len(w.writes) > 0 && w.chance(2) {
			w.writes = w.writes[1:] // lost
		}
	case 5:
		w.reassign()
	case 6:
		w.removeAndAdd()
	}
}

// revive lets a node come back without a fault on its way.
func (w *world) revive(x *node) {
	w.start(x)
	for range 3 {
		w.register(x)
	}
	if x.step != registered || !x.runs() || w.chance(4) {
		return
	}
	w.see(x, int64(len(w.history)-1))
	w.activate(x)
	w.place(x)
	w.see(x, int64(len(w.history)-1))
	if l := w.image(x).part.Leader; l >= 0 && l != x.id {
		if leader := w.nodes[l]; leader.runs() && leader.step == registered && w.chance(2) {
			w.see(leader, int64(len(w.history)-1))
		}
		w.stretch(w.nodes[l], x)
		w.propose(w.nodes[l])
	}
}

// stretch lets the stream between two nodes work for a while.
func (w *world) stretch(l, f *node) {
	for range 4 {
		w.subscribe(f)
		w.deliver(f.id, l.id)
		w.push(l, f.id)
		w.deliver(l.id, f.id)
		if f.runs() {
			w.number(f)
		}
		if l.runs() {
			w.number(l)
		}
		w.syncSome(f)
		w.syncSome(l)
		w.ack(f)
		w.deliver(f.id, l.id)
	}
}

// heal ends all faults. The cluster must then recover on its own, unless every copy that could be
// elected is gone: an operator then accepts a loss.
func (w *world) heal() {
	for i := range w.links {
		for j := range w.links[i] {
			w.links[i][j].cut = false
		}
	}
	for _, x := range w.nodes {
		x.paused = false
	}
	w.healing = true
	for k := 0; k < 8000 && w.fault == ""; k++ {
		w.now += 10 * time.Millisecond
		if k > 400 {
			w.now += 40 * time.Millisecond // the penalties of slow members end
		}
		w.healStep(w.nodes[w.r.IntN(len(w.nodes))], w.nodes[w.r.IntN(len(w.nodes))])
		if k%800 == 0 {
			w.repairLast()
		}
		if k == 800 && w.gone() {
			w.stats["operator"]++
			w.electUnclean()
		}
		if k == 1600 && w.gone() { // all that remain are damaged
			for _, x := range w.nodes {
				w.repair(x)
			}
			w.electUnclean()
		}
		if k > 1600 && w.gone() && !slices.ContainsFunc(w.store().part.Replicas, w.store().Online) {
			w.stats["all directories lost"]++ // nothing but a new topic helps
			return
		}
		if k%25 == 24 {
			w.retryStreams()
			if w.recovered() {
				w.oracle.final(w)
				return
			}
		}
		w.oracle.check(w)
	}
	if w.fault == "" {
		for _, x := range w.nodes {
			high, _ := x.high()
			w.logf("%s: epoch %d with %d to %d, high %d, subscription %+v offline %v", name(x.id), x.epoch, x.start, x.end(), high,
				x.sub, x.offline)
		}
		w.failf("does not recover: %s", w.store())
	}
}

func (w *world) healStep(x, y *node) {
	w.start(x)
	w.register(x)
	w.setLow(x.id, false)
	w.see(x, max(x.image, int64(len(w.history)-1)))
	w.work(x.id)
	switch w.store().brokers[x.id].liveness {
	case metadata.Draining, metadata.Drained:
		w.setLiveness(x.id, metadata.Fenced)
	default:
		w.activate(x)
	}
	w.report(x)
	w.compare(x)
	w.reportCompared(x)
	w.replace(x)
	w.place(x)
	w.resign(x)
	w.raise(x)
	w.restore(x)
	w.elect()
	w.compareLogs()
	w.endReassignment(0)
	w.forget(x)
	w.propose(x)
	if len(w.writes) > 0 {
		w.apply(w.r.IntN(len(w.writes)))
	}
	w.deliverAnswer()
	w.deliverStray()
	for i := range w.links {
		w.deliver(int32(i), x.id)
		w.deliver(int32(i), x.id)
	}
	w.subscribe(x)
	w.number(x)
	w.number(x)
	x.written, x.durable = x.end(), x.end()
	w.note(x)
	w.moveStart(x)
	w.syncStart(x)
	w.adopt(x)
	w.advance(x)
	if x != y && len(w.links[x.id][y.id].frames) < 4 {
		w.push(x, y.id)
	}
	if l := w.image(x).part.Leader; l >= 0 && len(w.links[x.id][l].frames) < 4 {
		w.ack(x)
	}
	if w.chance(8) {
		w.oracle.read(w, x)
	}
}

// gone reports whether no replica may be elected any more.
func (w *world) gone() bool {
	p := &w.store().part
	return p.Leader == election.None && len(p.ISR)+len(p.ELR) == 0
}

// retryStreams lets the followers that wait for a lost answer subscribe again.
func (w *world) retryStreams() {
	for _, x := range w.nodes {
		l := w.store().part.Leader
		if l < 0 || l == x.id || x.sub.tag == 0 {
			continue
		}
		if s := &w.nodes[l].slots[x.id]; !s.ok || s.tag != x.sub.tag {
			x.sub = subscription{}
		}
	}
}

// recovered reports whether all replicas are in sync and have the same log, all of it committed.
func (w *world) recovered() bool {
	s := w.store()
	p := &s.part
	if p.Leader == election.None || len(p.ISR) != len(p.Replicas) || len(p.ELR) > 0 || p.Reassigning() {
		return false
	}
	l := w.nodes[p.Leader]
	if l.leader == nil || l.leader.Epoch() != p.LeaderEpoch || l.leader.High() != l.end() {
		return false
	}
	for _, b := range p.Replicas {
		x := w.nodes[b]
		if !x.up || x.offline || x.flaw || x.end() != l.end() || x.startSynced < l.startSynced || x.image != s.version || len(x.queue) > 0 {
			return false
		}
	}
	return true
}
