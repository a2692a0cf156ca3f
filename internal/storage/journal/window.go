package journal

import (
	"time"

	"github.com/chronik-io/chronik/pkg/durability"
)

// minGap is the shortest gap between arrivals that is told to profiles: they wait
// for a small multiple of it, and below that a timer costs more than the wait.
const minGap = 25 * time.Microsecond

// unknownAbsent is told where nobody counts the connections: that somebody may come.
const unknownAbsent = 1

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

	last   time.Time // arrival of the latest
	gap    time.Duration
	gapped bool // gap is known
	// wakeAt is when the parked writer looks by itself; zero while it doesn't
	// know that something waits.
	wakeAt time.Time
}

// waiting is a profile with waiting entries.
type waiting struct {
	profile *durability.Profile
	entries int
	first   time.Time // arrival of the oldest
}

// same: every log has its own copy of a profile. A Policy may be of a type that
// can't be compared; it belongs to the name.
func same(p, q *durability.Profile) bool {
	return p == q || p.Name == q.Name && p.MaxWait == q.MaxWait && p.MaxRecords == q.MaxRecords && p.MaxBytes == q.MaxBytes
}

func (w *window) find(p *durability.Profile) int {
	for i := range w.profiles {
		if same(w.profiles[i].profile, p) {
			return i
		}
	}
	return -1
}

func (w *window) add(e *Entry) {
	if w.entries > 0 {
		w.arrival(e.arrived.Sub(w.last))
	}
	w.last = e.arrived
	w.count(e, 1)
	if e.Profile == nil {
		return
	}
	if i := w.find(e.Profile); i >= 0 {
		w.profiles[i].entries++
		return
	}
	w.profiles = append(w.profiles, waiting{profile: e.Profile, entries: 1, first: e.arrived})
}

// arrival makes gap an exponential mean over about eight arrivals.
func (w *window) arrival(d time.Duration) {
	switch {
	case d >= time.Second: // a pause, not a gap
	case !w.gapped:
		w.gap, w.gapped = d, true
	default:
		w.gap += (d - w.gap) / 8
	}
}

func (w *window) count(e *Entry, n int) {
	w.entries += n
	w.records += n * e.Records
	w.bytes += int64(n) * int64(len(e.Payload))
	if e.control() {
		w.controls += n
	}
	if !e.patient() {
		w.impatient += n
	}
}

// remove takes an entry out that is no longer queued.
func (w *window) remove(e *Entry) {
	w.count(e, -1)
	if e.Profile == nil {
		return
	}
	i := w.find(e.Profile)
	if w.profiles[i].entries--; w.profiles[i].entries == 0 {
		n := len(w.profiles) - 1
		w.profiles[i] = w.profiles[n]
		w.profiles[n] = waiting{}
		w.profiles = w.profiles[:n]
	}
}

// renew finds out anew how long the profiles wait, after entries were removed.
// Every queue is in the order of arrival, so that its first entry is the oldest. A profile
// that none of them has keeps its time, which is too early and never too late.
func (w *window) renew(streams []*Stream) {
	for i := range w.profiles {
		p, found := &w.profiles[i], false
		for _, s := range streams {
			if s.queue.len() == 0 {
				continue
			}
			e := s.queue.peek()
			if e.Profile != nil && same(e.Profile, p.profile) && (!found || e.arrived.Before(p.first)) {
				p.first, found = e.arrived, true
			}
		}
	}
}

// clear forgets all entries, not what is known of arrivals.
func (w *window) clear() {
	clear(w.profiles)
	*w = window{profiles: w.profiles[:0], gap: w.gap, gapped: w.gapped}
}

// verdict says whether the group closes now, and if not, how long nothing but a
// new arrival can change that. Every waiting profile is asked about the whole
// group and the age of its own oldest entry; the first that wants it closed wins.
func (w *window) verdict(now time.Time, absent func() int) (closed bool, wait time.Duration) {
	if w.entries == 0 {
		return false, time.Hour
	}
	if w.impatient > 0 {
		return true, 0
	}
	g := durability.Group{Records: w.records, Bytes: w.bytes, Idle: now.Sub(w.last), Absent: unknownAbsent}
	if absent != nil {
		g.Absent = absent()
	}
	if w.gapped {
		g.Gap = max(w.gap, minGap)
	}
	wait = time.Hour
	for i := range w.profiles {
		g.Age = now.Sub(w.profiles[i].first)
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
