package network

import (
	"context"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

const (
	// traceEvery is the time after which Trace inspects the requests again, which costs about a
	// twentieth of a processor. traceRenew is the time after which it finds new connections.
	traceEvery = 200 * time.Microsecond
	traceRenew = 10 * time.Millisecond
	// Bounds of the requests that are followed at once, and of the steps of each.
	maxTraced     = 64
	maxTraceSteps = 256
)

// traced identifies a request that is followed: its struct is used again.
type traced struct {
	r        *Request
	received time.Time
}

// follower is one call of Trace.
type follower struct {
	s       *Server
	client  string
	conns   []*conn
	renew   time.Time
	of      map[traced]*view.Trace
	skipped int
}

// Trace follows the requests with a client id, and returns the first that takes at least slow from
// its arrival until its answer is taken for writing. If ctx ends first, it returns the oldest
// request that still waits, with TookMs 0; ok is false if there is none. It inspects the requests
// from outside, so that they pay nothing; steps shorter than 0.2 ms may be missing.
func (s *Server) Trace(ctx context.Context, client string, slow time.Duration) (t view.Trace, ok bool) {
	f := newFollower(s, client)
	again := time.NewTicker(traceEvery)
	defer again.Stop()
	for {
		now := time.Now()
		for key, t := range f.ended(f.inspect(now)) {
			if t.TookMs = since(key.received, now); t.TookMs >= float64(slow.Microseconds())/1000 {
				t.Skipped = f.skipped
				return *t, true
			}
			f.skipped++
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return f.oldest()
		}
	}
}

func newFollower(s *Server, client string) *follower {
	return &follower{s: s, client: client, of: map[traced]*view.Trace{}}
}

// inspect records where the requests are, and returns those that were seen.
func (f *follower) inspect(now time.Time) map[traced]bool {
	if now.After(f.renew) {
		f.renew = now.Add(traceRenew)
		f.s.mu.Lock()
		conns := f.s.snapshot()
		f.s.mu.Unlock()
		f.conns = f.conns[:0]
		for c := range conns {
			c.mu.Lock()
			if c.clientID == f.client {
				f.conns = append(f.conns, c)
			}
			c.mu.Unlock()
		}
	}
	seen := map[traced]bool{}
	for _, c := range f.conns {
		c.mu.Lock()
		for r := c.queue.oldest; r != nil && len(seen) < maxTraced; r = r.next {
			f.follow(c, r, now, seen)
		}
		c.mu.Unlock()
	}
	return seen
}

// follow records where a request is. Caller holds c.mu.
func (f *follower) follow(c *conn, r *Request, now time.Time, seen map[traced]bool) {
	key := traced{r, r.Received}
	t := f.of[key]
	if t == nil {
		if r.ready || r.ClientID != f.client {
			return // its steps are over, or it is of another client
		}
		t = &view.Trace{Wait: c.waitOf(r, now)}
		f.of[key] = t
	}
	seen[key] = true
	steps := []view.WaitStep{{Step: view.StepAnswer, For: "its turn, or the client to read earlier answers"}}
	if !r.ready {
		steps = c.steps(r, now)
		steps = steps[:min(len(steps), view.MaxWaitSteps)]
	}
	t.AgeMs = since(r.Received, now)
	if n := len(t.Seen); n == 0 || n < maxTraceSteps && !slices.EqualFunc(t.Seen[n-1].Steps, steps, sameStep) {
		t.Seen = append(t.Seen, view.TraceStep{AtMs: t.AgeMs, Steps: steps})
	}
}

// sameStep reports whether two steps are the same but for their words, which may contain figures
// that grow.
func sameStep(a, b view.WaitStep) bool {
	return a.Step == b.Step && a.Partition == b.Partition && a.Dir == b.Dir && slices.Equal(a.Brokers, b.Brokers)
}

// ended removes the requests that were not seen, and returns them.
func (f *follower) ended(seen map[traced]bool) map[traced]*view.Trace {
	var list map[traced]*view.Trace
	for key, t := range f.of {
		if !seen[key] {
			if list == nil {
				list = map[traced]*view.Trace{}
			}
			list[key] = t
			delete(f.of, key)
		}
	}
	return list
}

// oldest returns the request that has waited the longest.
func (f *follower) oldest() (t view.Trace, ok bool) {
	for _, x := range f.of {
		if !ok || x.AgeMs > t.AgeMs {
			t, ok = *x, true
		}
	}
	t.Skipped = f.skipped
	return t, ok
}
