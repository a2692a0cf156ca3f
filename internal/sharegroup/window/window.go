package window

import (
	"errors"
	"iter"
	"time"
	"unsafe"
)

// Member is a number that the caller gives to a member of the group, above 0. A member has the same
// number as long as the window exists, also in another share session.
type Member uint32

// Config has the settings that apply to a share partition.
type Config struct {
	// Broken is empty in an ordinary build.
	Broken Broken
	// Locks is share.partition.max.record.locks: how many offsets SPEO may be above SPSO before no
	// more records are acquired. The rest of one batch may exceed it.
	Locks int64
	// Deliveries is share.delivery.count.limit, at least 1. After as many deliveries, a record that
	// is released or whose lock ends is archived.
	Deliveries int
	// Lock is share.record.lock.duration.ms.
	Lock time.Duration
	// Retry is chronik.share.retry.backoff.ms: for how long a record is not available after a
	// member released it in its first delivery; 0: not at all. Each further delivery doubles that
	// time, up to RetryMax, chronik.share.retry.backoff.max.ms.
	Retry, RetryMax time.Duration
	// DeadLetters states that records are copied before they are archived because of a reject or of
	// the delivery limit (KIP-1191).
	DeadLetters bool

	bounds bounds // of nodes, for tests
}

// ErrDropped means that a write was refused, so that the memory may differ from the stored state.
var ErrDropped = errors.New("the state of the share partition must be loaded again")

// Window is the state of one share partition on its leader. Its methods neither block nor lock; the
// caller serialises them.
type Window struct {
	cfg        Config
	tree       tree
	start, end int64         // SPSO, SPEO
	extended   time.Duration // that all deadlines are later than in the grants
	write      *Write        // under way
	writes     uint64        // that have begun
	stored     int64         // SPSO in the stored state
	// startDue states that SPSO should be written although no run is dirty.
	startDue bool
	dropped  bool
	closed   bool
	counts   Counts
}

// New returns a window without marks that begins at an offset.
func New(cfg Config, start int64) *Window {
	w := &Window{cfg: cfg, start: start, end: start, stored: start}
	if w.tree.bounds = cfg.bounds; cfg.bounds.runs == 0 {
		w.tree.bounds = usual()
	}
	return w
}

// Close ends the acquisitions, because another leader will take over. What members hold they may
// still acknowledge. The next write has all these deliveries, so that the next leader counts them,
// except for those that are the last ones of their records.
// It costs O(log n) for each leaf with a run that is held.
func (w *Window) Close() {
	if w.dropped || w.closed {
		return
	}
	w.closed = true
	if w.cfg.Broken.Has(ForgetDeliveries) {
		return
	}
	w.tree.update(hasAcquired, func(r *run) { r.flags |= dirty })
}

// SetConfig replaces the settings. Deadlines of former acquisitions stay. Records that have reached
// a lower delivery limit are archived when the next Take meets them.
func (w *Window) SetConfig(cfg Config) { w.cfg = cfg }

// StartMoved reports where the log starts: offsets below are forgotten, whatever their state, and
// their locks end. An acknowledgement of them succeeds. It costs O(log n) for each leaf that
// loses runs.
func (w *Window) StartMoved(start int64) {
	if start <= w.start || w.cfg.Broken.Has(KeepStart) {
		return
	}
	for r, ok := w.tree.first(); ok && r.first < start; r, ok = w.tree.first() {
		if w.tree.drop(start) && !w.cfg.Broken.Has(ForgetWaiting) {
			w.startDue = true // a request may wait for the write that would have had it
		}
	}
	// Otherwise nothing is due: a load moves SPSO in the same way.
	w.start, w.end = start, max(w.end, start)
	w.advance()
}

// advance moves SPSO over finished offsets. Each event that may finish offsets ends with it.
func (w *Window) advance() {
	for r, ok := w.tree.first(); ok && r.state.terminal(); r, ok = w.tree.first() {
		w.tree.change(r.first, func(runs []run) []run {
			for len(runs) > 0 && runs[0].state.terminal() {
				w.start, runs = runs[0].last()+1, runs[1:]
			}
			return runs
		})
		w.startDue = true
	}
	w.tree.locks.trim()
}

// dead returns the values of offsets that no member gets again although none accepted them.
func (w *Window) dead(r run) run {
	if r.state = Archived; w.cfg.DeadLetters && !w.cfg.Broken.Has(ArchiveUncopied) {
		r.state = Archiving
	}
	return r
}

// release returns the values of acquired offsets whose delivery is over without a result.
func (w *Window) release(r run, by Member) run {
	r.ref, r.flags = uint32(by), dirty
	if int(r.count) >= w.cfg.Deliveries && !w.cfg.Broken.Has(DeliverAgain) {
		return w.dead(r)
	}
	if w.cfg.Broken.Has(UncountReleased) {
		r.count--
	}
	r.state = Available
	return r
}

// Expire ends the locks whose deadline is not after now, and the delays of released records. A
// record whose lock ends is available, or archived at the delivery limit. Expire returns how many
// records' locks have ended, and whether records are available that were not before. It costs
// O(log n) for each leaf that has one of their runs.
func (w *Window) Expire(now time.Duration) (ended int64, available bool) {
	if w.dropped {
		return 0, false
	}
	for l := &w.tree.locks; len(l.heap) > 0 && l.grants.at(l.heap[0]).deadline+w.extended <= now; {
		n, a := w.endGrant(l.heap[0])
		ended, available = ended+n, available || a
	}
	w.advance()
	return ended, available
}

// NextDeadline returns the earliest time at which Expire has something to do; false: there is none.
func (w *Window) NextDeadline() (time.Duration, bool) {
	l := &w.tree.locks
	if w.dropped || len(l.heap) == 0 {
		return 0, false
	}
	return l.grants.at(l.heap[0]).deadline + w.extended, true
}

// Extend makes all deadlines later by d, in constant time: for a process that stood still.
func (w *Window) Extend(d time.Duration) { w.extended += d }

// Release ends all locks of a member, as when its share session ends. The records are available at
// once, or archived at the delivery limit. Results and cost are those of Expire.
func (w *Window) Release(m Member) (ended int64, available bool) {
	if w.dropped {
		return 0, false
	}
	for g := w.tree.locks.of[holder{member: m}]; g != 0; g = w.tree.locks.of[holder{member: m}] {
		n, a := w.endGrant(g)
		ended, available = ended+n, available || a
	}
	w.advance()
	return ended, available
}

// Holds reports, in constant time, whether a member holds records.
func (w *Window) Holds(m Member) bool { return w.tree.locks.of[holder{member: m}] != 0 }

// granted returns the grant of a member for a time from now on.
func (w *Window) granted(m Member, now, time time.Duration, delay bool) uint32 {
	return w.tree.locks.grantUntil(m, now+time-w.extended, time/ticks, delay)
}

// endGrant ends a grant and the deliveries that it stands for.
func (w *Window) endGrant(g uint32) (ended int64, available bool) {
	l := &w.tree.locks
	for l.grants.in(g) { // it ends with its last hold
		leaf, by := l.holds.at(l.grants.at(g).head).leaf, l.grants.at(g).member
		w.tree.change(leaf.sum.first, func(runs []run) []run {
			for i := range runs {
				r := &runs[i]
				if r.flags&held == 0 || r.ref != g {
					continue
				}
				if r.state == Delayed {
					// What was stored for it is the same.
					r.state, r.ref, r.flags = Available, 0, r.flags&^held
					if r.flags&(dirty|sent) != 0 {
						r.ref = uint32(by)
					}
				} else {
					*r = w.release(*r, 0)
					ended += r.n
					w.counts.Ended += r.n
					w.exhausted(r.state, r.n)
				}
				available = available || r.state == Available
			}
			return join(runs, 0, len(runs)-1)
		})
	}
	return ended, available
}

// Stats describes a window.
type Stats struct {
	// Start is SPSO and End is SPEO.
	Start, End int64
	// Offsets are how many offsets of the window have each state, by state. Finished ones count
	// while SPSO has not reached them.
	Offsets [states]int64
	// Runs are the ranges of offsets with equal values that the window stores, and Due how many of
	// them the next write has.
	Runs, Due int
	// Bytes are the memory that the window occupies, for a budget, and what acknowledgements of
	// the acquired records may need in addition: RecordBytes for each of them that is not a run of
	// its own yet.
	Bytes int
}

// RecordBytes is the memory that an acquired record needs at most if it is acknowledged or renewed
// apart from its neighbours.
const RecordBytes = 32

// Stats returns the present numbers, in constant time.
func (w *Window) Stats() Stats {
	s := Stats{Start: w.start, End: w.end}
	l := &w.tree.locks
	s.Bytes = int(unsafe.Sizeof(*w)) + w.tree.bytes + w.tree.nodes*(nodeBytes+int(unsafe.Sizeof(w))) +
		l.holds.filled*int(unsafe.Sizeof(chunk[hold]{})) + l.grants.filled*int(unsafe.Sizeof(chunk[grant]{})) +
		cap(l.heap)*4 + len(l.of)*2*int(unsafe.Sizeof(holder{})+4)
	if w.tree.root != nil {
		sum := &w.tree.root.sum
		s.Offsets, s.Runs, s.Due = sum.offsets, int(sum.runs), int(sum.due)
	}
	if w.write != nil {
		s.Bytes += cap(w.write.Marks) * int(unsafe.Sizeof(Mark{}))
	}
	s.Bytes += w.reserved()
	return s
}

// reserved returns the bytes that acknowledgements may still need.
func (w *Window) reserved() int {
	if w.tree.root == nil {
		return 0
	}
	sum := &w.tree.root.sum
	return RecordBytes * int(sum.offsets[Acquired]-int64(sum.acquired))
}

// Run is a range of offsets with equal values.
type Run struct {
	First, Last int64
	State       State
	// Count is how often the records were delivered, the present delivery included.
	Count int
	// Member is the member that holds Acquired records, otherwise 0.
	Member Member
	// Deadline is the time at which an acquisition or a delay ends, otherwise 0.
	Deadline time.Duration
	// Durable reports whether the stored state has what it needs of these offsets.
	Durable bool
}

// InFlight yields the runs of the window in order, from the one that has an offset on. The window
// must not change meanwhile. Neighbours may have equal values. It costs O(log n) for each run.
func (w *Window) InFlight(from int64) iter.Seq[Run] {
	return func(yield func(Run) bool) {
		l := &w.tree.locks
		for at := max(from, w.start); at < w.end && !w.dropped; {
			r := w.tree.get(at)
			out := Run{First: r.first, Last: r.last(), State: r.state, Count: int(r.count), Durable: r.flags&(dirty|sent) == 0}
			if r.flags&held != 0 {
				g := l.grants.at(r.ref)
				if out.Deadline = g.deadline + w.extended; !g.delay {
					out.Member = g.member
				}
			}
			if !yield(out) {
				return
			}
			at = out.Last + 1
		}
	}
}
