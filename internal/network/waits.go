package network

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

// Waiter names the step at which requests of one kind wait. A request without one is with its
// handler.
type Waiter struct {
	// Idle: their clients ask them to wait, until there is something to answer.
	Idle bool
	// Named: Steps uses about. A request that waited elsewhere before, as for a place, gets its
	// name while Waits may still ask that Waiter.
	Named bool
	// Steps appends the steps at which a request waits to list. about is what WaitsAt got. The lock
	// of the request's connection is held, so the request can't be answered meanwhile. Steps must
	// not block, and must acquire no lock under which a request is answered or a handler called.
	Steps func(about string, list []view.WaitStep) []view.WaitStep
}

// At returns a Waiter of a fixed step.
func At(step view.WaitStep) *Waiter {
	return &Waiter{Steps: func(_ string, list []view.WaitStep) []view.WaitStep { return append(list, step) }}
}

// WaitsAt records where the request waits, for Waits: it costs one store, and Waits asks w. nil
// means that it waits no longer. about names what it waits for, such as a group, if w is Named; a
// request gets one name at most. WaitsAt must be called before the request may be answered.
func (r *Request) WaitsAt(w *Waiter, about string) {
	if about != "" {
		r.about = about
	}
	r.waiter.Store(w)
}

// SaysWhere reports whether a request that its handler has left unanswered says where it waits.
// Only the handler may ask, and only in builds with bufpool.Invariants: others use the request
// again after its answer.
func (r *Request) SaysWhere() bool { return r.waiter.Load() != nil || r.answered.Load() }

// oldest keeps the most requests that have waited the longest.
type oldest struct {
	most int
	list []view.Wait
	// least is the age below which a request is not among them, in ms.
	least float64
}

func (o *oldest) add(w view.Wait) {
	if o.list = append(o.list, w); len(o.list) < 2*o.most {
		return
	}
	if o.trim(); len(o.list) > 0 {
		o.least = o.list[len(o.list)-1].AgeMs
	}
}

func (o *oldest) trim() {
	sorts.SortStable(o.list, func(a, b view.Wait) int { return cmp.Compare(b.AgeMs, a.AgeMs) })
	o.list = slices.Clip(o.list[:min(len(o.list), o.most)])
}

// gathering is one call of Waits.
type gathering struct {
	now        time.Time
	all        view.Waits
	busy, idle oldest
}

// Waits returns the oldest requests without an answer, most at the most: first those that wait for
// the broker, then those that wait because their clients ask them to. It acquires the lock of each
// connection for an instant, and locks of what the requests wait for. Its cost falls on the caller,
// not on requests.
func (s *Server) Waits(most int) view.Waits {
	s.mu.Lock()
	conns := s.snapshot()
	s.mu.Unlock()
	g := gathering{now: time.Now(), busy: oldest{most: most}, idle: oldest{most: most}}
	g.all.Abandoned = s.orphans.count()
	for c := range conns {
		c.gather(&g)
	}
	g.busy.trim()
	g.idle.trim()
	g.all.List = append([]view.Wait{}, g.busy.list...)
	g.all.List = append(g.all.List, g.idle.list[:min(len(g.idle.list), most-len(g.busy.list))]...)
	return g.all
}

// gather adds the requests of a connection.
func (c *conn) gather(g *gathering) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.life.Alive() {
		return
	}
	for r := c.queue.oldest; r != nil; r = r.next {
		if r.ready {
			continue // it waits for one before it, or for the client: see unread
		}
		kind := &g.busy
		g.all.Waiting++
		if w := r.waiter.Load(); w != nil && w.Idle {
			g.all.Idle++
			kind = &g.idle
		}
		if age := since(r.Received, g.now); age >= kind.least {
			kind.add(c.waitOf(r, g.now))
		}
	}
	for _, held := range [...]func(time.Time) (view.WaitStep, time.Time, bool){c.unread, c.throttled, c.starves} {
		if step, from, is := held(g.now); is {
			g.busy.add(c.waitRow(view.Wait{AgeMs: since(from, g.now), Steps: []view.WaitStep{step}}))
		}
	}
}

func since(from, now time.Time) float64 { return max(0, float64(now.Sub(from).Microseconds())/1000) }

// waitRow completes a row with what identifies the client. Caller holds mu.
func (c *conn) waitRow(w view.Wait) view.Wait {
	w.Connection, w.Listener, w.Address = c.id, c.listener.Name, c.peer.String()
	w.ClientID, w.Principal = view.Cut(c.clientID), view.Cut(c.session.Principal)
	return w
}

// waitOf describes a request without an answer. Caller holds mu.
func (c *conn) waitOf(r *Request, now time.Time) view.Wait {
	w := c.waitRow(view.Wait{Request: protocol.NameOf(r.Key), Version: r.Version, AgeMs: since(r.Received, now)})
	if at := r.waiter.Load(); at != nil {
		w.Idle = at.Idle
	}
	w.Steps = c.steps(r, now)
	if n := len(w.Steps); n > view.MaxWaitSteps {
		w.Steps, w.More = w.Steps[:view.MaxWaitSteps], n-view.MaxWaitSteps
	}
	return w
}

// steps returns where a request without an answer waits. Caller holds mu.
func (c *conn) steps(r *Request, now time.Time) (list []view.WaitStep) {
	if w := r.waiter.Load(); w != nil {
		about := ""
		if w.Named {
			about = r.about
		}
		list = w.Steps(about, nil)
	}
	if len(list) == 0 {
		list = append(list, view.WaitStep{Step: view.StepHandler, For: c.handlerOf(r, now)})
	}
	return list
}

// handlerOf describes what a handler may be doing. Caller holds mu.
func (c *conn) handlerOf(r *Request, now time.Time) string {
	if c.blocked.since.IsZero() || c.blocked.key != r.Key {
		return "its handler works, or is about to"
	}
	return fmt.Sprintf("its handler, which may read a disk, has run for %v", now.Sub(c.blocked.since).Round(time.Millisecond))
}

// lastAnswer returns when an answer was last ready, or the connection was opened. Caller holds mu.
func (c *conn) lastAnswer() time.Time {
	if c.queue.answered.IsZero() {
		return c.opened
	}
	return c.queue.answered
}

// unread reports whether answers wait for the client to read. Caller holds mu.
func (c *conn) unread(time.Time) (view.WaitStep, time.Time, bool) {
	return view.WaitStep{Step: view.StepAnswer, For: fmt.Sprintf("the client to read %d bytes of answers", c.queue.unwritten)},
		c.lastAnswer(),
		c.life.Writes() && c.queue.unwritten > 0
}

// throttled reports whether the connection is not read because its client is over a quota. Caller
// holds mu.
func (c *conn) throttled(now time.Time) (view.WaitStep, time.Time, bool) {
	left := time.Unix(0, c.muteUntil.Load()).Sub(now)
	return view.WaitStep{Step: view.StepThrottle, For: fmt.Sprintf("the client's quota: it is not read for another %v",
		left.Round(time.Millisecond))}, c.lastAnswer(), left > 0
}

// starves reports whether the connection is not read because the memory of requests is in use.
// Caller holds mu.
func (c *conn) starves(time.Time) (view.WaitStep, time.Time, bool) {
	return view.WaitStep{Step: view.StepMemory, For: "memory: requests of the kind " + c.starved.budget + " have all of it"},
		c.starved.since, !c.starved.since.IsZero()
}
