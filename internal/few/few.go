// Package few finds the few members of a large set that have a property, without examining all. The
// events that can give a member the property name it, and those who ask examine only what is named.
// An answer never lacks a member that has the property, as long as every event names it. The
// package does not know what the members and the property are.
package few

import "sync"

// Set holds the members that may have the property. The zero value is ready for use. Its methods
// may be called concurrently. They do not block, and acquire no other lock, except that All calls
// its argument.
type Set[K comparable] struct {
	mu     sync.Mutex
	events uint64
	named  map[K]uint64 // the number of the last event that named the member
}

// Name names a member. It must be called after the change that may give the member the property,
// since All may examine it at any time.
func (s *Set[K]) Name(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.named == nil {
		s.named = map[K]uint64{}
	}
	s.events++
	s.named[k] = s.events
}

// All returns the members that have the property, in any order. has reports whether a member has
// it, and is called without a lock for each member that was named since All found it without. It is
// also called for members that have left the large set, and must not report those.
func (s *Set[K]) All(has func(K) bool) (all []K) {
	type name struct {
		k     K
		event uint64
	}
	s.mu.Lock()
	list := make([]name, 0, len(s.named))
	for k, event := range s.named {
		list = append(list, name{k, event})
	}
	s.mu.Unlock()
	without := list[:0]
	for _, x := range list {
		if has(x.k) {
			all = append(all, x.k)
		} else {
			without = append(without, x)
		}
	}
	if len(without) == 0 {
		return all
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range without {
		if s.named[x.k] == x.event { // nothing has happened to it since
			delete(s.named, x.k)
		}
	}
	return all
}
