package quota

import "time"

// Rate spaces events that are never refused, such as connections that are served late (KIP-612): it
// says after how long each may happen. After a pause, those of one second may happen at once.
// Several goroutines may use it. A nil Rate has no limit.
type Rate struct {
	bucket *bucket
	clock  func() time.Duration
}

// NewRate returns a Rate of events a second. clock returns the time since some moment; it must not
// go back.
func NewRate(perSecond float64, clock func() time.Duration) *Rate {
	b := newBucket(Entity{}, Connections, perSecond, clock())
	b.depth = time.Second
	b.zero.Store(int64(clock() - b.depth))
	return &Rate{b, clock}
}

// Set changes the rate. What waits already is not shortened.
func (r *Rate) Set(perSecond float64) { r.bucket.setRate(perSecond, r.clock()) }

// Take counts an event, and returns after how long it may happen.
func (r *Rate) Take() time.Duration {
	if r == nil {
		return 0
	}
	now := r.clock()
	r.bucket.charge(1, now)
	return r.bucket.debt(now)
}
