package sim

import (
	"slices"

	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// move is a change of a follower's log start that its leader asked for, in a leader epoch.
type move struct {
	to    int64
	epoch int32
}

// keys is the number of keys of values.
const keys = 3

// deleteRecords lets a client delete records at a leader, or retention remove them: the log start
// moves in memory. The log first is durable up to there.
func (w *world) deleteRecords(x *node) {
	if !x.runs() || x.leader == nil || x.leader.High() <= x.start {
		return
	}
	to := x.start + 1 + int64(w.r.IntN(int(x.leader.High()-x.start)))
	if to > x.durable || w.shortBelow(to) {
		return
	}
	w.oracle.ask(x, to)
	w.logf("%s deletes its records below %d", name(x.id), to)
	w.stats["deletions"]++
	x.start = to
	x.cache.CutStart(to)
	if !w.chance(3) {
		x.deletions = append(x.deletions, to)
	}
}

// syncStart makes a node's log start durable.
func (w *world) syncStart(x *node) {
	if !x.runs() || x.startSynced == x.start {
		return
	}
	x.startSynced = x.start
	if x.leader == nil {
		x.follower.LogStart(x.start, x.epoch)
		return
	}
	x.leader.OwnLogStart(x.startSynced)
	w.oracle.removed[x.epoch] = max(w.oracle.removed[x.epoch], x.startSynced)
	w.answerDeletions(x)
}

// reportStart lets a follower report to its leader where its log begins, if that has moved.
func (w *world) reportStart(x *node, to int32) {
	if x.startSynced > x.sub.reported {
		x.sub.reported = x.startSynced
		w.send(x.id, to, frame{kind: frameStart, handle: x.sub.handle, start: x.startSynced})
	}
}

// answerDeletions answers the deletions that all replicas have that may be elected.
func (w *world) answerDeletions(x *node) {
	if x.leader == nil {
		return
	}
	low := x.leader.MinLogStart()
	x.deletions = slices.DeleteFunc(x.deletions, func(to int64) bool {
		if to <= low {
			w.oracle.deletedUpTo(w, x, to)
		}
		return to <= low
	})
}

// named lets a follower note the log start that its leader sent with records up to next.
func (w *world) named(x *node, start, next int64) {
	if start > x.startSynced && start <= next {
		x.moves = append(x.moves, move{start, x.epoch})
	}
}

// moveStart lets a follower do the first move of its log start. It waits until the log is durable
// up to there.
func (w *world) moveStart(x *node) {
	if !x.runs() || len(x.moves) == 0 {
		return
	}
	m := x.moves[0]
	late := m.epoch != x.fence || x.leader != nil
	if late && !w.cfg.removed.has(moveAnyStart) {
		x.moves = x.moves[1:]
		return
	}
	if m.to > x.durable {
		return
	}
	x.moves = x.moves[1:]
	if m.to <= x.start {
		return
	}
	w.logf("%s moves its log start from %d to %d, as the leader of epoch %d did", name(x.id), x.start, m.to, m.epoch)
	w.stats["moves of followers"]++
	w.oracle.moves(w, x, m.to)
	w.oracle.ask(x, m.to)
	x.start = m.to
	x.cache.CutStart(m.to)
}

// reset lets a follower whose log lacks what the leader has removed, or more, begin again, empty.
func (w *world) reset(x *node, to int64) {
	x.sub = subscription{}
	if p := &w.image(x).part; slices.Contains(p.ISR, x.id) || slices.Contains(p.ELR, x.id) {
		return
	}
	w.logf("%s with %d to %d begins again at %d", name(x.id), x.start, x.end(), to)
	w.stats["resets"]++
	if to < x.start {
		w.stats["resets of logs above the leader's"]++
	}
	x.follower.Reset(to)
	w.oracle.ask(x, to)
	w.oracle.cutBelow(x)
	x.log, x.relied, x.led = make([]entry, to), 0, 0
	w.oracle.destroyed(x)
	x.written, x.durable, x.savedHigh = to, to, min(x.savedHigh, to)
	x.start, x.startSynced, x.base = to, to, to
	x.moves, x.cache, x.short = nil, epochs.Cache{}, false
	x.follower.LogStart(to, x.epoch)
}

// restart tells a follower that its stream continues below the leader's log start.
func (w *world) restart(x *node, to int32, tag uint64) {
	s := &x.slots[to]
	x.leader.End(s.handle, progress.StreamGone, w.now)
	*s = slot{}
	w.send(x.id, to, frame{kind: frameVerdict, tag: tag, verdict: progress.Reset, end: x.start})
}

// compact lets a node remove a record whose key a later one has, where both are committed. Of a
// value whose producer may still repeat it, compaction keeps the batch.
func (w *world) compact(x *node) {
	high, epoch := x.high()
	if w.image(x).part.Unclean > max(epoch, 0) && !w.cfg.removed.has(compactVoided) {
		return // an unclean election may have discarded what it has as committed
	}
	if w.cfg.removed.has(compactUncommitted) {
		high = x.end()
	}
	end := min(high, x.durable)
	if !x.runs() || x.step != registered || x.flaw || end-x.start < 2 {
		return
	}
	for at := x.start + w.r.Int64N(end-x.start-1); at < end; at++ {
		value := x.log[at].value
		newer := at + 1
		for newer < end && x.log[newer].value%keys != value%keys {
			newer++
		}
		if newer == end || value == 0 || !w.oracle.knows(value) || x.log[newer].value == 0 {
			continue
		}
		w.logf("%s compacts value %d at %d, because of value %d at %d", name(x.id), value, at, x.log[newer].value, newer)
		w.stats["compacted records"]++
		x.relied = max(x.relied, newer+1)
		w.oracle.compact(at, kept{newer, x.log[newer].value})
		w.oracle.gone[value] = true
		x.log[at].value, x.log[at].gone = 0, true
	}
}

// halfDelete lets a leader move its log start, and some followers see it, before it dies.
func (w *world) halfDelete() {
	l := w.store().part.Leader
	if l < 0 {
		return
	}
	x := w.nodes[l]
	w.deleteRecords(x)
	w.syncStart(x)
	for _, f := range w.nodes {
		if f != x && w.chance(2) {
			w.stretch(x, f)
			if w.chance(2) {
				w.moveStart(f)
				w.syncStart(f)
			}
		}
	}
	if w.chance(2) {
		w.crash(x, kill)
		w.fence(l)
		w.leave()
		w.elect()
		return
	}
	w.moveTwice()
}

// kept is the record because of which compaction removed an earlier one.
type kept struct {
	offset int64
	value  int
}

// ask notes that a leader was asked to delete its records below an offset, or that a follower
// removes what its leader removed. In an epoch before the last unclean election, that says nothing
// about the log that remains, unless it is this one: the broker that was chosen may lead or follow
// in an older epoch until it applies its election.
func (o *oracle) ask(x *node, to int64) {
	if x.epoch >= o.unclean || x.id == o.chosen {
		o.asked = max(o.asked, to)
	}
}

// deletedUpTo notes the answer that the records below an offset are deleted: they stay deleted.
func (o *oracle) deletedUpTo(w *world, x *node, to int64) {
	if x.epoch < o.unclean {
		return
	}
	o.deleted = max(o.deleted, to)
	w.stats["deletions answered"]++
	w.logf("%s answers that its records below %d are deleted", name(x.id), to)
}

// compact notes that a node has removed a record because of a later one.
func (o *oracle) compact(at int64, later kept) {
	o.compacted[at] = append(o.compacted[at], later)
}

// moves checks that a follower removes only what a leader of its own epoch has removed (C6).
func (o *oracle) moves(w *world, x *node, to int64) {
	if to > o.removed[x.fence] {
		w.failf("C6: %s moves its log start to %d in epoch %d, whose leader removed what is below %d", name(x.id), to, x.fence,
			o.removed[x.fence])
	}
}

// starts checks where a whole member of ISR or ELR begins: no record is missing that no client
// asked to delete, and no record that was deleted is there (C6).
func (o *oracle) starts(w *world, x *node) {
	if x.startSynced > o.asked {
		w.failf("C6: %s begins at %d, and no client asked to delete the records from %d on", name(x.id), x.startSynced, o.asked)
	}
	if x.startSynced < o.deleted {
		w.failf("C6: %s begins at %d, and the records below %d were deleted", name(x.id), x.startSynced, o.deleted)
	}
}

// has reports whether a log has a value at an offset, up to end, or may be without it: it was
// deleted, or compaction removed it and left a later record of its key.
func (o *oracle) has(x *node, at int64, value int, end int64) bool {
	switch {
	case at < x.start:
		return at < o.asked
	case o.lost[at]:
		return true
	case at >= end:
		return false
	case x.log[at].gone:
		return slices.ContainsFunc(o.compacted[at], func(k kept) bool { return o.has(x, k.offset, k.value, end) })
	}
	return x.log[at].value == value
}
