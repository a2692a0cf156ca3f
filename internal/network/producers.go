package network

import (
	"sync/atomic"
	"time"
)

// Producers counts the connections that produce. Such a connection is present while one of its
// Produce requests is with the handler, and absent between its last answer and its next request.
// After one to two windows without a request it is forgotten. The journal calls Absent to close a
// group early if no producer is expected to send soon. All methods take constant time and no lock.
//
// Absent connections are counted by the window in which they became absent. Slots are reused in
// turn. A slot that belongs to another window counts as empty, so no work is needed when a window
// ends.
type Producers struct {
	start  time.Time
	window time.Duration
	slots  [4]atomic.Uint64 // the window's low 32 bits above, the count below
}

// absence is what a connection needs to remove itself from the count: one more than the window in
// which it became absent, 0 if it is not counted.
type absence uint32

func newProducers(window time.Duration) *Producers {
	return &Producers{start: time.Now(), window: window}
}

// Absent returns how many connections produced within the last window and have no Produce request
// with the handler now.
func (c *Producers) Absent() int {
	now := c.at(time.Now())
	n := c.count(now)
	if now > 0 {
		n += c.count(now - 1)
	}
	return n
}

func (c *Producers) at(now time.Time) uint32 { return uint32(now.Sub(c.start) / c.window) }

func (c *Producers) slot(window uint32) *atomic.Uint64 {
	return &c.slots[window%uint32(len(c.slots))]
}

func (c *Producers) count(window uint32) int {
	s := c.slot(window).Load()
	if s>>32 != uint64(window) {
		return 0
	}
	return int(uint32(s))
}

// markAbsent counts a connection as absent from now on.
func (c *Producers) markAbsent(now time.Time) absence {
	window := c.at(now)
	slot := c.slot(window)
	for {
		old := slot.Load()
		next := uint64(window)<<32 | 1
		switch at := uint32(old >> 32); {
		case at == window:
			next = old + 1
		case at > window:
			return 0 // another goroutine is a whole round ahead: too late to count
		}
		if slot.CompareAndSwap(old, next) {
			return absence(window + 1)
		}
	}
}

// markPresent removes a connection from the count.
func (c *Producers) markPresent(a absence) {
	if a == 0 {
		return
	}
	window := uint32(a - 1)
	slot := c.slot(window)
	for {
		old := slot.Load()
		if old>>32 != uint64(window) || slot.CompareAndSwap(old, old-1) {
			return
		}
	}
}
