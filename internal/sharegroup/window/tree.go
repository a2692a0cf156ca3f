package window

import (
	"math"
	"slices"
	"sync"
	"unsafe"
)

// bounds are how many elements a node may have.
type bounds struct{ runs, kids int }

// usual are the bounds outside of tests. A change may exceed them before it splits a node: mostRuns
// runs, 32 kids, which fill an allocation.
func usual() bounds { return bounds{runs: 62, kids: 31} }

// tree holds the runs of a window in the order of their offsets, without holes between them, and
// the locks of the runs that are held. Neighbours of a leaf with equal values are one run.
//
//	node   kids, at most 31, all of the same height
//	leaf   runs, at most 62
//
// Each node has the sums of what is below it. A change computes them again on its way to the root.
type tree struct {
	bounds bounds
	root   *node // nil: no runs
	locks  locks
	nodes  int
	bytes  int // of what leaves refer to
	// cut is where a change has made a leaf longer: the index of its first new run.
	cut int
	// visits counts nodes that calls have visited, for tests.
	visits int
}

// node is a leaf with runs, or has kids.
type node struct {
	sum    sum
	kids   []*node
	packed []byte
	kinds  []kind
}

const (
	nodeBytes = int(unsafe.Sizeof(node{}))
	kindBytes = int(unsafe.Sizeof(kind{}))
)

// sum describes the runs of a node.
type sum struct {
	first    int64
	offsets  [states]int64 // how many, by state
	runs     int32
	due      int32 // runs that are dirty
	acquired int32 // runs that are acquired
	has      uint8 // properties that a run has
}

// size returns how many elements a node has.
func (n *node) size() int {
	if n.kids != nil {
		return len(n.kids)
	}
	return int(n.sum.runs)
}

// runs returns how many runs there are.
func (t *tree) runs() int {
	if t.root == nil {
		return 0
	}
	return int(t.root.sum.runs)
}

// most returns how many elements a node may have.
func (t *tree) most(n *node) int {
	if n.kids == nil {
		return t.bounds.runs
	}
	return t.bounds.kids
}

// find returns the index of the kid that has an offset: the last one that does not begin above it,
// or 0.
func (n *node) find(at int64) int {
	low, high := 0, len(n.kids) // the result is in [low, high)
	for high-low > 1 {
		if mid := (low + high) / 2; n.kids[mid].sum.first <= at {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// summarize computes the sums of a node from its elements.
func (n *node) summarize() {
	if n.kids == nil {
		n.sum = summed(n.unpack(nil))
		return
	}
	var s sum
	for i := len(n.kids) - 1; i >= 0; i-- {
		k := n.kids[i]
		s.first = k.sum.first
		for state, m := range k.sum.offsets {
			s.offsets[state] += m
		}
		s.has |= k.sum.has
		s.runs += k.sum.runs
		s.due += k.sum.due
		s.acquired += k.sum.acquired
	}
	n.sum = s
}

// offsets returns how many offsets have a state.
func (t *tree) offsets(s State) int64 {
	if t.root == nil {
		return 0
	}
	return t.root.sum.offsets[s]
}

// due reports whether a run is dirty.
func (t *tree) due() bool { return t.root != nil && t.root.sum.due > 0 }

// first returns the first run; false: there is none.
func (t *tree) first() (run, bool) {
	if t.root == nil {
		return run{}, false
	}
	return t.get(t.root.sum.first), true
}

// get returns the run that has an offset, which must be in the tree.
func (t *tree) get(at int64) run {
	n := t.root
	for t.visits++; n.kids != nil; t.visits++ {
		n = n.kids[n.find(at)]
	}
	r, _ := n.seek(at, math.MaxUint64)
	return r
}

// next returns the first run with a property that has an offset at or above at.
func (t *tree) next(at int64, property uint8) (run, bool) {
	if t.root == nil {
		return run{}, false
	}
	return t.nextIn(t.root, at, property)
}

func (t *tree) nextIn(n *node, at int64, property uint8) (run, bool) {
	if n.sum.has&property == 0 {
		return run{}, false
	}
	t.visits++
	if n.kids == nil {
		kinds := uint64(0)
		for i := range n.kinds {
			if n.kinds[i].has()&property != 0 {
				kinds |= 1 << i
			}
		}
		return n.seek(at, kinds)
	}
	for _, k := range n.kids[n.find(at):] {
		if r, ok := t.nextIn(k, at, property); ok {
			return r, true
		}
	}
	return run{}, false
}

// add appends a run at the end.
func (t *tree) add(r run) {
	if t.root == nil {
		t.root = &node{}
		t.nodes++
	}
	t.change(r.first, func(runs []run) []run {
		t.cut = len(runs)
		return join(append(runs, r), t.cut-1, t.cut)
	})
}

// replace puts parts in the place of the run that has an offset.
func (t *tree) replace(at int64, parts ...run) {
	t.change(at, func(runs []run) []run {
		i := 0
		for runs[i].last() < at {
			i++
		}
		t.cut = i
		return join(slices.Replace(runs, i, i+1, parts...), i-1, i+len(parts))
	})
}

// scratch are the runs of a leaf while they are read and changed.
type scratch [mostRuns + 2]run

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// change changes the leaf that has an offset, or is the one before it: f gets its runs, and returns
// those that it has then. They may be two more.
func (t *tree) change(at int64, f func([]run) []run) {
	buf := scratches.Get().(*scratch)
	if right := t.changeIn(t.root, at, f, buf); right != nil {
		t.root = &node{kids: append(make([]*node, 0, 2), t.root, right)}
		t.root.summarize()
		t.nodes++
	}
	scratches.Put(buf)
	t.lower()
}

// lower removes nodes above the only node that has more than one element.
func (t *tree) lower() {
	for len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
		t.nodes--
	}
	if t.root.size() == 0 {
		t.bytes -= t.root.bytes()
		t.root = nil
		t.nodes--
	}
}

// changeIn changes a leaf at or below a node. It returns the right part of a node that had to be
// split.
func (t *tree) changeIn(n *node, at int64, f func([]run) []run, buf *scratch) (right *node) {
	t.visits++
	if n.kids == nil {
		runs := f(n.unpack(buf[:0]))
		if len(runs) > t.bounds.runs {
			part := splitAt(len(runs), t.bounds.runs, t.cut)
			right = &node{}
			t.nodes++
			// First, so that no grant is without a hold meanwhile.
			t.pack(right, runs[part:])
			runs = runs[:part]
		}
		t.pack(n, runs)
		return right
	}
	i := n.find(at)
	if r := t.changeIn(n.kids[i], at, f, buf); r != nil {
		n.kids = slices.Insert(n.kids, i+1, r)
	} else {
		t.shrink(n, i, buf)
	}
	if len(n.kids) > t.bounds.kids {
		right = t.split(n, splitAt(len(n.kids), t.bounds.kids, i))
	}
	n.summarize()
	return right
}

// splitAt returns how many of n elements stay in a node that may have fewer, and is split because
// some were added at an index. Those who acknowledge in order add all of them near one end, and
// come back there. So the rest is a node that is nearly full.
func splitAt(n, most, at int) int {
	switch part := max(n/8, n-most); {
	case at < 2*part:
		return part
	case at >= n-2*part:
		return n - part
	}
	return n / 2
}

// split moves the kids of a node from an index on into another node.
func (t *tree) split(n *node, at int) *node {
	t.nodes++
	right := &node{kids: slices.Clone(n.kids[at:])}
	clear(n.kids[at:])
	n.kids = n.kids[:at]
	right.summarize()
	return right
}

// update changes all runs with a property. f gets them in order, and must not change their offsets.
func (t *tree) update(property uint8, f func(*run)) {
	if t.root == nil {
		return
	}
	buf := scratches.Get().(*scratch)
	t.updateIn(t.root, property, f, buf)
	scratches.Put(buf)
	t.lower()
}

func (t *tree) updateIn(n *node, property uint8, f func(*run), buf *scratch) {
	if n.sum.has&property == 0 {
		return
	}
	t.visits++
	if n.kids == nil {
		runs := n.unpack(buf[:0])
		for i := range runs {
			if runs[i].has()&property != 0 {
				f(&runs[i])
			}
		}
		t.pack(n, join(runs, 0, len(runs)-1))
		return
	}
	for _, k := range n.kids {
		t.updateIn(k, property, f, buf)
	}
	for i := len(n.kids) - 1; i >= 0; i-- {
		if i < len(n.kids) {
			t.shrink(n, i, buf)
		}
	}
	n.summarize()
}

// shrink removes the kid i of a node if it is empty, and joins it with a neighbour if both are
// small.
func (t *tree) shrink(n *node, i int, buf *scratch) {
	k := n.kids[i]
	small := func(j int) bool {
		return j >= 0 && j < len(n.kids) && k.size()+n.kids[j].size() <= t.most(k)/2
	}
	switch {
	case k.size() == 0:
		n.kids = slices.Delete(n.kids, i, i+1)
		t.nodes--
		t.bytes -= k.bytes()
	case small(i + 1):
		t.merge(n, i, buf)
	case small(i - 1):
		t.merge(n, i-1, buf)
	}
}

// merge moves the elements of the kid i+1 of a node into the kid i.
func (t *tree) merge(n *node, i int, buf *scratch) {
	left, right := n.kids[i], n.kids[i+1]
	if left.kids == nil {
		runs := left.unpack(buf[:0])
		at := len(runs)
		t.pack(left, join(right.unpack(runs), at-1, at))
		t.pack(right, nil)
		t.bytes -= right.bytes()
	} else {
		left.kids = append(left.kids, right.kids...)
		left.summarize()
	}
	n.kids = slices.Delete(n.kids, i, i+1)
	n.kids[i] = left
	t.nodes--
}

// set gives the offsets first to last, which are all of the run r, other values: those of to. They
// get a lock of a grant, unless grant is 0. The lock that they had ends.
func (t *tree) set(r run, first, last int64, to run, grant uint32) {
	to.first, to.n, to.flags = first, last-first+1, to.flags&^held
	if grant != 0 {
		to.ref, to.flags = grant, to.flags|held
	}
	parts := make([]run, 0, 3)
	if first > r.first {
		left := r
		left.n = first - r.first
		parts = append(parts, left)
	}
	parts = append(parts, to)
	if last < r.last() {
		right := r
		right.first, right.n = last+1, r.last()-last
		parts = append(parts, right)
	}
	t.replace(r.first, parts...)
}

// drop removes the offsets below one from the first leaf. There is a run. It reports whether a
// dirty run has lost offsets.
func (t *tree) drop(below int64) (lost bool) {
	t.change(t.root.sum.first, func(runs []run) []run {
		for ; len(runs) > 0 && runs[0].first < below; runs = runs[1:] {
			r := &runs[0]
			lost = lost || r.flags&dirty != 0
			if r.last() >= below {
				r.n, r.first = r.last()-below+1, below
				break
			}
		}
		return runs
	})
	return lost
}

// all yields the runs in order, until yield returns false.
func (n *node) all(yield func(run) bool) bool {
	for _, r := range n.unpack(nil) {
		if !yield(r) {
			return false
		}
	}
	for _, k := range n.kids {
		if !k.all(yield) {
			return false
		}
	}
	return true
}
