package journal

import (
	"time"

	"github.com/chronik-io/chronik/pkg/durability"
)

// Arrivals are considered dried up after twice their recent gap, but not
// sooner than minQuiet: below that the timer costs more than the wait.
const minQuiet = 50 * time.Microsecond

// window sums up the entries that wait and decides when their group closes. It
// is guarded by the journal's lock.
type window struct {
	entries  int
	controls int
	records  int
	bytes    int64 // payload
	// impatient counts the entries that don't want to wait: the group closes at once.
	impatient int
	first     time.Time // arrival of the first entry
	last      time.Time // arrival of the latest
	gap       time.Duration
	deadline  time.Time // the earliest
	// The smallest limits among the waiting profiles.
	maxRecords int
	maxBytes   int64
	policy     durability.Policy
	// armed: the writer has seen the group and sleeps no longer than it may.
	armed bool
}

func (w *window) add(e *Entry, now time.Time) {
	if w.entries == 0 {
		w.first = now
	} else if d := now.Sub(w.last); d < time.Second {
		w.gap += (d - w.gap) / 8 // an exponential mean over about eight arrivals
	}
	w.last = now
	w.entries++
	w.records += e.Records
	w.bytes += int64(len(e.Payload))
	p := e.Profile
	if p == nil {
		w.controls++
		w.impatient++
		return
	}
	if p.MaxWait == 0 {
		w.impatient++
	}
	if w.deadline.IsZero() || e.deadline.Before(w.deadline) {
		w.deadline = e.deadline
	}
	if w.maxRecords == 0 || p.MaxRecords < w.maxRecords {
		w.maxRecords = p.MaxRecords
	}
	if w.maxBytes == 0 || p.MaxBytes < w.maxBytes {
		w.maxBytes = p.MaxBytes
	}
	if p.Policy != nil {
		w.policy = p.Policy
	}
}

// verdict says whether the group closes now, and if not, how long nothing but a
// new arrival can change that.
func (w *window) verdict(now time.Time, absent func() int) (bool, time.Duration) {
	if w.entries == 0 {
		return false, time.Hour
	}
	if w.impatient > 0 {
		return true, 0
	}
	left := w.deadline.Sub(now)
	if left <= 0 {
		return true, 0
	}
	missing := -1
	if absent != nil {
		missing = absent()
	}
	if w.policy != nil {
		ok, wait := w.policy.Close(durability.Group{Records: w.records, Bytes: w.bytes, Age: now.Sub(w.first), Absent: max(missing, 0)})
		return ok || wait <= 0, min(wait, left)
	}
	if w.records >= w.maxRecords || w.bytes >= w.maxBytes || missing == 0 {
		return true, 0
	}
	quiet := max(2*w.gap, minQuiet) - now.Sub(w.last)
	if quiet <= 0 {
		return true, 0
	}
	return false, min(left, quiet)
}
