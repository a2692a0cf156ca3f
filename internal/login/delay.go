package login

import (
	"math/bits"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/security/origin"
)

// The bounds of delays.
const (
	maxAddresses  = 65_536
	freeAddresses = maxAddresses / 16 // made free at a time: to look for them takes a millisecond
	maxFailures   = 16                // counted of one address, so that they are forgotten after as many minutes
	forgetEvery   = time.Minute
)

// delays counts the failures of addresses. Each address forgets one failure a minute. The delay
// belongs to the address, never to the user: failures of another client lock out no user.
type delays struct {
	first, most time.Duration

	mu sync.Mutex
	by map[string]failures
}

// failures is the count of one address at a time.
type failures struct {
	n  int
	at time.Time
}

// left returns the count after some of it was forgotten.
func (f failures) left(now time.Time) failures {
	if gone := int(now.Sub(f.at) / forgetEvery); gone > 0 {
		return failures{max(f.n-gone, 0), f.at.Add(time.Duration(gone) * forgetEvery)}
	}
	return f
}

// failed counts a failure of an address and returns how long its answer is delayed.
func (d *delays) failed(host string, now time.Time) time.Duration {
	key := origin.OfHost(host)
	d.mu.Lock()
	defer d.mu.Unlock()
	f, known := d.by[key]
	if !known {
		f.at = now
		d.makeRoom(now)
	}
	f = f.left(now)
	delay := d.most
	if f.n < bits.LeadingZeros64(uint64(d.first))-1 {
		delay = min(d.most, d.first<<f.n)
	}
	f.n = min(f.n+1, maxFailures)
	d.by[key] = f
	return delay
}

// makeRoom forgets what need not be counted any longer if too many addresses are counted, and any
// others if that is not enough. The caller holds mu.
func (d *delays) makeRoom(now time.Time) {
	if len(d.by) < maxAddresses {
		return
	}
	for key, f := range d.by {
		if f.left(now).n == 0 {
			delete(d.by, key)
		}
	}
	for key := range d.by {
		if len(d.by) <= maxAddresses-freeAddresses {
			return
		}
		delete(d.by, key)
	}
}
