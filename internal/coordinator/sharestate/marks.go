package sharestate

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// The marks of a state are format.Batches of 24 bytes, in the order of their offsets. Neighbours
// with equal values are one mark, and available offsets with the count 0 have none.

// valid reports whether the marks of a request are in order, and have values that can be stored.
func valid(marks []window.Mark) bool {
	next := int64(0)
	for _, m := range marks {
		if m.First < next || m.Last < m.First || m.Last == math.MaxInt64 || m.Count < 0 || m.Count > math.MaxInt16 ||
			!storable(int8(min(m.State, math.MaxInt8))) {
			return false
		}
		next = m.Last + 1
	}
	return true
}

// storable reports whether a delivery state is one that records have.
func storable(s int8) bool {
	switch window.State(s) {
	case window.Available, window.Acknowledged, window.Archiving, window.Archived:
		return true
	}
	return false
}

// batches returns the marks of a request as they are stored.
func batches(marks []window.Mark) []format.Batch {
	if len(marks) == 0 {
		return nil
	}
	list := make([]format.Batch, len(marks))
	for i, m := range marks {
		list[i] = format.Batch{First: m.First, Last: m.Last, State: int8(m.State), Count: int16(m.Count)}
	}
	return list
}

// stored returns the state as a leader loads it.
func (st *state) stored() window.Stored {
	to := window.Stored{Start: st.start}
	if len(st.marks) > 0 {
		to.Marks = make([]window.Mark, len(st.marks))
	}
	for i, b := range st.marks {
		to.Marks[i] = window.Mark{First: b.First, Last: b.Last, State: window.State(b.State), Count: int(b.Count)}
	}
	return to
}

// finished returns how many offsets are acknowledged or archived.
func finished(marks []format.Batch) int32 {
	n := int64(0)
	for _, b := range marks {
		if s := window.State(b.State); s == window.Acknowledged || s == window.Archived {
			n += b.Last - b.First + 1
		}
	}
	return int32(min(n, math.MaxInt32))
}

// order compares the values of two marks. Delivery counts come before states.
func order(a, b format.Batch) int {
	return cmp.Or(cmp.Compare(a.Count, b.Count), cmp.Compare(a.State, b.State))
}

// from returns the index of the first mark that has an offset at or above another one.
func from(marks []format.Batch, offset int64) int {
	return sort.Search(len(marks), func(i int) bool { return marks[i].Last >= offset })
}

// outranks reports whether a stored mark is higher than a new one of the same offset. It costs
// O(log n) of the stored marks, and O(n) of those among the new ones.
func outranks(stored, marks []format.Batch) bool {
	if len(marks) == 0 {
		return false
	}
	old := stored[from(stored, marks[0].First):]
	for _, m := range marks {
		for len(old) > 0 && old[0].Last < m.First {
			old = old[1:]
		}
		for _, o := range old {
			if o.First > m.Last {
				break
			}
			if order(m, o) < 0 {
				return true
			}
		}
	}
	return false
}

// merge returns stored marks with new ones, without offsets below start. Of two marks of an offset
// the higher one stays, or with takeLower the new one. It changes the array of stored and costs
// O(n) of the marks in the range of the new ones, and a copy of those after it.
func merge(stored, marks []format.Batch, start int64, takeLower bool) []format.Batch {
	stored, marks = below(stored, start), below(slices.Clone(marks), start)
	if len(marks) == 0 {
		return shrunk(stored)
	}
	// Neighbours of the range may become one mark with what is in it.
	low := from(stored, marks[0].First-1)
	high := low + from(stored[low:], marks[len(marks)-1].Last+1)
	if high < len(stored) && stored[high].First <= marks[len(marks)-1].Last+1 {
		high++
	}
	m := merging{old: slices.Clone(stored[low:high]), marks: marks, takeLower: takeLower}
	return shrunk(slices.Replace(stored, low, high, m.all()...))
}

// below removes the offsets below start.
func below(marks []format.Batch, start int64) []format.Batch {
	if n := from(marks, start); n > 0 {
		marks = slices.Delete(marks, 0, n)
	}
	if len(marks) > 0 {
		marks[0].First = max(marks[0].First, start)
	}
	return marks
}

// shrunk returns marks without most of the space that is not used.
func shrunk(marks []format.Batch) []format.Batch {
	const few = 16
	switch {
	case len(marks) == 0:
		return nil
	case cap(marks) > few && len(marks) < cap(marks)/4:
		return slices.Clone(marks)
	}
	return marks
}

// merging merges two lists of marks.
type merging struct {
	old, marks []format.Batch // what is left of them
	takeLower  bool
	out        []format.Batch
}

// all returns the merged list.
func (m *merging) all() []format.Batch {
	m.out = make([]format.Batch, 0, len(m.old)+2*len(m.marks))
	for len(m.old) > 0 && len(m.marks) > 0 {
		a, b := m.old[0], m.marks[0]
		at := min(a.First, b.First)
		switch {
		case at < b.First:
			m.add(a, at, min(a.Last, b.First-1))
		case at < a.First:
			m.add(b, at, min(b.Last, a.First-1))
		case order(b, a) < 0 && !m.takeLower:
			m.add(a, at, min(a.Last, b.Last))
		default:
			m.add(b, at, min(a.Last, b.Last))
		}
	}
	for _, rest := range [][]format.Batch{m.old, m.marks} {
		for _, b := range rest {
			m.add(b, b.First, b.Last)
		}
	}
	return m.out
}

// add adds a mark with the values of another one, and removes its offsets from both lists.
func (m *merging) add(like format.Batch, first, last int64) {
	for _, list := range []*[]format.Batch{&m.old, &m.marks} {
		if l := *list; len(l) > 0 && l[0].First <= last {
			if l[0].First = last + 1; l[0].First > l[0].Last {
				*list = l[1:]
			}
		}
	}
	if like.State == int8(window.Available) && like.Count == 0 {
		return
	}
	if n := len(m.out) - 1; n >= 0 && m.out[n].Last+1 == first && order(m.out[n], like) == 0 {
		m.out[n].Last = last
		return
	}
	like.First, like.Last = first, last
	m.out = append(m.out, like)
}
