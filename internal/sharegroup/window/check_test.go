package window

import (
	"fmt"
	"slices"
	"time"
)

// faults returns what is wrong with the structure of a window.
func (w *Window) faults() (bad string) {
	fail := func(format string, args ...any) {
		if bad == "" {
			bad = fmt.Sprintf(format, args...)
		}
	}
	t, l := &w.tree, &w.tree.locks
	runs, nodes, bytes, holds, next := 0, 0, 0, 0, w.start
	var visit func(n *node, depth int) int
	visit = func(n *node, depth int) (height int) {
		nodes++
		want := *n
		if want.summarize(); want.sum != n.sum {
			fail("sums %v, want %v", n.sum, want.sum)
		}
		if n.kids == nil {
			bytes += n.bytes()
			for j, k := range n.kinds {
				if slices.IndexFunc(n.kinds, func(o kind) bool { return o.values == k.values }) != j {
					fail("kind %+v is in a leaf twice", k)
				}
				if (k.hold != 0) != (k.flags&held != 0) {
					fail("kind %+v", k)
				} else if k.hold != 0 {
					holds++
					if h := l.holds.at(k.hold); h.leaf != n || h.grant != k.ref {
						fail("kind %+v has hold %+v", k, h)
					}
				}
			}
		}
		if n.size() == 0 || n.size() > t.most(n) {
			fail("a node of depth %d has %d elements", depth, n.size())
		}
		leaf := n.unpack(nil)
		for i, r := range leaf {
			if runs++; r.first != next || r.n < 1 {
				fail("a run begins at %d with %d offsets after %d", r.first, r.n, next-1)
			}
			next = r.last() + 1
			if i > 0 && leaf[i-1].values() == r.values() {
				fail("the runs before and at %d are equal", r.first)
			}
			if isHeld := r.flags&held != 0; isHeld != (r.state == Acquired || r.state == Delayed) {
				fail("run %+v", r)
			} else if isHeld && l.grants.at(r.ref).delay != (r.state == Delayed) {
				fail("run %+v has grant %+v", r, l.grants.at(r.ref))
			}
			if r.flags&(held|dirty|sent) == 0 && r.ref != 0 {
				fail("durable run %+v has a member", r)
			}
		}
		for i, k := range n.kids {
			if h := visit(k, depth+1) + 1; i > 0 && h != height {
				fail("kids of different heights")
			} else {
				height = h
			}
		}
		return height
	}
	if t.root != nil {
		visit(t.root, 0)
	}
	if next != w.end || runs != t.runs() || nodes != t.nodes || bytes != t.bytes {
		fail("%d runs of %d, %d nodes of %d, %d bytes of %d, end %d of %d", runs, t.runs(), nodes, t.nodes, bytes, t.bytes, next, w.end)
	}
	for i, id := range l.heap {
		g := l.grants.at(id)
		if int(g.at) != i || i > 0 && l.before(i, (i-1)/2) {
			fail("the heap is wrong at %d", i)
		}
		for h := g.head; h != 0; h = l.holds.at(h).next {
			if holds--; l.holds.at(h).grant != id {
				fail("hold %d of grant %d has grant %d", h, id, l.holds.at(h).grant)
			}
		}
		if g.head == 0 {
			fail("grant %d has no holds", id)
		}
	}
	grants := 0
	for of, id := range l.of {
		seen := map[time.Duration]bool{}
		for ; id != 0; id = l.grants.at(id).next {
			g := l.grants.at(id)
			if grants++; g.holder() != of {
				fail("grant %d is in the list of %+v", id, of)
			}
			if seen[g.deadline] {
				fail("%+v has two grants until %v", of, g.deadline)
			}
			seen[g.deadline] = true
		}
	}
	if holds != 0 || grants != len(l.heap) || int(l.grants.live) != len(l.heap) {
		fail("%d holds too many, %d grants in lists, %d in the heap, %d in the slab", holds, grants, len(l.heap), l.grants.live)
	}
	return bad
}
