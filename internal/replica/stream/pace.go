package stream

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pace spreads bytes over time. It remembers bytes, not a time: another rate applies at once, also
// to what was read before. golang.org/x/time/rate would refuse a read above its burst, and has no
// debt for a read whose size is known after it only.
type pace struct {
	mu   sync.Mutex
	debt float64 // bytes sent ahead of the rate
	at   time.Time
}

// add notes that n bytes were read.
func (p *pace) add(n int64) {
	p.mu.Lock()
	p.debt += float64(n)
	p.mu.Unlock()
}

// wait returns for how long nothing may be read at a rate in bytes per second.
func (p *pace) wait(rate int64, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.debt = max(0, p.debt-now.Sub(p.at).Seconds()*float64(rate))
	p.at = now
	return time.Duration(min(p.debt/float64(rate), maxPause.Seconds()) * float64(time.Second))
}

// maxPause bounds a pause of limited copies: then the limits are examined again, which may have
// changed.
const maxPause = time.Second

// rates returns the limits of a subscription, 0 for none. The caller must not hold mu.
func (o *outgoing) rates(b *sub) (leader, copies int64) {
	if o.s.opt.CopyRates == nil {
		return 0, 0
	}
	return o.s.opt.CopyRates(b.part.p, o.conn.Broker())
}

// charge notes that n bytes were read for a subscription.
func (o *outgoing) charge(b *sub, n int64) {
	leader, copies := o.rates(b)
	if leader > 0 {
		o.s.copies.add(n)
	}
	if copies > 0 {
		o.copies.add(n)
	}
}

// due returns the first of some subscriptions that may read, nil if all of them must wait; wait is
// the least time.
func (o *outgoing) due(list []*sub, now time.Time) (b *sub, wait time.Duration) {
	for _, b := range list {
		var left time.Duration
		leader, copies := o.rates(b)
		if leader > 0 {
			left = o.s.copies.wait(leader, now)
		}
		if copies > 0 {
			left = max(left, o.copies.wait(copies, now))
		}
		if left <= 0 {
			return b, 0
		}
		if wait == 0 || left < wait {
			wait = left
		}
	}
	return nil, wait
}

// coldWindow is how many subscriptions nextCold examines under one hold of mu. Thousands may wait,
// when a broker returns; unless copies are limited, the first one may read.
const coldWindow = 64

// nextCold returns a subscription that needs the disk, nil if there is none, the part of the window
// that reads may use is full, or all of them must wait; wait is the least time, 0 for no limit. One
// goroutine calls it.
func (o *outgoing) nextCold(now time.Time) (b *sub, next int64, wait time.Duration) {
	if b, wait = o.takeCold(now); b != nil {
		o.mu.Lock()
		next = b.from()
		o.mu.Unlock()
	}
	return b, next, wait
}

// takeCold is nextCold without the offset from which to read.
func (o *outgoing) takeCold(now time.Time) (b *sub, wait time.Duration) {
	var window [coldWindow]*sub
	for at := 0; ; at += coldWindow {
		list, more := o.coldFrom(at, window[:0])
		b, left := o.due(list, now)
		if b != nil {
			o.take(at, b)
			return b, 0
		}
		if wait == 0 || left > 0 && left < wait {
			wait = left
		}
		if !more {
			return nil, wait
		}
	}
}

// coldFrom appends to list the next coldWindow of the subscriptions that need the disk, from an
// index on, without those that have ended, and reports whether there are more. None may read if the
// part of the window for that is full.
func (o *outgoing) coldFrom(at int, list []*sub) (_ []*sub, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at == 0 { // others that have ended are removed when they are the first
		n := 0
		for n < len(o.toRead) && o.toRead[n].ended {
			o.toRead[n] = nil
			n++
		}
		o.toRead = o.toRead[n:]
	}
	if o.coldUsed >= o.s.opt.Window/4 {
		return nil, false
	}
	end := min(at+coldWindow, len(o.toRead))
	for _, b := range o.toRead[min(at, end):end] {
		if !b.ended {
			list = append(list, b)
		}
	}
	return list, end < len(o.toRead)
}

// take removes a subscription, which is at an index or shortly after it.
func (o *outgoing) take(at int, b *sub) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := at + slices.Index(o.toRead[at:], b)
	copy(o.toRead[1:i+1], o.toRead[:i]) // shorter than what follows
	o.toRead[0] = nil
	o.toRead = o.toRead[1:]
}

// highPace spaces the HW frames of a connection: there is at most one in each highInterval. High
// watermarks move with every acknowledgement, so between two frames a timer wakes the connection's
// goroutine once, and not each of them: it would take the writing role from those who push records.
type highPace struct {
	kick  func()
	timer *time.Timer
	began time.Time
	due   atomic.Int64 // from when on the next frame may be sent, after began
	armed atomic.Bool  // the timer is going to wake the goroutine
}

// init sets the function that wakes the goroutine. It precedes all other calls.
func (h *highPace) init(kick func()) {
	h.kick, h.began = kick, time.Now()
	h.timer = time.AfterFunc(time.Hour, h.fire)
	h.timer.Stop()
}

func (h *highPace) fire() {
	h.armed.Store(false)
	h.kick()
}

// moved wakes the goroutine when the next frame may be sent: now, or by the timer. It does not
// block.
func (h *highPace) moved() {
	if h.armed.Load() {
		return
	}
	if wait := h.wait(time.Since(h.began)); wait > 0 {
		h.arm(wait)
		return
	}
	h.kick()
}

// begin reports whether a frame may be sent now, and counts it as sent. Otherwise the timer wakes
// the goroutine. It is for Fill, which must not do so.
func (h *highPace) begin() bool {
	now := time.Since(h.began)
	if wait := h.wait(now); wait > 0 {
		h.arm(wait)
		return false
	}
	h.due.Store(int64(now + highInterval))
	return true
}

func (h *highPace) wait(now time.Duration) time.Duration { return time.Duration(h.due.Load()) - now }

func (h *highPace) arm(wait time.Duration) {
	if h.armed.CompareAndSwap(false, true) {
		h.timer.Reset(wait)
	}
}
