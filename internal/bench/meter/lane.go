package meter

import (
	"math"
	"sync"
	"time"
)

// bunch is the number of samples that a lane gathers before it hands them over:
// the meter's lock is taken once for so many.
const bunch = 2048

// Amount is what one outcome adds.
type Amount struct {
	Requests, Records, Payload, Wire int64
}

func (a *Amount) add(b Amount) {
	a.Requests += b.Requests
	a.Records += b.Records
	a.Payload += b.Payload
	a.Wire += b.Wire
}

// Lane records the outcomes of one worker. Its methods may be called from any
// goroutine; the lock is the lane's own, and free but for one flush in each point.
type Lane struct {
	meter *Meter

	mu sync.Mutex
	// point is the index of the one that samples and sums belong to.
	point    int
	samples  []uint32
	sums     Amount
	failures int64
	// The rest is of the whole interval.
	byName     map[string]int64
	unanswered int64
	oldest     time.Duration
	// early counts failures before the interval.
	early int64
}

// Done records a success that took from began to now, both by the window's
// clock, as one latency sample. With an open loop began is the intended time.
func (l *Lane) Done(began, now time.Duration, a Amount) {
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

// Count adds to the sums without a latency sample: wire bytes, and requests that
// a client makes for many records.
func (l *Lane) Count(now time.Duration, a Amount) {
	l.mu.Lock()
	if l.inside(now, now, 0) {
		l.sums.add(a)
	}
	l.mu.Unlock()
}

// Fail records n failures of one name that began at began and ended now.
func (l *Lane) Fail(began, now time.Duration, name string, n int64) {
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

// Unsent records n sends that were due before the interval ended and were not
// made; the first was due at began.
func (l *Lane) Unsent(began time.Duration, n int64) {
	l.mu.Lock()
	l.late(began, l.meter.window.Until(), n)
	l.mu.Unlock()
}

// inside reports whether an outcome at now counts, and moves the lane to its point.
// What ended after the interval and began before its end is in n outcomes that
// were in flight. The caller holds l.mu.
func (l *Lane) inside(began, now time.Duration, n int64) bool {
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

func (l *Lane) late(began, until time.Duration, n int64) {
	if began < until && n > 0 {
		l.unanswered += n
		l.oldest = max(l.oldest, until-began)
	}
}

// flush hands over what was gathered. The caller holds l.mu; the meter's lock is
// taken inside.
func (l *Lane) flush() {
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
