package window

import "time"

// locks are the locks of a window. A grant is one acquisition or renewal: a member and a deadline.
// Each run that it holds has a hold. A grant ends with its last hold.
type locks struct {
	holds  slab[hold]
	grants slab[grant]
	heap   []uint32          // grants, the earliest deadline first
	of     map[Member]uint32 // the first grant of each member, without those of delays
}

// hold is the lock of a run.
type hold struct {
	first      int64 // of the run
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
	prev, next uint32        // of the same member
}

// addGrant returns a grant without holds. The caller adds one at once.
func (l *locks) addGrant(m Member, deadline time.Duration, delay bool) uint32 {
	id := l.grants.add(grant{deadline: deadline, member: m, delay: delay, at: int32(len(l.heap))})
	l.heap = append(l.heap, id)
	l.up(len(l.heap) - 1)
	if delay {
		return id
	}
	if l.of == nil {
		l.of = make(map[Member]uint32)
	}
	if next := l.of[m]; next != 0 {
		l.grants.at(id).next, l.grants.at(next).prev = next, id
	}
	l.of[m] = id
	return id
}

// addHold adds a hold for a run to a grant.
func (l *locks) addHold(of uint32, first int64) uint32 {
	g := l.grants.at(of)
	id := l.holds.add(hold{first: first, grant: of, next: g.head})
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
	case g.delay:
	case g.next != 0:
		l.of[g.member] = g.next
	default:
		delete(l.of, g.member)
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

// slabChunk is how many elements a slab allocates at a time.
const slabChunk = 32

// slab holds elements that are named by numbers from 1. A number is used again after its element
// was removed, which leaves the zero value.
type slab[T any] struct {
	chunks []*[slabChunk]T
	used   uint32 // numbers that were ever given
	live   uint32
	free   []uint32
}

func (s *slab[T]) at(id uint32) *T { return &s.chunks[(id-1)/slabChunk][(id-1)%slabChunk] }

func (s *slab[T]) add(x T) (id uint32) {
	s.live++
	if n := len(s.free); n > 0 {
		id, s.free = s.free[n-1], s.free[:n-1]
	} else {
		s.used++
		if id = s.used; int(id) > len(s.chunks)*slabChunk {
			s.chunks = append(s.chunks, new([slabChunk]T))
		}
	}
	*s.at(id) = x
	return id
}

func (s *slab[T]) remove(id uint32) {
	var none T
	*s.at(id) = none
	s.free = append(s.free, id)
	s.live--
}

// trim returns the memory if there is no element.
func (s *slab[T]) trim() {
	if s.live == 0 && s.used != 0 {
		*s = slab[T]{}
	}
}
