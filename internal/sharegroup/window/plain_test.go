package window

import (
	"slices"
	"time"
)

// plain is what a window should be, with a value for each offset and a loop for each operation.
type plain struct {
	cfg        Config
	start, end int64
	slots      map[int64]*slot
	writes     uint64
	underWay   bool
	sentStart  int64 // of the write under way
	stored     int64 // start
	startDue   bool
	extended   time.Duration
	dropped    bool
	closed     bool
}

// slot is the state of an offset.
type slot struct {
	state    State
	count    int
	member   Member // that holds it, or has acknowledged it
	deadline time.Duration
	pending  int // 0: durable, 1: for the next write, 2: in the write under way
	copying  bool
}

// loadPlain returns the state after a load.
func loadPlain(cfg Config, s Stored) *plain {
	p := &plain{cfg: cfg, start: s.Start, end: s.Start, stored: s.Start, slots: map[int64]*slot{}}
	for _, m := range s.Marks {
		for o := m.First; o <= m.Last; o++ {
			if o >= p.start {
				p.slots[o], p.end = &slot{state: m.State, count: m.Count}, o+1
			}
		}
	}
	for o := p.start; o < p.end; o++ {
		if p.slots[o] == nil {
			p.slots[o] = &slot{}
		}
	}
	p.advance()
	p.startDue = false
	return p
}

func (p *plain) advance() {
	for s := p.slots[p.start]; s != nil && s.state.terminal(); s = p.slots[p.start] {
		delete(p.slots, p.start)
		p.start++
		p.startDue = true
	}
}

func (p *plain) startMoved(start int64) {
	for p.start < start {
		if s := p.slots[p.start]; s != nil && s.pending == 1 {
			p.startDue = true
		}
		delete(p.slots, p.start)
		p.start++
	}
	p.end = max(p.end, p.start)
	p.advance()
}

// until returns a deadline.
func (p *plain) until(now, d time.Duration) time.Duration {
	at, tick := now+d-p.extended, d/16
	for tick > 1 && at > 0 && at%tick != 0 {
		at++
	}
	return at + p.extended
}

func (p *plain) dead(s *slot) {
	if s.state = Archived; p.cfg.DeadLetters {
		s.state = Archiving
	}
}

func (p *plain) release(s *slot, by Member) {
	s.state, s.member, s.pending, s.deadline = Available, by, 1, 0
	if s.count >= p.cfg.Deliveries {
		p.dead(s)
	}
}

func (p *plain) plan(start int64) (int64, bool) {
	if p.dropped || p.closed {
		return 0, false
	}
	p.startMoved(start)
	for o := p.start; o < p.end; o++ {
		if p.slots[o].state == Available {
			return o, true
		}
	}
	return p.end, p.end-p.start < p.cfg.Locks
}

func (p *plain) archive(first, last int64) bool {
	for o := first; o <= last && o < p.end; o++ {
		if s := p.slots[o]; s != nil && s.state == Available {
			p.slots[o] = &slot{state: Archived, count: s.count, pending: 1}
		}
	}
	p.advance()
	for o := p.end; o <= last; o++ {
		if o == p.end && p.end-p.start >= p.cfg.Locks {
			return false
		}
		for ; o <= last; o++ {
			p.slots[o], p.end = &slot{state: Archived, pending: 1}, o+1
		}
	}
	p.advance()
	return true
}

// plainTaking is a take that is in progress.
type plainTaking struct {
	*plain
	t      Taking
	out    []Delivery
	taken  int64
	closed bool // the last range of out
}

func (k *plainTaking) hold(o int64) {
	s := k.slots[o]
	if s == nil {
		s = &slot{}
		k.slots[o], k.end = s, o+1
	}
	s.state, s.member, s.deadline = Acquired, k.t.Member, k.until(k.t.Now, k.cfg.Lock)
	s.count++
	k.taken++
	if n := len(k.out) - 1; n >= 0 && !k.closed && k.out[n].Last == o-1 && k.out[n].Count == s.count {
		k.out[n].Last = o
		return
	}
	k.out, k.closed = append(k.out, Delivery{o, o, s.count}), false
}

func (p *plain) take(t Taking) []Delivery {
	k := &plainTaking{plain: p, t: t}
	if p.dropped || p.closed || t.From > p.end || t.Records < 1 {
		return nil
	}
	at := max(t.From, p.start)
	for _, b := range t.Batches {
		if b.Last < at {
			continue
		}
		if b.Base > at && !p.archive(at, b.Base-1) {
			break
		}
		first := max(b.Base, at)
		if b.Gone && !p.archive(first, b.Last) || !b.Gone && !k.batch(first, b) {
			break
		}
		at = b.Last + 1
	}
	p.advance()
	return k.out
}

func (k *plainTaking) batch(first int64, b Batch) bool {
	limit := k.cfg.Deliveries
	for o := first; o <= b.Last && o < k.end; o++ {
		s := k.slots[o]
		if s == nil || s.state != Available { // nil: finished and gone in this acquisition
			continue
		}
		if s.count >= limit {
			s.pending, s.member = 1, 0
			k.dead(s)
			continue
		}
		if from := max(2, (limit+1)/2); s.count >= from {
			if k.taken > 0 {
				return false
			}
			part := b.Last - b.Base + 1
			for range s.count - from + 1 {
				part /= 2
			}
			if part < 1 || limit > 2 && s.count == limit-1 {
				part = 1
			}
			count := s.count
			for q := o; q <= b.Last && q < o+part && q < k.end && !(k.t.Strict && k.taken == k.t.Records); q++ {
				if x := k.slots[q]; x.state != Available || x.count != count {
					break
				}
				k.hold(q)
			}
			return false
		}
		if k.hold(o); k.t.Strict && k.taken == k.t.Records {
			return false
		}
	}
	if k.end <= b.Last {
		space := k.cfg.Locks - (k.end - k.start)
		if space <= 0 {
			return false
		}
		n := b.Last - k.end + 1
		if k.t.Strict {
			n = min(n, space, k.t.Records-k.taken)
		}
		for range n {
			k.hold(k.end)
		}
	}
	if n := len(k.out) - 1; n >= 0 && !k.t.Strict && k.out[n].Last-k.out[n].First+1 >= k.t.BatchSize {
		k.closed = true
	}
	return k.taken < k.t.Records && k.end > b.Last
}

// startWait returns the write with which SPSO is at or above an offset.
func (p *plain) startWait(start int64) uint64 {
	if p.stored >= start {
		return 0
	}
	if p.underWay && p.sentStart >= start {
		return p.writes
	}
	p.startDue = true
	return p.writes + 1
}

func (p *plain) repeats(s *slot, m Member, by AckType) bool {
	if s.pending == 0 || s.member != m {
		return false
	}
	lost := s.state == Archived || s.state == Archiving
	return (by == Gap || by == Reject) && lost || by == Accept && s.state == Acknowledged ||
		by == Release && (s.state == Available || s.state == Delayed || lost && s.count >= p.cfg.Deliveries)
}

// acknowledge returns whether an acknowledgement succeeds, and what it waits for.
func (p *plain) acknowledge(m Member, now time.Duration, acks []Ack) (wait uint64, ok bool) {
	if p.dropped || validate(acks) != nil {
		return 0, false
	}
	each := func(f func(o int64, by AckType) bool) bool {
		next := int64(0)
		for _, a := range acks {
			for o := max(a.First, next); o <= a.Last; o++ {
				if !f(o, a.at(o)) {
					return false
				}
			}
			next = a.Last + 1
		}
		return true
	}
	if !each(func(o int64, by AckType) bool {
		s := p.slots[o]
		return o < p.start || s != nil && (s.state == Acquired && s.member == m || p.repeats(s, m, by))
	}) {
		return 0, false
	}
	each(func(o int64, by AckType) bool {
		s := p.slots[o]
		switch {
		case o < p.start:
			wait = max(wait, p.startWait(o+1))
			return true
		case s.state != Acquired || s.member != m:
			if s.pending == 1 {
				wait = p.writes + 1
			} else {
				wait = max(wait, p.writes)
			}
			return true
		case by == Renew:
			s.deadline = p.until(now, p.cfg.Lock)
			return true
		}
		wait = p.writes + 1
		s.pending, s.deadline = 1, 0
		switch by {
		case Gap:
			s.state = Archived
		case Accept:
			s.state = Acknowledged
		case Reject:
			p.dead(s)
		case Release:
			delay := p.cfg.Retry
			for range s.count - 1 {
				delay = min(2*delay, p.cfg.RetryMax)
			}
			if p.release(s, m); s.state == Available && min(delay, p.cfg.RetryMax) > 0 {
				s.state, s.deadline = Delayed, p.until(now, min(delay, p.cfg.RetryMax))
			}
		}
		return true
	})
	p.advance()
	return wait, true
}

// operate returns what became of the offsets that an operator named, and those that it changed.
func (p *plain) operate(by AckType, now time.Duration, first, last int64) (o Operated, changed []int64) {
	for at := first; at <= last && !p.dropped; at++ {
		s := p.slots[at]
		switch {
		case at < p.start:
			o.Below++
		case at >= p.end:
			o.Beyond++
		case s.state.terminal() || s.state == Archiving:
			o.Finished++
		case by == Release && s.state != Acquired:
			o.Available++
		default:
			o.Changed++
			changed = append(changed, at)
		}
	}
	for _, at := range changed {
		s := p.slots[at]
		if by == Reject {
			s.member, s.pending, s.deadline = 0, 1, 0
			p.dead(s)
			continue
		}
		delay := p.cfg.Retry
		for range s.count - 1 {
			delay = min(2*delay, p.cfg.RetryMax)
		}
		if p.release(s, 0); s.state == Available && min(delay, p.cfg.RetryMax) > 0 {
			s.state, s.deadline = Delayed, now+min(delay, p.cfg.RetryMax)
		}
	}
	p.advance()
	return o, changed
}

// end ends the deliveries and delays that which accepts.
func (p *plain) endOf(which func(s *slot) bool) (ended int64, available bool) {
	if p.dropped {
		return 0, false
	}
	for o := p.start; o < p.end; o++ {
		s := p.slots[o]
		switch {
		case !which(s):
			continue
		case s.state == Delayed:
			s.state, s.deadline = Available, 0
		case s.state == Acquired:
			p.release(s, 0)
			ended++
		}
		available = available || s.state == Available
	}
	p.advance()
	return ended, available
}

func (p *plain) expire(now time.Duration) (int64, bool) {
	return p.endOf(func(s *slot) bool { return (s.state == Acquired || s.state == Delayed) && s.deadline <= now })
}

func (p *plain) releaseAll(m Member) (int64, bool) {
	return p.endOf(func(s *slot) bool { return s.state == Acquired && s.member == m })
}

func (p *plain) extend(d time.Duration) {
	p.extended += d
	for _, s := range p.slots {
		if s.state == Acquired || s.state == Delayed {
			s.deadline += d
		}
	}
}

func (p *plain) close() {
	if p.dropped || p.closed {
		return
	}
	p.closed = true
	for _, s := range p.slots {
		if s.state == Acquired {
			s.pending = 1
		}
	}
}

// begin returns the next write; nil: nothing has changed.
func (p *plain) begin() *Write {
	w := &Write{Seq: p.writes + 1, Start: p.start}
	for o := p.start; o < p.end; o++ {
		s := p.slots[o]
		if s.state.terminal() {
			w.Complete++
		}
		if s.pending != 1 {
			continue
		}
		m := Mark{o, o, s.state, s.count}
		switch s.state {
		case Acquired:
			if m.State = Available; !p.closed || m.Count >= p.cfg.Deliveries {
				m.Count--
			}
		case Delayed:
			m.State = Available
		}
		s.pending = 2
		w.Marks = append(w.Marks, m)
	}
	if p.dropped || len(w.Marks) == 0 && !p.startDue {
		return nil
	}
	p.writes++
	p.underWay, p.startDue, p.sentStart = true, false, p.start
	return w
}

func (p *plain) written() {
	p.underWay, p.stored = false, p.sentStart
	for _, s := range p.slots {
		if s.pending == 2 {
			s.pending = 0
		}
	}
}

// letters returns the first offset that has to be copied; -1: there is none.
func (p *plain) letters() int64 {
	for o := p.start; o < p.end; o++ {
		if s := p.slots[o]; s.state == Archiving && s.pending == 0 && !s.copying {
			return o
		}
	}
	return -1
}

func (p *plain) copied(first, last int64) {
	for o := first; o <= last; o++ {
		if s := p.slots[o]; s != nil && s.state == Archiving {
			p.slots[o] = &slot{state: Archived, count: s.count, pending: 1}
		}
	}
	p.advance()
}

// runs returns the state as single offsets.
func (p *plain) runs() (all []Run) {
	for o := p.start; o < p.end; o++ {
		s := p.slots[o]
		r := Run{First: o, Last: o, State: s.state, Count: s.count, Deadline: s.deadline, Durable: s.pending == 0}
		if s.state == Acquired {
			r.Member = s.member
		}
		all = append(all, r)
	}
	return all
}

// each returns ranges as single offsets.
func each(marks []Mark) (all []Mark) {
	for _, m := range marks {
		for o := m.First; o <= m.Last; o++ {
			all = append(all, Mark{o, o, m.State, m.Count})
		}
	}
	return slices.Clip(all)
}
