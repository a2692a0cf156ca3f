package sim

import (
	"slices"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

// member reports whether a record has a broker in its ISR or ELR.
func member(p *metadata.Partition, broker int32) bool {
	return slices.Contains(p.ISR, broker) || slices.Contains(p.ELR, broker)
}

// mayShorten reports whether the disk of a node may lose synced records without a trace: it is the
// only member that loses any, and no operator chooses from logs.
func (w *world) mayShorten(x *node) bool {
	p := &w.store().part
	lost := func(y *node) bool { return member(p, y.id) && !w.whole(y) }
	return !w.cfg.unclean && !w.cfg.restores && member(p, x.id) && !slices.ContainsFunc(w.nodes, lost)
}

// short reports whether a member has lost synced records, and no broker knows that.
func (w *world) short() bool {
	return slices.ContainsFunc(w.nodes, func(x *node) bool { return x.short && member(&w.store().part, x.id) })
}

// shortBelow reports whether a member has lost synced records from below an offset on. A leader
// that begins there waits for a session timeout before it removes it; the walks have no such time.
func (w *world) shortBelow(at int64) bool {
	return slices.ContainsFunc(w.nodes, func(x *node) bool { return x.short && x.end() < at })
}

// compare lets a node notice that its log has lost nothing, or has copied what it had lost.
func (w *world) compare(x *node) {
	if !x.up || x.leader != nil || x.compareTo == 0 || w.counted(x) < x.compareTo-1 {
		return
	}
	if x.compared = true; x.short {
		w.logf("%s has what it had lost", name(x.id))
		w.stats["copied what was lost unnoticed"]++
		x.short = false
	}
}

// reportCompared lets a broker's heartbeat report that its logs are compared.
func (w *world) reportCompared(x *node) {
	b := &w.store().brokers[x.id]
	if !x.runs() || x.step != registered || b.epoch != x.brokerEpoch || !b.uncompared || x.image < x.brokerEpoch {
		return
	}
	p := &w.image(x).part
	if !x.compared && member(p, x.id) && len(p.ISR)+len(p.ELR) > 1 {
		return
	}
	w.commit(func(s *state) {
		b := &s.brokers[x.id]
		b.uncompared, b.livenessRev = false, s.version
	})
	w.logf("%s is compared", name(x.id))
}

// reports returns what the brokers report of their logs. One of them may be silent.
func (w *world) reports(silent int32) (all []election.LogState) {
	for _, x := range w.nodes {
		if x.id != silent && x.runs() && x.step == registered && !x.leaving && !x.flaw {
			all = append(all, election.LogState{Broker: x.id, LastEpoch: x.reported(), RecordEpoch: x.lastEpoch(), End: x.end()})
		}
	}
	return all
}

// compareLogs lets the controller compare logs of which no leader has compared one. It waits for
// others as long as a member has lost records: they return in time.
func (w *world) compareLogs() {
	if w.store().part.Leader != election.None {
		return
	}
	waited, silent := !w.short() && w.chance(2), int32(-1)
	if w.chance(3) && !w.healing {
		silent = int32(w.r.IntN(len(w.nodes)))
	}
	reports := w.reports(silent)
	w.decide("comparison of logs", func(d election.Decider, p metadata.Partition) (metadata.Partition, bool) {
		next, changed := d.Compare(p, reports, waited)
		if changed {
			w.stats["elections by comparison"]++
		}
		return next, changed
	})
}
