package window

import (
	"encoding/binary"
	"slices"
)

// Most memory of a window is in its leaves, so they are compact. A leaf stores each of its runs in
// a few bytes: the index of its values, and its length. Runs of a leaf mostly have few different
// values. To read or change a leaf, it is unpacked.
//
//	packed   for each run a byte, the index in kinds, and a uvarint, the number of offsets
//	kinds    the values of runs, each once
//
// The locks of a leaf are those of its kinds: a grant has a hold for each kind that refers to it.
type kind struct {
	values
	hold uint32 // 0: the runs are not held
}

// values are what a run has in addition to its offsets.
type values struct {
	ref   uint32
	count uint16
	state State
	flags uint8
}

func (r *run) values() values { return values{r.ref, r.count, r.state, r.flags} }

// mostRuns is how many runs a leaf may have at most while a change is applied.
const mostRuns = 64

// length returns the length of the first packed run, and the size of what it is packed in.
func length(packed []byte) (offsets int64, size int) {
	if packed[1] < 0x80 {
		return int64(packed[1]), 2
	}
	n, size := binary.Uvarint(packed[1:])
	return int64(n), 1 + size
}

// unpack appends the runs of a leaf.
func (n *node) unpack(into []run) []run {
	first := n.sum.first
	for p := n.packed; len(p) > 0; {
		k := &n.kinds[p[0]]
		offsets, size := length(p)
		into = append(into, run{first: first, n: offsets, ref: k.ref, count: k.count, state: k.state, flags: k.flags})
		first, p = first+offsets, p[size:]
	}
	return into
}

// seek returns the first run of a leaf that has an offset at or above at, and one of the kinds
// whose bits are set; false: there is none.
func (n *node) seek(at int64, kinds uint64) (run, bool) {
	first := n.sum.first
	for p := n.packed; len(p) > 0; {
		offsets, size := length(p)
		if first+offsets > at && kinds>>p[0]&1 != 0 {
			k := &n.kinds[p[0]]
			return run{first: first, n: offsets, ref: k.ref, count: k.count, state: k.state, flags: k.flags}, true
		}
		first, p = first+offsets, p[size:]
	}
	return run{}, false
}

// pack replaces the runs of a leaf, and computes its sums. Its locks become those of the new runs.
func (t *tree) pack(n *node, runs []run) {
	var kinds [mostRuns]kind
	var space [mostRuns * (1 + binary.MaxVarintLen64)]byte
	packed, k := space[:0], 0
	for i := range runs {
		v, j := runs[i].values(), 0
		for j < k && kinds[j].values != v {
			j++
		}
		if j == k {
			kinds[k].values = v
			k++
		}
		if packed = append(packed, byte(j)); runs[i].n < 0x80 {
			packed = append(packed, byte(runs[i].n))
		} else {
			packed = binary.AppendUvarint(packed, uint64(runs[i].n))
		}
	}
	t.relock(n, kinds[:k])
	t.bytes -= n.bytes()
	n.packed, n.kinds = fit(n.packed, packed), fit(n.kinds, kinds[:k])
	t.bytes += n.bytes()
	n.sum = summed(runs)
}

// relock moves the locks of a leaf from its kinds to others. A grant without any kind ends.
func (t *tree) relock(n *node, kinds []kind) {
	for i := range kinds {
		k := &kinds[i]
		if k.flags&held == 0 {
			continue
		}
		if j := slices.IndexFunc(n.kinds, func(old kind) bool { return old.values == k.values }); j >= 0 {
			k.hold, n.kinds[j].hold = n.kinds[j].hold, 0
		} else {
			k.hold = t.locks.addHold(k.ref, n)
		}
	}
	// A grant ends with its last hold, so those that are new come first.
	for _, old := range n.kinds {
		if old.hold != 0 {
			t.locks.freeHold(old.hold)
		}
	}
}

// bytes returns the size of what a leaf refers to.
func (n *node) bytes() int { return cap(n.packed) + cap(n.kinds)*kindBytes }

// fit copies a list into the memory of another one, or into new memory if that has too little, or
// much more.
func fit[T any](old, list []T) []T {
	if len(list) <= cap(old) && cap(old) <= 2*len(list)+16 {
		return append(old[:0], list...)
	}
	return append([]T(nil), list...)
}

// summed returns the sums of runs.
func summed(runs []run) (s sum) {
	s.runs = int32(len(runs))
	if len(runs) > 0 {
		s.first = runs[0].first
	}
	for i := range runs {
		r := &runs[i]
		s.offsets[r.state] += r.n
		s.has |= r.has()
		s.due += int32(r.flags & dirty)
		if r.state == Acquired {
			s.acquired++
		}
	}
	return s
}

// join merges equal neighbours among the runs a to b.
func join(runs []run, a, b int) []run {
	at := max(a, 0)
	if at >= len(runs) {
		return runs
	}
	b = min(b, len(runs)-1)
	for _, r := range runs[at+1 : b+1] {
		if left := &runs[at]; left.values() == r.values() {
			left.n += r.n
			continue
		}
		at++
		runs[at] = r
	}
	return slices.Delete(runs, at+1, b+1)
}
