package network

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"sync"
)

// maxPlaceQueue bounds how many connections wait for a place.
const maxPlaceQueue = 1024

// errBusy refuses a login when too many wait.
var errBusy = errors.New("too many clients log in at the same time")

// places bounds how many goroutines compute for clients that have not logged in: handshakes and
// logins get half of the processors, rounded up, so that a storm of them leaves the other half to
// clients that are served. A goroutine has a place only while it computes, never while it waits for
// its client. The waiting ones take turns by address, so that those of one address wait for each
// other rather than others for them.
type places struct {
	mu     sync.Mutex
	free   int
	queued int
	groups map[netip.Prefix]*placeGroup // with waiting goroutines
	turns  []*placeGroup                // the same, the next one first
}

// placeGroup are the waiting goroutines of one address, the first one first.
type placeGroup struct {
	from    netip.Prefix
	waiting []*placeWait
}

// placeWait is one waiting goroutine.
type placeWait struct {
	done    chan struct{} // closed when it has the place, or is refused
	refused bool
}

func newPlaces() *places {
	return &places{free: (runtime.GOMAXPROCS(0) + 1) / 2, groups: make(map[netip.Prefix]*placeGroup)}
}

// take blocks until there is a place. An error means that there is none: ctx or the Server ended,
// or too many wait already.
func (p *places) take(ctx context.Context, draining <-chan struct{}, from netip.Prefix) (err error) {
	p.mu.Lock()
	if p.free > 0 {
		p.free--
		p.mu.Unlock()
		return nil
	}
	w := p.enqueue(from)
	p.mu.Unlock()
	if w == nil {
		return errBusy
	}
	select {
	case <-w.done:
		if w.refused {
			return errBusy
		}
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-draining:
		err = errStopped
	}
	p.mu.Lock()
	select {
	case <-w.done: // at the same moment
		p.mu.Unlock()
		if !w.refused {
			p.leave()
		}
	default:
		p.remove(p.groups[from], w)
		p.mu.Unlock()
	}
	return err
}

// enqueue returns nil if the queue is full and no other address has more waiting. Caller holds mu.
func (p *places) enqueue(from netip.Prefix) *placeWait {
	g := p.groups[from]
	if p.queued >= maxPlaceQueue {
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
		g = &placeGroup{from: from}
		p.groups[from] = g
		p.turns = append(p.turns, g)
	}
	w := &placeWait{done: make(chan struct{})}
	g.waiting = append(g.waiting, w)
	p.queued++
	return w
}

// remove takes a goroutine out of the queue. Caller holds mu.
func (p *places) remove(g *placeGroup, w *placeWait) {
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

// leave gives a place back, to the next address whose turn it is.
func (p *places) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.turns) == 0 {
		p.free++
		return
	}
	g := p.turns[0]
	w := g.waiting[0]
	p.turns = append(p.turns[1:], g)
	p.remove(g, w)
	close(w.done)
}

// count returns how many goroutines wait.
func (p *places) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queued
}
