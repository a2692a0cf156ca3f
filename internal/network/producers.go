package network

import (
	"sync/atomic"
	"time"
)

// Producers counts the connections that produce. A producing connection is present
// while one of its Produce requests is with the handler, and absent between its
// last answer and its next request; after one to two windows without a request
// it is forgotten. The journal asks Absent to close a group early when nobody is
// left to wait for. All methods take constant time and no lock.
//
// The absent ones are counted by the window in which they became so. Slots are
// reused in turn; a slot of another window than the one asked for counts as
// empty, so that nothing needs to run when a window ends.
type Producers struct {
	start  time.Time
	window time.Duration
	slots  [4]atomic.Uint64 // the window's low 32 bits above, the count below
}

// absence is what a connection must remember to take itself out again: one more
// than the window in which it became absent, 0 where it is not counted.
type absence uint32

func newProducers(window time.Duration) *Producers {
	return &Producers{start: time.Now(), window: window}
}

// Absent returns how many connections that produced within the last window have
// no Produce request with the handler now.
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
			return 0 // somebody is a whole turn ahead: too late to count
		}
		if slot.CompareAndSwap(old, next) {
			return absence(window + 1)
		}
	}
}

// markPresent takes a connection out again.
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
