package window

import (
	"math"
	"math/bits"
	"time"
)

// locks are the locks of a window. A grant is a member and a deadline: that of acquisitions or
// renewals, or of the delay of released records. Each kind of runs that it holds has a hold. A
// grant ends with its last hold.
//
// Deadlines are rounded up to a multiple of a tick, and what has the same member and the same
// deadline has one grant. So a member has few of them, however many requests it sends.
type locks struct {
	holds  slab[hold]
	grants slab[grant]
	heap   []uint32          // grants, the earliest deadline first
	of     map[holder]uint32 // the first grant of each holder
}

// holder is a member and what its grants are: acquisitions, or delays.
type holder struct {
	member Member
	delay  bool
}

// ticks is how many ticks a lock lasts. It may last one more.
const ticks = 16

// hold is the lock of a kind of runs of a leaf.
type hold struct {
	leaf       *node
	grant      uint32
	prev, next uint32 // of the same grant
}

// grant is what several holds have in common.
type grant struct {
	deadline   time.Duration // without what Extend has added
	member     Member        // of a delay: that released the records
	delay      bool          // not an acquisition: the time until released records are available
	at         int32         // its place in the heap
	head       uint32        // the first hold; 0: none
	prev, next uint32        // of the same holder
}

func (g *grant) holder() holder { return holder{g.member, g.delay} }

// grantUntil returns the grant of a member whose deadline is at or at most a tick after a time. If
// there is none, it adds one without holds. The caller adds a hold at once.
func (l *locks) grantUntil(m Member, deadline, tick time.Duration, delay bool) uint32 {
	if late := deadline % max(tick, 1); late > 0 {
		deadline += tick - late
	}
	if l.of == nil {
		l.of = make(map[holder]uint32)
	}
	of := holder{m, delay}
	next := l.of[of]
	for id := next; id != 0; id = l.grants.at(id).next {
		if l.grants.at(id).deadline == deadline {
			return id
		}
	}
	id := l.grants.add(grant{deadline: deadline, member: m, delay: delay, at: int32(len(l.heap)), next: next})
	l.heap = append(l.heap, id)
	l.up(len(l.heap) - 1)
	if next != 0 {
		l.grants.at(next).prev = id
	}
	l.of[of] = id
	return id
}

// addHold adds a hold for a kind of a leaf to a grant.
func (l *locks) addHold(of uint32, leaf *node) uint32 {
	g := l.grants.at(of)
	id := l.holds.add(hold{leaf: leaf, grant: of, next: g.head})
	if g.head != 0 {
		l.holds.at(g.head).prev = id
	}
	g.head = id
	return id
}

// freeHold removes a hold, and its grant with the last one.
func (l *locks) freeHold(id uint32) {
	h := *l.holds.at(id)
	if h.next != 0 {
		l.holds.at(h.next).prev = h.prev
	}
	if h.prev != 0 {
		l.holds.at(h.prev).next = h.next
	} else {
		l.grants.at(h.grant).head = h.next
	}
	l.holds.remove(id)
	if l.grants.at(h.grant).head == 0 {
		l.freeGrant(h.grant)
	}
}

func (l *locks) freeGrant(id uint32) {
	g := *l.grants.at(id)
	if g.next != 0 {
		l.grants.at(g.next).prev = g.prev
	}
	switch {
	case g.prev != 0:
		l.grants.at(g.prev).next = g.next
	case g.next != 0:
		l.of[g.holder()] = g.next
	default:
		delete(l.of, g.holder())
	}
	last := len(l.heap) - 1
	l.swap(int(g.at), last)
	if l.heap = l.heap[:last]; int(g.at) < last {
		l.down(int(g.at))
		l.up(int(g.at))
	}
	l.grants.remove(id)
}

// trim returns the memory of locks if there are none. The numbers of locks that a caller remembers
// are invalid then.
func (l *locks) trim() {
	l.holds.trim()
	l.grants.trim()
	if len(l.heap) == 0 {
		l.heap, l.of = nil, nil
	}
}

func (l *locks) before(i, j int) bool {
	return l.grants.at(l.heap[i]).deadline < l.grants.at(l.heap[j]).deadline
}

func (l *locks) swap(i, j int) {
	l.heap[i], l.heap[j] = l.heap[j], l.heap[i]
	l.grants.at(l.heap[i]).at, l.grants.at(l.heap[j]).at = int32(i), int32(j)
}

func (l *locks) up(i int) {
	for parent := (i - 1) / 2; i > 0 && l.before(i, parent); i, parent = parent, (parent-1)/2 {
		l.swap(i, parent)
	}
}

func (l *locks) down(i int) {
	for {
		least := i
		for kid := 2*i + 1; kid <= 2*i+2 && kid < len(l.heap); kid++ {
			if l.before(kid, least) {
				least = kid
			}
		}
		if least == i {
			return
		}
		l.swap(i, least)
		i = least
	}
}

// slab holds elements that are named by numbers from 1. A number is used again after its element
// was removed, which leaves the zero value. Memory is returned in chunks.
type slab[T any] struct {
	chunks []*chunk[T] // nil: empty
	open   []uint32    // the indices of all chunks that are not full, each once
	live   uint32      // elements
	filled int         // chunks that are not empty
}

// slabChunk is how many elements a chunk has.
const slabChunk = 32

type chunk[T any] struct {
	used  uint32 // a bit for each element
	open  bool   // it is in slab.open
	items [slabChunk]T
}

func (s *slab[T]) at(id uint32) *T { return &s.chunks[(id-1)/slabChunk].items[(id-1)%slabChunk] }

// in reports whether there is an element with a number.
func (s *slab[T]) in(id uint32) bool {
	i := (id - 1) / slabChunk
	return int(i) < len(s.chunks) && s.chunks[i] != nil && s.chunks[i].used&(1<<((id-1)%slabChunk)) != 0
}

func (s *slab[T]) add(x T) (id uint32) {
	if len(s.open) == 0 {
		s.open = append(s.open, uint32(len(s.chunks)))
		s.chunks = append(s.chunks, nil)
	}
	last := len(s.open) - 1
	i := s.open[last]
	c := s.chunks[i]
	if c == nil {
		c = &chunk[T]{open: true}
		s.chunks[i] = c
		s.filled++
	}
	slot := uint32(bits.TrailingZeros32(^c.used))
	c.items[slot] = x
	if c.used |= 1 << slot; c.used == math.MaxUint32 {
		s.open, c.open = s.open[:last], false
	}
	s.live++
	return i*slabChunk + slot + 1
}

func (s *slab[T]) remove(id uint32) {
	i, slot := (id-1)/slabChunk, (id-1)%slabChunk
	c := s.chunks[i]
	var none T
	c.items[slot] = none
	c.used &^= 1 << slot
	if s.live--; !c.open {
		s.open, c.open = append(s.open, i), true
	}
	if c.used == 0 {
		s.chunks[i] = nil
		s.filled--
	}
}

// trim returns the rest of the memory if there is no element.
func (s *slab[T]) trim() {
	if s.live == 0 && s.chunks != nil {
		*s = slab[T]{}
	}
}
