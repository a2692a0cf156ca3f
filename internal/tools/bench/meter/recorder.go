package meter

import (
	"math"
	"sync"
	"time"
)

// bunch is the number of samples that a recorder collects before it hands them over, so that it
// takes the meter's lock only once for all of them.
const bunch = 2048

// Amount is the contribution of one outcome.
type Amount struct {
	Requests, Records, Payload, Wire int64
}

func (a *Amount) add(b Amount) {
	a.Requests += b.Requests
	a.Records += b.Records
	a.Payload += b.Payload
	a.Wire += b.Wire
}

// Recorder records the outcomes of one worker. It is safe for concurrent use; its lock is its own,
// and uncontended except for one flush per point.
type Recorder struct {
	meter *Meter

	mu sync.Mutex
	// point is the index of the point that samples and sums belong to.
	point    int
	samples  []uint32
	sums     Amount
	failures int64
	// The other fields are of the whole interval.
	byName     map[string]int64
	unanswered int64
	oldest     time.Duration
	// early counts failures before the interval.
	early int64
}

// Done records a success that lasted from began to now, both on the window's clock, as one latency
// sample. In an open loop began is the intended time.
func (l *Recorder) Done(began, now time.Duration, a Amount) {
	l.mu.Lock()
	if l.inside(began, now, 1) {
		if len(l.samples) == cap(l.samples) {
			l.flush()
		}
		l.samples = append(l.samples, micros(now-began))
		l.sums.add(a)
	}
	l.mu.Unlock()
}

// Count adds to the sums without a latency sample: wire bytes, and requests that a client sends for
// many records.
func (l *Recorder) Count(now time.Duration, a Amount) {
	l.mu.Lock()
	if l.inside(now, now, 0) {
		l.sums.add(a)
	}
	l.mu.Unlock()
}

// Fail records n failures with one name that started at began and ended at now.
func (l *Recorder) Fail(began, now time.Duration, name string, n int64) {
	l.mu.Lock()
	if now < l.meter.window.From() {
		l.early += n
	}
	if l.inside(began, now, n) {
		l.failures += n
		if l.byName == nil {
			l.byName = make(map[string]int64)
		}
		l.byName[name] += n
	}
	l.mu.Unlock()
}

// Unsent records n sends that were due before the interval ended and did not happen; the first was
// due at began.
func (l *Recorder) Unsent(began time.Duration, n int64) {
	l.mu.Lock()
	l.late(began, l.meter.window.Until(), n)
	l.mu.Unlock()
}

// inside reports whether an outcome at now counts, and moves the recorder to its point. Outcomes
// that ended after the interval and began before its end are n in-flight outcomes. The caller must
// hold l.mu.
func (l *Recorder) inside(began, now time.Duration, n int64) bool {
	w := l.meter.window
	if now < w.warmup {
		return false
	}
	if until := w.Until(); now >= until {
		l.late(began, until, n)
		return false
	}
	if point := int((now - w.warmup) / w.step); point != l.point {
		l.flush()
		l.point = point
	}
	return true
}

func (l *Recorder) late(began, until time.Duration, n int64) {
	if began < until && n > 0 {
		l.unanswered += n
		l.oldest = max(l.oldest, until-began)
	}
}

// flush hands the collected samples to the meter, whose lock it takes. The caller must hold l.mu.
func (l *Recorder) flush() {
	if len(l.samples) == 0 && l.failures == 0 && l.sums == (Amount{}) {
		return
	}
	l.meter.absorb(l.point, l.samples, l.sums, l.failures)
	l.samples, l.sums, l.failures = l.samples[:0], Amount{}, 0
}

// micros rounds to the nearest microsecond.
func micros(d time.Duration) uint32 {
	us := (d + time.Microsecond/2) / time.Microsecond
	return uint32(min(max(us, 0), math.MaxUint32))
}
