// Package share divides the processors: work that computes for long takes places, which are half as
// many as the processors, so that small requests always find the other half. The package does
// not know what the work is.
package share

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"time"
)

// Class is a class of work that computes for long.
type Class int

// The classes.
const (
	// Logins are TLS handshakes and logins.
	Logins Class = iota
	// Requests are large requests, and requests with large answers.
	Requests
	// Batches are inflated or compressed.
	Batches
	// Calls are slow calls of the coordinators' state machines.
	Calls

	classes
)

// String returns the name of a class, as metrics have it.
func (c Class) String() string { return [...]string{"logins", "requests", "batches", "calls"}[c] }

// Half returns half of the processors, at least one.
func Half() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// Share holds the places of all classes. A goroutine has a place only while it computes, never
// while it waits for a client or for another place. It computes for up to 10 ms at once, as Go's
// scheduler lets it: with more such goroutines than places, a small request would wait for that at
// each of its steps.
//
// A class may use all places that others do not want. If several classes want places, the next one
// goes to the class that has used the least time, so that a storm in one class leaves the others
// their part. Inside a class, addresses take turns.
type Share struct {
	mu     sync.Mutex
	free   int // then no goroutine waits
	all    [classes]Places
	clock  time.Duration // Places.used of the class that last got a place, when it got it
	grants uint64
}

// Places are the places of a class. All methods may be called concurrently.
type Places struct {
	share *Share
	most  int // that may wait; 0: any number

	// Guarded by Share.mu.
	held   int
	total  time.Duration // for which places were held, until since
	used   time.Duration // total with the time that was not wanted; at least Share.clock
	since  time.Time
	last   uint64 // the grant of the last place, in the order of grants
	queued int
	groups map[netip.Prefix]*group // with waiting goroutines
	turns  []*group                // the same, the next one first
}

// group are the waiting goroutines of one address, the first one first.
type group struct {
	from    netip.Prefix
	waiting []*wait
}

// wait is one waiting goroutine.
type wait struct {
	done    chan struct{} // closed when it has the place, or is refused
	refused bool
}

// MaxLogins bounds how many logins wait for a place.
const MaxLogins = 1024

var (
	// ErrFull means that too many wait already.
	ErrFull = errors.New("too many wait for a processor")
	// ErrDone means that done was closed before there was a place.
	ErrDone = errors.New("ended while waiting for a processor")
)

// New returns a share with as many places as half of the processors.
func New() *Share { return newShare(Half()) }

// Turns returns a place that is no part of the processors: its callers take turns by address.
func Turns() *Places { return newShare(1).Of(Requests) }

func newShare(places int) *Share {
	s := &Share{free: places}
	for c := range s.all {
		s.all[c] = Places{share: s, groups: make(map[netip.Prefix]*group)}
	}
	s.all[Logins].most = MaxLogins
	return s
}

// Of returns the places of a class.
func (s *Share) Of(c Class) *Places { return &s.all[c] }

// Take blocks until there is a place for an address (origin.Of); work that is for no client has
// none. An error means that there is no place: ctx ended (its error), done was closed (ErrDone), or
// too many wait already (ErrFull).
func (p *Places) Take(ctx context.Context, done <-chan struct{}, from netip.Prefix) (err error) {
	s := p.share
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		p.grant(time.Now())
		s.mu.Unlock()
		return nil
	}
	w := p.enqueue(from)
	s.mu.Unlock()
	if w == nil {
		return ErrFull
	}
	select {
	case <-w.done:
		if w.refused {
			return ErrFull
		}
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-done:
		err = ErrDone
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.done: // at the same moment
		if !w.refused {
			p.leave()
		}
	default:
		p.remove(p.groups[from], w)
	}
	return err
}

// catchUp counts the time that the places have used. Caller holds mu.
func (p *Places) catchUp(now time.Time) {
	if p.held > 0 {
		n := time.Duration(p.held) * now.Sub(p.since)
		p.total, p.used = p.total+n, p.used+n
	}
	// A class has no credit for the time in which it wanted less than the others.
	p.used, p.since = max(p.used, p.share.clock), now
}

// grant gives the class a place. Caller holds mu.
func (p *Places) grant(now time.Time) {
	p.catchUp(now)
	p.share.clock = p.used
	p.share.grants++
	p.held, p.last = p.held+1, p.share.grants
}

// enqueue returns nil if the queue is full and no other address has more waiting. Caller holds mu.
func (p *Places) enqueue(from netip.Prefix) *wait {
	g := p.groups[from]
	if p.most > 0 && p.queued >= p.most {
		most := g
		for _, o := range p.turns {
			if most == nil || len(o.waiting) > len(most.waiting) {
				most = o
			}
		}
		if most == g {
			return nil
		}
		last := most.waiting[len(most.waiting)-1]
		p.remove(most, last)
		last.refused = true
		close(last.done)
	}
	if g == nil {
		g = &group{from: from}
		p.groups[from] = g
		p.turns = append(p.turns, g)
	}
	w := &wait{done: make(chan struct{})}
	g.waiting = append(g.waiting, w)
	p.queued++
	return w
}

// remove takes a goroutine out of the queue. Caller holds mu.
func (p *Places) remove(g *group, w *wait) {
	for i, o := range g.waiting {
		if o == w {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			p.queued--
			break
		}
	}
	if len(g.waiting) > 0 {
		return
	}
	delete(p.groups, g.from)
	for i, o := range p.turns {
		if o == g {
			p.turns = append(p.turns[:i], p.turns[i+1:]...)
			break
		}
	}
}

// Leave gives a place back: to the class that has used the least time of those that wait, and there
// to the next address whose turn it is.
func (p *Places) Leave() {
	p.share.mu.Lock()
	defer p.share.mu.Unlock()
	p.leave()
}

// leave is Leave for a caller that holds mu.
func (p *Places) leave() {
	s, now := p.share, time.Now()
	p.catchUp(now)
	p.held--
	var next *Places
	for c := range s.all {
		o := &s.all[c]
		if o.queued == 0 {
			continue
		}
		o.catchUp(now)
		if next == nil || o.used < next.used || o.used == next.used && o.last < next.last {
			next = o
		}
	}
	if next == nil {
		s.free++
		return
	}
	next.grant(now)
	g := next.turns[0]
	w := g.waiting[0]
	next.turns = append(next.turns[1:], g)
	next.remove(g, w)
	close(w.done)
}

// Stats is the state of a class.
type Stats struct {
	Class         Class
	Held, Waiting int
	Used          time.Duration // for which places were held, all together
}

// Stats returns the state of all classes, and how many places there are.
func (s *Share) Stats() (classes []Stats, places int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	places = s.free
	for c := range s.all {
		p := &s.all[c]
		p.catchUp(time.Now())
		classes = append(classes, Stats{Class(c), p.held, p.queued, p.total})
		places += p.held
	}
	return classes, places
}

// Waiting returns how many goroutines wait.
func (p *Places) Waiting() int {
	p.share.mu.Lock()
	defer p.share.mu.Unlock()
	return p.queued
}

// Held returns how many places the class has.
func (p *Places) Held() int {
	p.share.mu.Lock()
	defer p.share.mu.Unlock()
	return p.held
}
