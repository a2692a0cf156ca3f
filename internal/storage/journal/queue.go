package journal

// keep is the largest capacity that an empty queue holds on to.
const keep = 1024

// fifo is a queue that reuses its array.
type fifo[T any] struct {
	items []T // items[:head] were taken
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

// all returns what is queued, oldest first; it is valid until the next change.
func (q *fifo[T]) all() []T { return q.items[q.head:] }

// peek returns the oldest; there must be one.
func (q *fifo[T]) peek() T { return q.items[q.head] }

func (q *fifo[T]) push(v T) {
	if q.head > len(q.items)/2 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// pop takes the oldest; there must be one.
func (q *fifo[T]) pop() T {
	var none T
	v := q.items[q.head]
	q.items[q.head] = none
	q.head++
	if q.head == len(q.items) {
		q.reset()
	}
	return v
}

func (q *fifo[T]) reset() {
	if cap(q.items) > keep {
		q.items = nil
	}
	clear(q.items)
	q.items, q.head = q.items[:0], 0
}
