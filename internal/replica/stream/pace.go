package stream

import (
	"slices"
	"sync"
	"time"
)

// pace spreads bytes over time. It remembers bytes, not a time: another rate applies at once, also
// to what was read before.
type pace struct {
	mu   sync.Mutex
	debt float64 // bytes that have not had their time
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

// nextCold returns a subscription that needs the disk, nil if there is none, the part of the window
// that reads may use is full, or all of them must wait; wait is the least time, 0 for no limit.
func (o *outgoing) nextCold(now time.Time) (b *sub, next int64, wait time.Duration) {
	o.mu.Lock()
	o.toRead = slices.DeleteFunc(o.toRead, func(b *sub) bool { return b.ended })
	var list []*sub
	if o.coldUsed < o.s.opt.Window/4 {
		list = slices.Clone(o.toRead)
	}
	o.mu.Unlock()
	if b, wait = o.due(list, now); b == nil {
		return nil, 0, wait
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.toRead = slices.DeleteFunc(o.toRead, func(x *sub) bool { return x == b })
	next = b.from()
	return b, next, 0
}
