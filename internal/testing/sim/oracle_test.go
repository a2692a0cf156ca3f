package sim

import (
	"slices"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

// oracle judges a walk. It knows what was acknowledged and shown, and what each epoch wrote.
type oracle struct {
	acked    []fact // by offset
	shown    []fact
	ackedAny map[int]bool // values
	wrote    map[place]int
	lost     map[int64]bool // offsets that an operator gave up
	leaders  map[int32]lead
	unclean  int32 // newest epoch that began uncleanly
	chosen   int32 // the broker whose log that unclean election kept
	highs    map[int32]int64
	// keeper is the broker that acknowledged last, as a leader: its log has all that was
	// acknowledged. It is -1 if that log is not intact any more, or if another one was of a later
	// epoch, which metadata from an old copy did not know.
	keeper int32
	// eligible are the brokers that left an ISR that was too small without them, although they had
	// everything that was committed.
	eligible map[int32]bool
	// asked is the largest offset below which a client or retention asked to delete, deleted one
	// for which that was answered, and removed the largest durable log start of an epoch's leader.
	asked, deleted int64
	removed        map[int32]int64
	compacted      map[int64][]kept
	gone           map[int]bool // values that compaction removed
}

// fact is a value that a client saw at an offset, 0 for none, and the epoch in which it did.
type fact struct {
	value int
	epoch int32
}

// place is an offset in a leader epoch.
type place struct {
	epoch  int32
	offset int64
}

// lead is the process that leads in an epoch.
type lead struct {
	broker int32
	life   int
}

const maxOffsets = 64

func newOracle() oracle {
	return oracle{acked: make([]fact, maxOffsets), shown: make([]fact, maxOffsets), ackedAny: map[int]bool{}, keeper: -1,
		wrote: map[place]int{},
		lost:  map[int64]bool{}, leaders: map[int32]lead{}, highs: map[int32]int64{}, eligible: map[int32]bool{},
		removed: map[int32]int64{}, compacted: map[int64][]kept{}, gone: map[int]bool{}}
}

// knows reports whether a value was acknowledged.
func (o *oracle) knows(value int) bool { return o.ackedAny[value] }

// giveUp notes that an operator gave up the record at an offset, of which some replica may have a
// copy.
func (o *oracle) giveUp(at int64) {
	o.acked[at], o.shown[at], o.lost[at] = fact{}, fact{}, true
}

// led checks that an epoch has one leader (C3).
func (o *oracle) led(w *world, x *node, epoch int32) {
	l := lead{x.id, x.life}
	if old, ok := o.leaders[epoch]; ok && old != l {
		w.failf("C3: epoch %d is led by %s and by %s", epoch, name(old.broker), name(x.id))
	}
	o.leaders[epoch] = l
}

// appended checks that an epoch has one record at an offset (C4).
func (o *oracle) appended(w *world, x *node, at int64, e entry) {
	p := place{e.epoch, at}
	if old, ok := o.wrote[p]; ok && old != e.value && !o.lost[at] && !e.gone {
		w.failf("C4: %s has value %d at %d in epoch %d, which had value %d", name(x.id), e.value, at, e.epoch, old)
	}
	if !e.gone {
		o.wrote[p] = e.value
	}
	if x.lastEpoch() > e.epoch {
		w.failf("C4: %s appends a record of epoch %d behind one of epoch %d", name(x.id), e.epoch, x.lastEpoch())
	}
	if at >= maxOffsets {
		w.failf("the log is too long for the oracle")
	}
}

// recorded checks a new record of the partition: its ELR has all that may still be elected
// (KIP-966). gone reports whether a broker's replica has lost records. Leaders that have not seen a
// new min.insync.replicas yet decide by the old one, so that a walk in which it changes proves
// nothing.
func (o *oracle) recorded(w *world, old *metadata.Partition, gone func(broker int32) bool) {
	s := w.store()
	p := &s.part
	if len(p.ISR) >= max(1, min(s.minISR, len(p.Former()))) || p.Unclean > old.Unclean {
		clear(o.eligible)
		return
	}
	for _, b := range old.ISR {
		o.eligible[b] = true
	}
	for b := range o.eligible {
		if gone(b) || slices.Contains(p.ISR, b) {
			delete(o.eligible, b)
		} else if !slices.Contains(p.ELR, b) && w.oneMin {
			w.failf("ELR: %s left, and can no longer be elected: %s", name(b), s)
		}
	}
}

// ends checks that decisions about one state of the brokers have an end: each is made as soon as
// the one before is applied.
func (o *oracle) ends(w *world, d election.Decider) {
	p := w.store().part
	for range 10 {
		elected, first := d.Elect(p)
		completed, second := d.Complete(elected)
		if !first && !second {
			return
		}
		p = completed
	}
	w.failf("decisions about %+v have no end", w.store().part)
}

// believers checks that the brokers that may believe that they lead are in the ISR: without them,
// others would commit records that their readers lack. One that has given its leadership up trusts
// no lease.
func (o *oracle) believers(w *world) {
	s := w.store()
	for _, x := range w.nodes {
		b := &s.brokers[x.id]
		session := x.up && x.step == registered && b.epoch == x.brokerEpoch && b.liveness != metadata.Fenced && x.image >= b.runs
		former := session && x.leader != nil && x.leader.Epoch() < s.part.Unclean // nothing is promised to its readers
		if session && x.leader != nil && !former && !x.flaw && !b.damaged && !slices.Contains(s.part.ISR, x.id) {
			w.failf("%s may believe that it leads: %s", name(x.id), s)
		}
	}
}

// acknowledged notes an acknowledgement with acks=all. One of a leader that an unclean election has
// replaced may be lost.
func (o *oracle) acknowledged(w *world, x *node, a wait) {
	if x.epoch < o.unclean || o.lost[a.offset] {
		return
	}
	f := &o.acked[a.offset]
	if f.value != 0 && f.value != a.value {
		w.failf("offset %d is acknowledged as value %d and as %d", a.offset, f.value, a.value)
	}
	*f = fact{a.value, x.epoch}
	o.keeper = x.id
	if slices.ContainsFunc(w.nodes, func(y *node) bool { return y.reported() > x.epoch }) {
		o.keeper = -1
	}
	o.ackedAny[a.value] = true
	w.stats["acknowledged"]++
	w.logf("%s acknowledges offset %d value %d", name(x.id), a.offset, a.value)
}

// read lets a client read all that a node shows, and checks that nothing shown changes (C2).
func (o *oracle) read(w *world, x *node) {
	if !x.runs() || x.offline || x.step != registered || w.cfg.restores && w.gone() { // an operator decides what remains
		return
	}
	if x.leader == nil && x.seen() > x.epoch || x.flaw {
		return // it has what an unclean election took back, or lacks what others serve
	}
	high, epoch := x.high()
	for at := x.start; at < min(high, x.end()); at++ {
		if x.log[at].gone {
			continue
		}
		f, now := &o.shown[at], x.log[at].value
		if f.value != 0 && f.value != now && !(o.unclean > min(f.epoch, epoch) && o.unclean <= max(f.epoch, epoch)) && epoch >= o.unclean {
			w.failf("C2: %s shows value %d at offset %d in epoch %d, and value %d was shown in epoch %d", name(x.id), now, at, epoch,
				f.value, f.epoch)
		}
		if epoch >= f.epoch && !o.lost[at] {
			*f = fact{now, epoch}
		}
	}
	if high > x.end() {
		w.failf("C2: the high watermark %d of %s is above its end %d", high, name(x.id), x.end())
	}
	w.stats["reads"]++
}

// refused judges the refusal of a truncation below the high watermark.
func (o *oracle) refused(w *world, x *node, to int64) {
	w.stats["refused truncations"]++
	if o.unclean == 0 {
		high, _ := x.high()
		w.failf("%s has to truncate to %d, below its high watermark %d", name(x.id), to, high)
	}
}

// cutBelow notes that an unclean election lowered a high watermark.
func (o *oracle) cutBelow(x *node) { delete(o.highs, x.id) }

func (o *oracle) started(x *node) { delete(o.highs, x.id) }

// destroyed notes that a log has lost records.
func (o *oracle) destroyed(x *node) {
	if o.keeper == x.id {
		o.keeper = -1
	}
}

// compared checks that an election that compared logs chose one that has all that was acknowledged,
// because another log that has it took part.
func (o *oracle) compared(w *world, leader *node) {
	for at, f := range o.acked {
		if f.value != 0 && !o.has(leader, int64(at), f.value, leader.end()) {
			w.failf("C1: %s is elected, and lacks value %d at offset %d, which was acknowledged in epoch %d", name(leader.id), f.value, at,
				f.epoch)
		}
	}
}

// forgive drops what an unclean election lost.
func (o *oracle) forgive(leader *node, counted int64, epoch int32) {
	o.unclean, o.chosen, o.keeper = epoch, leader.id, -1
	o.asked, o.deleted = max(min(o.asked, counted), leader.start), min(o.deleted, leader.startSynced)
	for _, facts := range [][]fact{o.acked, o.shown} {
		for at := range facts {
			if int64(at) >= counted || leader.log[at].value != facts[at].value {
				facts[at] = fact{}
			}
		}
	}
	for at := leader.start; at < leader.end(); at++ {
		// What compaction removed is lost with the record because of which it did. Others may still
		// show it.
		if leader.log[at].gone && !o.has(leader, at, leader.log[at].value, leader.end()) {
			o.acked[at], o.shown[at], o.lost[at] = fact{}, fact{}, true
		}
	}
}

// restored notes that the metadata was restored. What remains acknowledged is what the next
// unclean election keeps, whose epoch may be below those before.
func (o *oracle) restored() {
	o.unclean = 0
	for _, facts := range [][]fact{o.acked, o.shown} {
		for at := range facts {
			facts[at].epoch = 0
		}
	}
	clear(o.eligible)
}

// check checks after each step what must always hold.
func (o *oracle) check(w *world) {
	s := w.store()
	p := &s.part
	for _, x := range w.nodes {
		if high, _ := x.high(); x.up && x.step == registered {
			if high < o.highs[x.id] {
				w.failf("C5: the high watermark of %s falls from %d to %d", name(x.id), o.highs[x.id], high)
			}
			o.highs[x.id] = high
		}
		if !slices.Contains(p.ISR, x.id) && !slices.Contains(p.ELR, x.id) || !w.whole(x) {
			continue
		}
		end := x.durable
		if x.through {
			end = x.written
		}
		o.starts(w, x)
		for at, f := range o.acked {
			if f.value != 0 && !o.has(x, int64(at), f.value, end) {
				w.failf("C1: %s lacks value %d at offset %d, which was acknowledged in epoch %d: %s", name(x.id), f.value, at, f.epoch, s)
			}
		}
	}
}

// final judges the cluster after it has recovered.
func (o *oracle) final(w *world) {
	l := w.nodes[w.store().part.Leader]
	for at, f := range o.acked {
		if f.value != 0 && !o.has(l, int64(at), f.value, l.end()) {
			w.failf("LOST: value %d at offset %d, acknowledged in epoch %d", f.value, at, f.epoch)
		}
	}
	for at, f := range o.shown {
		if f.value != 0 && f.epoch >= o.unclean && !o.has(l, int64(at), f.value, l.end()) {
			w.failf("VANISHED: value %d at offset %d, shown in epoch %d", f.value, at, f.epoch)
		}
	}
	seen := map[int]bool{}
	for at, e := range l.log {
		if e.value == 0 || int64(at) < max(l.start, o.asked) {
			continue // what clients asked to delete may come back with another leader until that is answered
		}
		if seen[e.value] {
			w.failf("TWICE: value %d, again at offset %d", e.value, at)
		}
		seen[e.value] = true
		for _, b := range w.store().part.Replicas {
			x := w.nodes[b]
			if x.log[at] != e && !x.log[at].gone && int64(at) >= x.start && !o.lost[int64(at)] {
				w.failf("C4: %s differs from its leader at offset %d", name(x.id), at)
			}
		}
	}
}
