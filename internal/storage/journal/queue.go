package journal

import (
	"time"

	"github.com/chronik-io/chronik/pkg/durability"
)

// Stream is a log's queue in the journal. The journal's lock guards its fields.
type Stream struct {
	id     StreamID
	queue  fifo[*Entry]
	listed bool      // is in Journal.ready
	bulk   time.Time // arrival of the latest entry that was not small
	syncs  uint64    // the last split group with an entry that waits for its datasync; see split
}

// NewStream returns the queue for a log. It stays usable after a failure of the journal.
func NewStream(id StreamID) *Stream { return &Stream{id: id} }

// maxKept is the largest capacity, in elements, that an empty queue retains.
const maxKept = 1024

// fifo is a queue that reuses its array.
type fifo[T any] struct {
	items []T // items[:head] were removed
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

// all returns the queued elements, oldest first. The slice is valid until the next change.
func (q *fifo[T]) all() []T { return q.items[q.head:] }

// peek returns the oldest element; the queue must not be empty.
func (q *fifo[T]) peek() T { return q.items[q.head] }

func (q *fifo[T]) push(v T) {
	if q.head > len(q.items)/2 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// pop removes and returns the oldest element; the queue must not be empty.
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
	if cap(q.items) > maxKept {
		q.items = nil
	}
	clear(q.items)
	q.items, q.head = q.items[:0], 0
}

// minGap is the least gap between arrivals that is counted; shorter ones are rounded up to it.
// Profiles wait for a small multiple of a gap, and below that a timer costs more than the wait.
const minGap = 25 * time.Microsecond

// window summarizes the queued entries and decides when their group closes. The journal's lock
// guards it.
type window struct {
	entries  int
	controls int
	// impatient counts the entries that do not wait: they close the group at once.
	impatient int
	records   int
	bytes     int64 // payload
	profiles  []waiting

	first time.Time     // arrival of the oldest entry
	last  time.Time     // arrival of the latest entry
	gap   time.Duration // mean time between arrivals; 0 while it is unknown
	// wakeAt is when the parked writer wakes on its own; zero while it does not know that
	// entries are queued.
	wakeAt time.Time
}

// waiting is a profile and the number of its queued entries.
type waiting struct {
	profile *durability.Profile
	entries int
}

// find returns the index of a profile in profiles, or -1. Every log has its own copy of a profile.
// find does not compare the Policy, whose type may not be comparable: the name stands for it.
func (w *window) find(p *durability.Profile) int {
	for i := range w.profiles {
		q := w.profiles[i].profile
		if p == q || p.Name == q.Name && p.MaxWait == q.MaxWait && p.MaxRecords == q.MaxRecords && p.MaxBytes == q.MaxBytes {
			return i
		}
	}
	return -1
}

func (w *window) add(e *Entry) {
	if w.entries == 0 {
		w.first = e.arrived
	} else {
		w.arrival(e.arrived.Sub(w.last))
	}
	w.last = e.arrived
	w.count(e, 1)
}

// arrival updates gap, an exponential mean over about eight arrivals.
func (w *window) arrival(d time.Duration) {
	d = max(d, minGap)
	switch {
	case d >= time.Second: // a pause, not a gap
	case w.gap == 0:
		w.gap = d
	default:
		w.gap += (d - w.gap) / 8
	}
}

// count adds an entry n times: n is 1, or -1 for an entry that left its queue.
func (w *window) count(e *Entry, n int) {
	w.entries += n
	w.records += n * e.Records
	w.bytes += int64(n) * int64(len(e.Payload))
	if !e.patient() {
		w.impatient += n
	}
	if e.control() {
		w.controls += n
		return
	}
	i := w.find(e.Profile)
	if i < 0 {
		i = len(w.profiles)
		w.profiles = append(w.profiles, waiting{profile: e.Profile})
	}
	if w.profiles[i].entries += n; w.profiles[i].entries == 0 {
		last := len(w.profiles) - 1
		w.profiles[i], w.profiles[last] = w.profiles[last], waiting{}
		w.profiles = w.profiles[:last]
	}
}

// taken updates first after entries were removed from the queues of streams. Every queue is in
// arrival order, so its first entry is its oldest.
func (w *window) taken(streams []*Stream) {
	if w.entries == 0 {
		w.clear()
		return
	}
	w.first = w.last
	for _, s := range streams {
		if s.queue.len() > 0 {
			if at := s.queue.peek().arrived; at.Before(w.first) {
				w.first = at
			}
		}
	}
}

// clear removes all entries and keeps the mean gap.
func (w *window) clear() {
	clear(w.profiles)
	*w = window{profiles: w.profiles[:0], gap: w.gap}
}

// verdict reports whether the group closes now, and if not, for how long only a new arrival can
// change that. It asks every waiting profile about the whole group; the first one that wants to
// close the group decides.
func (w *window) verdict(now time.Time, absent func() int) (closed bool, wait time.Duration) {
	if w.entries == 0 {
		return false, time.Hour
	}
	if w.impatient > 0 {
		return true, 0
	}
	g := durability.Group{
		Records: w.records, Bytes: w.bytes, Age: now.Sub(w.first), Absent: absent(), Idle: now.Sub(w.last), Gap: w.gap,
	}
	wait = time.Hour
	for i := range w.profiles {
		closed, left := w.profiles[i].profile.Close(g)
		if closed || left <= 0 {
			return true, 0
		}
		wait = min(wait, left)
	}
	return false, wait
}

// limits bound what one datasync may cover.
type limits struct {
	records int
	bytes   int64
}

// limits returns the smallest limits of the waiting profiles. A profile with a Policy may have
// none.
func (w *window) limits() limits {
	l := limits{records: 1 << 30, bytes: 1 << 40}
	for i := range w.profiles {
		if n := w.profiles[i].profile.MaxRecords; n > 0 {
			l.records = min(l.records, n)
		}
		if n := w.profiles[i].profile.MaxBytes; n > 0 {
			l.bytes = min(l.bytes, n)
		}
	}
	return l
}
