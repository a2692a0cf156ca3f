package broker

import (
	"context"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/share"
)

// A request with a body larger than largeBody takes a place, and so does one whose answer has more
// than largeAnswer that it does not name, such as 2,000 partitions. A request at these limits takes
// a few ms; one that names a hundred thousand partitions takes a hundred.
const (
	largeBody   = 64 << 10
	largeAnswer = 2000 * partitionAnswer
)

// placeTime bounds how long a request has a place from when it first waits for a disk or for
// others, whom it must not delay meanwhile. Time in which it only computes has no bound: on a busy
// machine it would end while requests still compute, and they would then take the other half of the
// processors as well, and the memory of several answers.
const placeTime = 250 * time.Millisecond

// place is that of a large request; nil holds nothing. The places also bound the large answers that
// clients have not read: there is at most one for each place beyond the network's bound.
type place struct {
	of *share.Places

	mu    sync.Mutex
	ended bool
	lapse *time.Timer // nil: the request only computes
}

// takePlace waits for a place for a large request, and for the memory of its answer, on its
// connection's reader. It returns false if its client is gone. On a poller, which handles Produce
// only, it returns nil.
func (b *Handler) takePlace(r *network.Request) (*place, bool) {
	if !r.MayBlock() {
		return nil, true
	}
	r.WaitsAt(b.at.place, "")
	defer r.WaitsAt(nil, "")
	for {
		r.AwaitAnswerBudget() // without a place: it waits for clients
		if b.large.Take(r.Gone(), nil, r.Holder().Origin) != nil {
			return nil, false
		}
		if r.HasAnswerBudget() {
			return newPlace(b.large), true
		}
		b.large.Leave()
	}
}

func newPlace(of *share.Places) *place { return &place{of: of} }

// mayWait says that the request may wait from now on. Further calls do nothing.
func (p *place) mayWait() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended && p.lapse == nil {
		p.lapse = time.AfterFunc(placeTime, p.end)
	}
}

// end gives the place back, unless that has happened.
func (p *place) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	if p.lapse != nil {
		p.lapse.Stop()
	}
	p.of.Leave()
}

// context returns a context for a handler that has the place. What waits asks its context when that
// ends: from then on the request may wait.
func (p *place) context(ctx context.Context) context.Context {
	if p == nil {
		return ctx
	}
	return computes{ctx, p}
}

// computes is the context of a handler that has a place.
type computes struct {
	context.Context
	place *place
}

// Done implements context.Context.
func (c computes) Done() <-chan struct{} {
	c.place.mayWait()
	return c.Context.Done()
}
