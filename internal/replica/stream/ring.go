package stream

import "sync"

// ring is a queue in which an element stands at most once. Its memory is bounded by the number of
// elements.
type ring[T member] struct {
	mu   sync.Mutex
	list []T
	head int
}

// member is an element of a ring; the flag states that it is in the ring, and belongs to the ring.
type member interface{ inRing() *bool }

// push adds x at the end unless it is in the ring.
func (r *ring[T]) push(x T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in := x.inRing(); !*in {
		*in = true
		if r.head > 32 && r.head > len(r.list)/2 {
			n := copy(r.list, r.list[r.head:])
			clear(r.list[n:])
			r.list, r.head = r.list[:n], 0
		}
		r.list = append(r.list, x)
	}
}

// pop removes the first element; ok is false if there is none.
func (r *ring[T]) pop() (x T, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.head == len(r.list) {
		return x, false
	}
	var none T
	x, r.list[r.head] = r.list[r.head], none
	if r.head++; r.head == len(r.list) {
		r.list, r.head = r.list[:0], 0
	}
	*x.inRing() = false
	return x, true
}
