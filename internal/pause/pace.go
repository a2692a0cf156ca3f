package pause

import (
	"sync"
	"time"
)

// leastPause is the shortest pause that is worth a timer.
const leastPause = time.Millisecond

// Pace limits a rate, such as that of reads in bytes per second: it counts what was done, and
// returns the pause before more may be done. The zero value is ready for use. Pace may be used by
// several goroutines, which then share the rate.
//
// golang.org/x/time/rate refuses a count above its burst, which is also what it credits for idle
// time. Here a count of any size only delays the next ones, and without Idle no burst is credited.
type Pace struct {
	// Idle bounds the idle time that is made up for, such as that of a pause that took too long. A
	// longer one counts for nothing. It must not change.
	Idle time.Duration

	mu     sync.Mutex
	perSec float64   // of the last count
	next   time.Time // when what was counted is within the rate
}

// Count counts n, which may be 0, and returns the time until all that was counted is within a rate
// per second; a rate of at most 0 is no limit. Count does not block. It returns 0 for a time below
// 1 ms, which lengthens a later pause instead. If the rate has changed since the last call, Count
// forgets what was counted before.
func (p *Pace) Count(n int, perSec float64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.perSec != perSec {
		p.perSec, p.next = perSec, time.Time{}
	}
	if perSec <= 0 {
		return 0
	}
	now := time.Now()
	if now.Sub(p.next) > p.Idle {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(min(float64(n)/perSec*float64(time.Second), 1<<62))) // a Duration holds it
	if d := p.next.Sub(now); d >= leastPause {
		return d
	}
	return 0
}
