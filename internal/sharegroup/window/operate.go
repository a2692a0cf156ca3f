package window

import (
	"math"
	"time"
)

// Operated counts the offsets of a range that an operator has named, by what became of them.
type Operated struct {
	// Changed are those that were released or rejected. The others are as they were: Available
	// those that no member holds, of a release, Finished those that are acknowledged, archived or
	// wait for their copy as dead letters, Below those below SPSO, and Beyond those at or above
	// SPEO.
	Changed, Available, Finished, Below, Beyond int64
}

// Operate applies what an operator asks for a range of offsets. Release ends deliveries as their
// members' releases do; Reject archives what is not finished yet, whether a member holds it or not.
// by is one of the two, and first is not above last. It reports whether records are available that
// were not before. Pending is the write with which the result is stored. It costs O(log n) for each
// run of the range.
func (w *Window) Operate(by AckType, now time.Duration, first, last int64) (o Operated, available bool, err error) {
	if w.dropped {
		return o, false, ErrDropped
	}
	last = min(last, math.MaxInt64-1) // no record has a higher offset, and the numbers stay in range
	if first < w.start {
		o.Below = min(last, w.start-1) - first + 1
	}
	if last >= w.end {
		o.Beyond = last - max(first, w.end) + 1
	}
	k := acknowledging{w: w, now: now}
	for at, end := max(first, w.start), min(last, w.end-1); at <= end; {
		r := w.tree.get(at)
		to := min(r.last(), end)
		n := to - at + 1
		switch {
		case r.state.terminal() || r.state == Archiving:
			o.Finished += n
		case r.state == Acquired:
			k.change(r, at, to, by)
			o.Changed += n
			available = available || by == Release && w.tree.get(at).state == Available
		case by == Release:
			o.Available += n
		default:
			w.counts.Acknowledged[by] += n
			w.tree.set(r, at, to, w.dead(run{count: r.count, flags: dirty}), 0)
			o.Changed += n
		}
		at = to + 1
	}
	w.advance()
	return o, available, nil
}
