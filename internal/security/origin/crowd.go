package origin

import (
	"net/netip"
	"slices"
)

// Crowd is a set of those who have proved nothing yet, by what their addresses count by. Its owner
// bounds it, and asks which of them makes room for a new one, so that a few addresses cannot keep
// out all others. The zero Crowd is empty. It has no lock.
type Crowd[C comparable] struct {
	n  int
	of map[netip.Prefix][]C
}

// Since returns since when a place has been kept from others, as a number that grows with time.
// ok is false for one that keeps its place and does not count.
type Since[C comparable] func(C) (since int64, ok bool)

// Add adds a member of an origin.
func (s *Crowd[C]) Add(from netip.Prefix, c C) {
	if s.of == nil {
		s.of = make(map[netip.Prefix][]C)
	}
	s.n++
	s.of[from] = append(s.of[from], c)
}

// Remove removes a member of an origin, if it is one.
func (s *Crowd[C]) Remove(from netip.Prefix, c C) {
	all := s.of[from]
	i := slices.Index(all, c)
	if i < 0 {
		return
	}
	s.n--
	if all = slices.Delete(all, i, i+1); len(all) == 0 {
		delete(s.of, from)
	} else {
		s.of[from] = all
	}
}

// Len returns the number of members.
func (s *Crowd[C]) Len() int { return s.n }

// From returns the number of members of an origin.
func (s *Crowd[C]) From(from netip.Prefix) int { return len(s.of[from]) }

// Yielding returns the member that makes room for a new one of an origin. It is the oldest of the
// origin that has the most. If that would not have more than the new one's, it yields only if it
// has had its place since before; so honest clients that come at the same moment need not displace
// each other. If there is none, it returns the zero C and false.
func (s *Crowd[C]) Yielding(to netip.Prefix, since Since[C], before int64) (c C, ok bool) {
	var greedy oldest[C]
	most, own := 0, 0
	for from, all := range s.of {
		n, o := oldestOf(all, since)
		if n > most || n > 0 && n == most && o.since < greedy.since {
			most, greedy = n, o
		}
		if from == to {
			own = n
		}
	}
	if most > own+1 {
		return greedy.c, true
	}
	return greedy.until(before)
}

// YieldingOwn is Yielding for an origin that has as many as it may: one of its own.
func (s *Crowd[C]) YieldingOwn(of netip.Prefix, since Since[C], before int64) (c C, ok bool) {
	_, o := oldestOf(s.of[of], since)
	return o.until(before)
}

// oldest is the member of some that has had its place the longest.
type oldest[C comparable] struct {
	c     C
	since int64
	ok    bool
}

// until returns the member if it has had its place since before.
func (o oldest[C]) until(before int64) (c C, ok bool) {
	if !o.ok || o.since > before {
		return c, false
	}
	return o.c, true
}

// oldestOf returns how many of some members count, and the oldest of these.
func oldestOf[C comparable](all []C, since Since[C]) (n int, o oldest[C]) {
	for _, c := range all {
		at, ok := since(c)
		if !ok {
			continue
		}
		n++
		if !o.ok || at < o.since {
			o = oldest[C]{c, at, true}
		}
	}
	return n, o
}
