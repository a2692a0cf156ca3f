package window

import "slices"

// bounds are how many elements a node may have.
type bounds struct{ runs, kids int }

// usual are the bounds outside of tests. A change may exceed them before it splits a node, and then
// fills an allocation: 64 runs, 32 kids.
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
	runs   int
	nodes  int
	// visits counts nodes that calls have visited, for tests.
	visits int
}

// node is a leaf with runs, or has kids.
type node struct {
	sum  sum
	runs []run
	kids []*node
}

// sum describes the runs of a node.
type sum struct {
	first   int64
	offsets [states]int64 // how many, by state
	has     uint8         // properties that a run has
	due     int32         // runs that are dirty
}

// size returns how many elements a node has.
func (n *node) size() int { return len(n.runs) + len(n.kids) }

// most returns how many elements a node may have.
func (t *tree) most(n *node) int {
	if n.kids == nil {
		return t.bounds.runs
	}
	return t.bounds.kids
}

// find returns the index of the element that has an offset: the last one that does not begin above
// it, or 0.
func (n *node) find(at int64) int {
	low, high := 0, n.size() // the result is in [low, high)
	for high-low > 1 {
		mid := (low + high) / 2
		var first int64
		if n.kids == nil {
			first = n.runs[mid].first
		} else {
			first = n.kids[mid].sum.first
		}
		if first <= at {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// summarize computes the sums of a node from its elements.
func (n *node) summarize() {
	var s sum
	if n.kids == nil {
		for i := range n.runs {
			r := &n.runs[i]
			s.offsets[r.state] += r.n
			s.has |= r.has()
			s.due += int32(r.flags & dirty)
		}
		if len(n.runs) > 0 {
			s.first = n.runs[0].first
		}
		n.sum = s
		return
	}
	for _, k := range n.kids {
		for i, m := range k.sum.offsets {
			s.offsets[i] += m
		}
		s.has |= k.sum.has
		s.due += k.sum.due
	}
	if len(n.kids) > 0 {
		s.first = n.kids[0].sum.first
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
	return n.runs[n.find(at)]
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
	i := n.find(at)
	if n.kids == nil {
		for _, r := range n.runs[i:] {
			if r.has()&property != 0 && r.last() >= at {
				return r, true
			}
		}
		return run{}, false
	}
	for _, k := range n.kids[i:] {
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
	t.edit(r.first, 0, r)
}

// replace puts parts, which may be none, in the place of the run that has an offset.
func (t *tree) replace(at int64, parts ...run) { t.edit(at, 1, parts...) }

func (t *tree) edit(at int64, old int, parts ...run) {
	right := t.editIn(t.root, at, old, parts)
	if right != nil {
		t.root = &node{kids: append(make([]*node, 0, 2), t.root, right)}
		t.root.summarize()
		t.nodes++
	}
	for len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
		t.nodes--
	}
	if t.root.size() == 0 {
		t.root = nil
		t.nodes--
	}
}

// editIn replaces old runs, 1 or 0, at an offset in a node. It returns the right half of a node
// that had to be split.
func (t *tree) editIn(n *node, at int64, old int, parts []run) (right *node) {
	t.visits++
	i := n.find(at)
	if n.kids == nil {
		if i++; len(n.runs) == 0 {
			i = 0
		}
		n.runs = slices.Replace(room(n.runs, len(parts)-old), i-old, i, parts...)
		t.runs += len(parts) - old
		t.join(n, i-old-1, i-old+len(parts))
	} else if r := t.editIn(n.kids[i], at, old, parts); r != nil {
		n.kids = slices.Insert(n.kids, i+1, r)
	} else {
		t.shrink(n, i)
	}
	if n.size() > t.most(n) {
		right = t.split(n)
	}
	n.summarize()
	return right
}

// room returns the runs of a leaf with space for more, in an allocation without waste: most memory
// of a window is in its leaves.
func room(runs []run, more int) []run {
	need := len(runs) + more
	if need <= cap(runs) {
		return runs
	}
	size := 4
	for size < need {
		size *= 2
	}
	return append(make([]run, 0, size), runs...)
}

// join merges equal neighbours among the runs a to b of a leaf.
func (t *tree) join(n *node, a, b int) {
	for i := min(b, len(n.runs)-1); i > max(a, 0); i-- {
		left, right := &n.runs[i-1], n.runs[i]
		if t.equal(*left, right) {
			left.n += right.n
			if right.flags&held != 0 {
				t.locks.freeHold(right.ref)
			}
			n.runs = slices.Delete(n.runs, i, i+1)
			t.runs--
		}
	}
}

// equal reports whether two neighbours can be one run.
func (t *tree) equal(a, b run) bool {
	if a.state != b.state || a.count != b.count || a.flags != b.flags {
		return false
	}
	if a.flags&held != 0 {
		return t.locks.holds.at(a.ref).grant == t.locks.holds.at(b.ref).grant
	}
	return a.ref == b.ref
}

// split moves the right half of a node into another one.
func (t *tree) split(n *node) *node {
	t.nodes++
	right := &node{}
	if half := n.size() / 2; n.kids == nil {
		right.runs = room(nil, n.size()-half)
		right.runs = append(right.runs, n.runs[half:]...)
		n.runs = append(room(nil, half), n.runs[:half]...)
	} else {
		right.kids = slices.Clone(n.kids[half:])
		clear(n.kids[half:])
		n.kids = n.kids[:half]
	}
	right.summarize()
	return right
}

// shrink removes the kid i of a node if it is empty, and joins it with a neighbour if both are
// small.
func (t *tree) shrink(n *node, i int) {
	k := n.kids[i]
	small := func(j int) bool {
		return j >= 0 && j < len(n.kids) && k.size()+n.kids[j].size() <= t.most(k)/2
	}
	switch {
	case k.size() == 0:
		n.kids = slices.Delete(n.kids, i, i+1)
	case small(i + 1):
		t.merge(n, i)
		return
	case small(i - 1):
		t.merge(n, i-1)
		return
	default:
		return
	}
	t.nodes--
}

// merge moves the elements of the kid i+1 of a node into the kid i.
func (t *tree) merge(n *node, i int) {
	left, right := n.kids[i], n.kids[i+1]
	at := len(left.runs)
	left.runs, left.kids = append(left.runs, right.runs...), append(left.kids, right.kids...)
	t.join(left, at-1, at)
	left.summarize()
	n.kids = slices.Delete(n.kids, i+1, i+2)
	t.nodes--
}

// set gives the offsets first to last, which are all of the run r, other values: those of to. They
// get a lock of a grant, unless grant is 0. The lock that they had ends.
func (t *tree) set(r run, first, last int64, to run, grant uint32) {
	to.first, to.n, to.flags = first, last-first+1, to.flags&^held
	if grant != 0 {
		to.ref, to.flags = t.locks.addHold(grant, first), to.flags|held
	}
	var parts [3]run
	n, free := 0, r.flags&held != 0 // free: r's hold has no run
	if first > r.first {
		left := r
		left.n, free = first-r.first, false
		parts[n] = left
		n++
	}
	parts[n] = to
	n++
	if last < r.last() {
		right := r
		right.first, right.n = last+1, r.last()-last
		switch {
		case free:
			t.locks.holds.at(r.ref).first, free = right.first, false
		case r.flags&held != 0:
			right.ref = t.locks.addHold(t.locks.holds.at(r.ref).grant, right.first)
		}
		parts[n] = right
		n++
	}
	if free {
		t.locks.freeHold(r.ref)
	}
	t.replace(r.first, parts[:n]...)
}

// drop removes the offsets of the first run below an offset.
func (t *tree) drop(r run, below int64) {
	if r.last() >= below {
		at := r.first
		r.n, r.first = r.last()-below+1, below
		if r.flags&held != 0 {
			t.locks.holds.at(r.ref).first = below
		}
		t.replace(at, r)
		return
	}
	if r.flags&held != 0 {
		t.locks.freeHold(r.ref)
	}
	t.replace(r.first)
}

// all yields the runs in order, until yield returns false.
func (n *node) all(yield func(run) bool) bool {
	for _, r := range n.runs {
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
