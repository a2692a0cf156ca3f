package sim

import (
	"slices"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// crashKind is a way in which a broker stops.
type crashKind uint8

const (
	kill     crashKind = iota // the process; the operating system has what was written
	power                     // the machine; unsynced bytes may be lost
	wipe                      // the machine and its disk
	unmount                   // as kill, and the next start finds an empty disk or an earlier one
	rollback                  // as kill, and an older copy of the disk is put back
	shorten                   // as kill, and the disk loses synced records at the end of the log
)

var crashNames = [...]string{"killed", "without power", "wiped", "without its disk", "put back", "shortened"}

// disk is a log directory that is not mounted.
type disk struct {
	dir        dir
	log        []entry
	start      int64
	base       int64
	savedHigh  int64
	savedEpoch int32
	lossy      bool
	led        int32
	flaw       bool
	hole       int64
	relied     int64
	short      bool
}

// whole reports whether a node has everything that it acknowledged.
func (w *world) whole(x *node) bool {
	b := &w.store().brokers[x.id]
	return !x.lossy && !x.flaw && !x.short && (b.placement == dir{} || b.placement == x.dir)
}

// expendable reports whether the records of a node may be destroyed: another member of ISR or ELR
// has them, also if a proposal is accepted that is on its way, and none has lost records unnoticed.
// No protocol survives the destruction of every copy.
func (w *world) expendable(x *node) bool {
	p := &w.store().part
	if w.short() {
		return false
	}
	for _, y := range w.nodes {
		leaves := func(t write) bool {
			q := &t.proposal
			return q.ID != 0 && q.Revision == p.Revision && !slices.Contains(q.ISR, y.id) && !slices.Contains(q.ELR, y.id)
		}
		if y != x && member(p, y.id) && w.whole(y) && !slices.ContainsFunc(w.writes, leaves) {
			return true
		}
	}
	return false
}

// unplaced reports whether an unclean election may have chosen a replica whose directory is not
// recorded yet: its records count, and the metadata do not notice another directory.
func (w *world) unplaced(x *node) bool {
	s := w.store()
	return s.part.Unclean > 0 && member(&s.part, x.id) && s.brokers[x.id].placement == (dir{})
}

// crash stops a node.
func (w *world) crash(x *node, how crashKind) {
	if !x.up {
		return
	}
	loses := how != kill && (how != power || x.through)
	if loses && (!w.expendable(x) || w.unplaced(x)) || how == shorten && !w.mayShorten(x) {
		how = kill
	}
	keep := x.written
	switch how {
	case power:
		keep = x.durable + int64(w.r.IntN(int(x.written-x.durable)+1))
		x.lossy = x.lossy || x.through
	case wipe:
		keep, x.startSynced, x.base, x.led = 0, 0, 0, 0
		x.dir, x.lossy, x.flaw, x.hole, x.relied, x.savedHigh, x.savedEpoch = w.newDir(), false, false, 0, 0, 0, 0
		x.short = false
	case unmount:
		keep = w.mountOther(x)
	case shorten:
		end := x.written
		low := min(max(x.startSynced, w.oracle.asked), end) // see shortBelow
		keep = low + w.r.Int64N(end-low+1)
		x.short = x.short || keep < end
		x.shortened = x.short
	case rollback:
		x.startSynced = x.base + w.r.Int64N(x.startSynced-x.base+1)
		keep = x.startSynced + w.r.Int64N(x.written-x.startSynced+1)
		x.lossy, x.led = true, 0
	}
	if how != kill && (how != power || x.through) {
		w.oracle.destroyed(x)
	}
	w.stats[crashNames[how]]++
	x.start, x.moves, x.deletions = x.startSynced, nil, nil
	w.logf("%s is %s: %d to %d of %d remain", name(x.id), crashNames[how], x.start, keep, x.end())
	x.log = slices.Clone(x.log[:keep])
	x.written, x.durable, x.savedHigh = keep, keep, min(x.savedHigh, keep)
	x.up, x.paused, x.offline, x.leaving, x.leader = false, false, false, false, nil
	x.queue, x.waits, x.sub = nil, nil, subscription{}
	for _, y := range w.nodes {
		if y != x {
			w.breakLink(x.id, y.id)
		}
	}
	clear(x.slots)
	w.stray = slices.DeleteFunc(w.stray, func(s stray) bool { return s.to == x.id })
}

// mountOther replaces a node's disk with the one that was unmounted before, or an empty one. It
// returns the number of records on it.
func (w *world) mountOther(x *node) int64 {
	old := x.spare
	x.spare = disk{dir: x.dir, log: slices.Clone(x.log[:x.written]), savedHigh: x.savedHigh, savedEpoch: x.savedEpoch, lossy: x.lossy,
		led: x.led, short: x.short, flaw: x.flaw, hole: x.hole, relied: x.relied, start: x.startSynced, base: x.base}
	if old.dir == (dir{}) {
		old.dir = w.newDir()
	}
	x.dir, x.log, x.savedHigh, x.savedEpoch, x.lossy, x.led = old.dir, old.log, old.savedHigh, old.savedEpoch, old.lossy, old.led
	x.flaw, x.hole, x.relied, x.startSynced, x.base, x.short = old.flaw, old.hole, old.relied, old.start, old.base, old.short
	return x.end()
}

// start starts a node's process.
func (w *world) start(x *node) {
	if x.up {
		return
	}
	if x.brokerEpoch != 0 {
		x.former = x.brokerEpoch
	}
	x.up, x.step, x.brokerEpoch = true, unregistered, 0
	x.life++
	x.void, x.entered, x.compareTo, x.compared, x.shortened = 0, false, 0, false, x.short
	x.fence, x.held, x.epoch, x.image = 0, 0, 0, 0
	x.cache = epochs.Cache{}
	for at, e := range x.log[x.base:] {
		x.cache.Assign(e.epoch, x.base+int64(at))
	}
	x.cache.CutStart(x.start)
	x.follower = progress.Follower{Broken: w.cfg.removed.inProgress(), High: x.savedHigh, Epoch: x.savedEpoch}
	x.follower.Follow()
	if w.cfg.removed.has(highFromEnd) {
		x.follower.High = x.end()
	}
	w.oracle.started(x)
	w.logf("%s starts with %d to %d, high %d", name(x.id), x.start, x.end(), x.follower.High)
}

// revert takes back what a failed journal write left in the log.
func (w *world) revert(x *node) {
	keep := x.durable
	if x.through {
		keep = x.written
	}
	if !x.up || keep == x.end() {
		return
	}
	w.logf("%s reverts %d to %d", name(x.id), x.end(), keep)
	w.stats["reverts"]++
	x.log = slices.Clone(x.log[:keep])
	x.written = keep
	x.cache.CutEnd(keep)
	if x.leader == nil {
		x.sub, x.queue = subscription{}, nil
		return
	}
	x.waits = slices.DeleteFunc(x.waits, func(a wait) bool { return a.offset >= keep })
	if w.cfg.removed.has(resumeAfterRevert) {
		x.cache.Assign(x.epoch, x.end())
		for i := range x.slots {
			x.slots[i].cursor = min(x.slots[i].cursor, keep)
		}
		return
	}
	x.held = x.leader.Epoch()
	w.stepDown(x)
}

// ambush attacks a replica that is about to join the ISR, at the worst moment: it dies and returns
// around the decision of the store, or its stream breaks while the leader continues.
func (w *world) ambush() {
	for k := range w.writes {
		t := &w.writes[k]
		l := w.nodes[t.from]
		for _, b := range t.proposal.ISR {
			x := w.nodes[b]
			if slices.Contains(w.store().part.ISR, b) || b == t.from || !x.up || x.step != registered {
				continue
			}
			if w.chance(2) {
				w.breakLink(l.id, x.id)
				w.goOn(l)
			} else {
				w.crash(x, []crashKind{wipe, power}[w.r.IntN(2)])
				w.start(x)
				w.stats["ambushes"]++
			}
			for range 4 {
				if k < len(w.writes) && w.chance(3) {
					w.apply(k)
				}
				w.register(x)
				if w.chance(4) {
					w.heartbeat(x)
				}
			}
			if k < len(w.writes) && w.chance(2) {
				w.apply(k)
			}
			return
		}
	}
}

// joining lets a leader propose that a follower joins, unless such a proposal is on its way.
func (w *world) joining() {
	l := w.store().part.Leader
	if l < 0 || !w.nodes[l].runs() || w.nodes[l].step != registered {
		return
	}
	f := w.nodes[w.r.IntN(len(w.nodes))]
	if slices.Contains(w.store().part.ISR, f.id) || f.id == l {
		return
	}
	w.revive(f)
	w.see(w.nodes[l], int64(len(w.history)-1))
	w.stretch(w.nodes[l], f)
	w.propose(w.nodes[l])
}

// ambushFormer wipes an in-sync follower whose former process has messages on their way, and brings
// them into the middle of the registration of the next process.
func (w *world) ambushFormer() {
	l := w.store().part.Leader
	f := w.nodes[w.r.IntN(len(w.nodes))]
	if l < 0 || l == f.id || !w.nodes[l].runs() || w.nodes[l].step != registered || !f.runs() || f.step != registered {
		return
	}
	w.place(f)
	w.stretch(w.nodes[l], f)
	w.crash(f, wipe)
	w.start(f)
	w.register(f)
	w.register(f)
	w.intrude(f)
	w.register(f)
}

// prefer makes the preferred replica the leader. It may lead for a while before the former leader
// knows that.
func (w *world) prefer() {
	w.decide("preferred leader", election.Decider.Prefer)
	l := w.store().part.Leader
	if l < 0 || !w.nodes[l].runs() || w.nodes[l].step != registered || !w.chance(2) {
		return
	}
	w.see(w.nodes[l], int64(len(w.history)-1))
	for range 2 {
		w.propose(w.nodes[l])
		w.now += limits.Lag
	}
	if n := len(w.writes); n > 0 && w.chance(2) {
		w.apply(n - 1)
	}
}

// moveTwice makes another replica the leader and takes the leadership back before it has written.
func (w *world) moveTwice() {
	for range 2 {
		l := w.store().part.Leader
		if l < 0 {
			return
		}
		w.decide("move from "+name(l), func(d election.Decider, p metadata.Partition) (metadata.Partition, bool) {
			return d.Resign(p, l, p.LeaderEpoch)
		})
		for _, x := range w.nodes {
			if x.runs() && x.step == registered {
				w.see(x, int64(len(w.history)-1))
			}
		}
	}
	if l := w.store().part.Leader; l >= 0 {
		w.goOn(w.nodes[l])
	}
}

// goOn lets a leader repeat its proposal, append, and replicate to the members of its ISR.
func (w *world) goOn(l *node) {
	if !l.runs() || l.leader == nil {
		return
	}
	w.now += limits.Repeat
	w.propose(l)
	w.produce(l)
	for _, b := range w.image(l).part.ISR {
		if f := w.nodes[b]; f != l {
			w.stretch(l, f)
		}
	}
}

// intrude brings late messages of a broker's former process into the middle of its registration,
// and lets the leader act on them.
func (w *world) intrude(x *node) {
	if x.step != marked && x.step != adjusted {
		return
	}
	if w.chance(2) {
		w.heartbeat(x)
	}
	for k := range w.writes {
		if w.writes[k].from == x.id && w.writes[k].placement != (dir{}) {
			w.apply(k)
			break
		}
	}
	l := w.store().part.Leader
	if l < 0 || !w.nodes[l].runs() || w.nodes[l].step != registered {
		return
	}
	w.see(w.nodes[l], int64(len(w.history)-1))
	w.goOn(w.nodes[l])
	if n := len(w.writes); n > 0 && w.chance(2) {
		w.apply(n - 1)
	}
}
