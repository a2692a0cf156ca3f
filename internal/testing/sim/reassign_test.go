package sim

import (
	"slices"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// moves reports whether replicas move in this walk.
func (w *world) moves() bool { return w.cfg.nodes > w.cfg.replicas }

// reassign begins a reassignment to random replicas, or cancels the one in progress.
func (w *world) reassign() {
	if w.store().part.Reassigning() && w.chance(3) {
		w.move("CANCEL", election.Decider.Cancel)
		w.stats["cancellations"]++
		return
	}
	order := w.r.Perm(len(w.nodes))[:1+w.r.IntN(min(3, len(w.nodes)))]
	target := make([]int32, len(order))
	for i, n := range order {
		target[i] = int32(n)
	}
	w.moveTo(target)
}

func (w *world) moveTo(target []int32) {
	if slices.Equal(target, w.store().part.Replicas) {
		return
	}
	w.move("reassign to "+names(target), func(d election.Decider, p metadata.Partition) (metadata.Partition, bool) {
		return d.Reassign(p, target)
	})
	w.stats["reassignments"]++
}

// move changes the replicas of the partition, unless every copy that would remain was destroyed and
// the metadata does not know it yet.
func (w *world) move(what string, f func(election.Decider, metadata.Partition) (metadata.Partition, bool)) {
	w.decide(what, func(d election.Decider, p metadata.Partition) (metadata.Partition, bool) {
		next, changed := f(d, p)
		keeps := func(b int32) bool { return w.whole(w.nodes[b]) && w.store().brokers[b].dir == w.nodes[b].dir }
		if !slices.ContainsFunc(slices.Concat(next.ISR, next.ELR), keeps) {
			return p, false
		}
		return next, changed
	})
}

// endReassignment lets the controller complete the reassignment in progress, in one of n cases; 0
// means always.
func (w *world) endReassignment(n int) {
	if n > 0 && !w.chance(n) {
		return
	}
	before := w.store().part.Reassigning()
	w.move("complete", election.Decider.Complete)
	if before && !w.store().part.Reassigning() {
		w.stats["completions"]++
	}
}

// release ends the replica of a node that the record does not name.
func (w *world) release(x *node, p *metadata.Partition) {
	if x.leaving {
		return
	}
	w.stepDown(x)
	x.sub, x.queue, x.waits = subscription{}, nil, nil
	x.leaving = x.end() > 0 || w.image(x).brokers[x.id].placement == x.dir
	x.epoch = p.LeaderEpoch
	w.fenceLog(x, p.LeaderEpoch)
}

// forget lets a node delete the log of a replica that it no longer has, and remove its placement.
func (w *world) forget(x *node) {
	if !x.runs() || !x.leaving || x.step != registered {
		return
	}
	w.logf("%s deletes its log", name(x.id))
	b := &w.image(x).brokers[x.id]
	seen := progress.Compare{BrokerEpoch: b.epoch, Liveness: b.livenessRev}
	if b.placement != (dir{}) && !w.image(x).part.HasReplica(x.id) {
		w.writes = append(w.writes, write{from: x.id, removal: true, removed: w.image(x).part.Revision, compare: seen})
	}
	w.empty(x)
	x.leaving, x.offline, x.epoch = false, false, 0
	x.follower = progress.Follower{Broken: w.cfg.removed.inProgress()}
	x.follower.Follow()
	w.oracle.started(x)
	w.stats["logs deleted"]++
	w.see(x, x.image)
}

// empty gives a node a new log.
func (w *world) empty(x *node) {
	x.log, x.written, x.durable, x.savedHigh, x.savedEpoch, x.held = nil, 0, 0, 0, 0, 0
	x.flaw, x.hole, x.relied, x.led = false, 0, 0, 0
	w.oracle.destroyed(x)
	x.base, x.start, x.startSynced, x.moves, x.cache = 0, 0, 0, nil, epochs.Cache{}
}

// removeAndAdd removes an in-sync follower, which deletes its log, and adds it again before the
// leader has seen either.
func (w *world) removeAndAdd() {
	p := &w.store().part
	l := p.Leader
	if l < 0 || p.Reassigning() || !w.nodes[l].runs() || w.nodes[l].step != registered || len(p.Replicas) < 2 {
		return
	}
	f := w.nodes[p.Replicas[w.r.IntN(len(p.Replicas))]]
	if f.id == l || !f.runs() || f.step != registered {
		return
	}
	w.see(w.nodes[l], int64(len(w.history)-1))
	w.stretch(w.nodes[l], f)
	replicas := p.Replicas
	w.moveTo(slices.DeleteFunc(slices.Clone(replicas), func(b int32) bool { return b == f.id }))
	w.see(f, int64(len(w.history)-1))
	w.endReassignment(0)
	w.see(f, int64(len(w.history)-1))
	w.forget(f)
	w.moveTo(replicas)
	w.see(w.nodes[l], int64(len(w.history)-1))
	w.propose(w.nodes[l])
	if n := len(w.writes); n > 0 && w.chance(2) {
		w.apply(n - 1)
	}
}
