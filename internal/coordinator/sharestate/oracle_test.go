package sharestate

import (
	"math"
	"time"

	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// oracle knows what members got and what they were answered. What it knows of records is of the
// present generation of the group.
type oracle struct {
	x      *walk
	grants map[lockKey]grant
	shown  map[lockKey]int // the last delivery count of an offset in a leader's memory
	from   int64           // the first offset that the group gets; -1: not decided
	lost   int64           // the lowest offset of a record that the log has lost
	said   map[int]bool    // records that a member accepted, rejected or called a gap
	taken  map[int]int     // how often a record was delivered
	done   map[int]bool    // records whose accept or reject was answered
	least  map[int]int     // records whose release was answered, with the count
	back   map[int]bool    // records that came back with an earlier log

	answers int
}

type lockKey struct {
	l      *leader
	life   int
	offset int64
}

type grant struct {
	member   window.Member
	deadline time.Duration
}

func (o *oracle) begin(start int64) {
	o.from, o.lost = start, math.MaxInt64
	o.said, o.taken, o.done, o.least, o.back = map[int]bool{}, map[int]int{}, map[int]bool{}, map[int]int{}, map[int]bool{}
	if o.grants == nil {
		o.grants, o.shown = map[lockKey]grant{}, map[lockKey]int{}
	}
}

// loads is called when a leader has loaded the state. The start goes back only with the log.
func (o *oracle) loads(l *leader) {
	start := max(l.w.Stats().Start, l.log.start)
	if o.from <= start || l.generation != o.x.generation || l != o.x.current() {
		return
	}
	if start < o.lost && !o.x.lags {
		o.x.fail("the group began at %d, and begins at %d now", o.from, start)
	}
	o.from = start
}

// returns is called when a record that was lost comes back with an earlier log. What was promised
// of it does not hold any more.
func (o *oracle) returns(id int) {
	delete(o.done, id)
	delete(o.least, id)
	o.back[id] = true
}

// serves is called when a leader serves a fetch: where the group begins is decided.
func (o *oracle) serves(l *leader) {
	if o.from < 0 && l.generation == o.x.generation && l == o.x.current() {
		o.from = l.w.Stats().Start
	}
}

// delivers checks a delivery.
func (o *oracle) delivers(d *delivered, i item) {
	x, k := o.x, lockKey{d.l, d.life, i.offset}
	if g, held := o.grants[k]; held && g.deadline > x.now {
		x.fail("offset %d: members %d and %d hold it", i.offset, g.member, d.member)
	}
	o.grants[k] = grant{d.member, x.now + lockTime}
	if i.count > deliveries {
		x.fail("offset %d: delivery %d", i.offset, i.count)
	}
	if i.count <= o.shown[k] {
		x.fail("offset %d: delivery %d after %d", i.offset, i.count, o.shown[k])
	}
	if o.shown[k] = i.count; d.generation != x.generation {
		return
	}
	if o.taken[i.id]++; d.l != x.current() {
		return // a former leader may still deliver what another one has finished
	}
	switch n, released := o.least[i.id]; {
	case o.done[i.id]:
		x.fail("offset %d: delivered after its acknowledgement was answered", i.offset)
	case released && i.count <= n:
		x.fail("offset %d: delivery %d after a release at %d was answered", i.offset, i.count, n)
	case i.offset < o.from && !x.lags:
		x.fail("offset %d: delivered, but the group begins at %d", i.offset, o.from)
	}
}

// says is called when a member sends acknowledgements.
func (o *oracle) says(q request) {
	for _, i := range q.items {
		if q.from.generation == o.x.generation && i.by != window.Release && i.by != window.Renew {
			o.said[i.id] = true
		}
	}
}

// applied is called when a leader has accepted acknowledgements.
func (o *oracle) applied(l *leader, q request) {
	for _, i := range q.items {
		k := lockKey{l, l.life, i.offset}
		switch g, held := o.grants[k]; {
		case !held || g.member != q.from.member:
		case i.by == window.Renew:
			o.grants[k] = grant{g.member, o.x.now + lockTime}
		default:
			delete(o.grants, k)
		}
	}
}

// answered is called when an acknowledgement is answered with success.
func (o *oracle) answered(q request) {
	if q.from.generation != o.x.generation {
		return
	}
	for _, i := range q.items {
		if o.back[i.id] && q.from.l != o.x.current() {
			continue // a former leader repeats what was answered before the log lost the record
		}
		switch i.by {
		case window.Accept, window.Reject, window.Gap:
			o.done[i.id] = true
			o.answers++
		case window.Release:
			o.least[i.id] = max(o.least[i.id], i.count)
		}
	}
}

// end checks the last state: nothing is stuck, and each record of the group is finished for a
// reason.
func (o *oracle) end(l *leader) {
	x := o.x
	if l.w == nil || l.w.Stats().Start < l.log.end() {
		x.fail("the group is stuck")
	}
	if x.bad != "" || o.from < 0 {
		return
	}
	for at := max(o.from, l.log.start); at < l.log.end(); at++ {
		r := l.log.records[at]
		if !r.gone && !o.said[r.id] && o.taken[r.id] < deliveries {
			x.fail("offset %d: finished without a reason after %d deliveries", at, o.taken[r.id])
		}
	}
}
