package journal

import (
	"time"

	"github.com/chronik-io/chronik/pkg/durability"
)

// Stream is a log's queue in the journal. Its fields belong to the journal's lock.
type Stream struct {
	id     StreamID
	queue  fifo[*Entry]
	listed bool // stands in Journal.ready
}

// NewStream returns the queue for a log. It outlives failures of the journal.
func NewStream(id StreamID) *Stream { return &Stream{id: id} }

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

// minGap is what a shorter gap between arrivals counts as: profiles wait for a small
// multiple of a gap, and below that a timer costs more than the wait.
const minGap = 25 * time.Microsecond

// window sums up the entries that wait and decides when their group closes. It
// is guarded by the journal's lock.
type window struct {
	entries  int
	controls int
	// impatient counts the entries that don't want to wait: the group closes at once.
	impatient int
	records   int
	bytes     int64 // payload
	profiles  []waiting

	first time.Time     // arrival of the oldest
	last  time.Time     // arrival of the latest
	gap   time.Duration // mean between arrivals; 0 while it is unknown
	// wakeAt is when the parked writer looks by itself; zero while it doesn't
	// know that something waits.
	wakeAt time.Time
}

// waiting is a profile and how many of its entries wait.
type waiting struct {
	profile *durability.Profile
	entries int
}

// find returns where a profile stands in profiles, -1 if it doesn't. Every log has its own copy
// of a profile. A Policy may be of a type that can't be compared; it belongs to the name.
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

// arrival makes gap an exponential mean over about eight arrivals.
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

// count adds n times an entry: 1, or -1 for one that is no longer queued.
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

// taken notes that entries were removed from the queues of some streams. Every queue is in the
// order of arrival, so that its first entry is the oldest.
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

// clear forgets all entries, not what is known of arrivals.
func (w *window) clear() {
	clear(w.profiles)
	*w = window{profiles: w.profiles[:0], gap: w.gap}
}

// verdict reports whether the group closes now, and if not, how long nothing but a
// new arrival can change that. Every waiting profile is asked about the whole
// group; the first that wants it closed wins.
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

// limits is what one datasync may cover.
type limits struct {
	records int
	bytes   int64
}

// limits returns the smallest among the waiting profiles. A profile with a
// Policy may have none.
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
