// Package pause waits between attempts: how long after how many failures, and until when. A pause
// after a failure is at most as long as its bound, and ends with its context. The package paces
// work that has a rate, and bounds the processor time of background work. What is costly to compute
// it computes seldom, with at most a tenth of a processor. It does not know what is attempted,
// paced or computed.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff bounds the pause after an attempt that failed. It begins with First and doubles with each
// further failure in a row, up to Most. The zero value pauses for no time.
type Backoff struct {
	First, Most time.Duration
}

// After returns the pause after a number of failures in a row; fewer than one count as one. The
// result is the same for the same arguments, as state machines need it.
func (b Backoff) After(failures int) time.Duration {
	d := min(b.First, b.Most)
	for ; failures > 1 && d > 0 && d < b.Most; failures-- {
		if d > b.Most/2 { // doubling could overflow
			return b.Most
		}
		d *= 2
	}
	return d
}

// Spread returns After less up to a quarter of it, at random. Use it if several processes retry
// against one: after a failure of that one, their attempts do not arrive together.
func (b Backoff) Spread(failures int) time.Duration { return Spread(b.After(failures)) }

// Spread returns d less up to a quarter of it, at random.
func Spread(d time.Duration) time.Duration {
	return d - rand.N(max(d, 0)/4+1) //nolint:gosec // pauses need not be unpredictable
}

// Sleep waits for d. If ctx ends before, or has ended, it returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	if !Wait(ctx.Done(), d) {
		return ctx.Err()
	}
	return nil
}

// Wait waits for d, and reports whether done was not closed by then. It returns early if done is
// closed.
func Wait(done <-chan struct{}, d time.Duration) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-done:
			return false
		}
	}
	select {
	case <-done:
		return false
	default:
		return true
	}
}
