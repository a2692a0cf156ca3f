package network

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/network/connlife"
)

// pollLoop is the state of the goroutine that runs a poller: it waits, reads and handles what has
// arrived, commits its batch and writes the answers, over and over. A commit may wait for a disk.
// If it takes long, the goroutine is replaced: a new pollLoop takes over the poller, and this one
// ends after its commit.
type pollLoop struct {
	ready []pollEvent
	buf   []byte // the target of one read
	batch groupcommit.Batch
	out   writeBuffers
	// phase counts the beginnings and ends of commits. It is odd during a commit, and has the value
	// of the constant replaced when another loop has taken over.
	phase atomic.Uint64
}

const replaced = 0

// stallAfter is about how long a commit may take before the loop is replaced. Twice as long may
// pass.
const stallAfter = 5 * time.Millisecond

// stallWatch notices commits that take long. Its timer runs only while there are commits, and a
// commit need not set it each time.
type stallWatch struct {
	timer *time.Timer
	armed atomic.Bool
	// Owned by the timer's goroutine: the loop that it last saw in a commit, and in which phase.
	loop  *pollLoop
	phase uint64
}

// polls labels the goroutines of pollLoops: busy pollers have many of them.
var polls = label.New("network poll", "")

// startLoop starts a goroutine with a new pollLoop.
func (p *poller) startLoop() {
	s := &pollLoop{buf: make([]byte, pollRead)}
	s.phase.Store(2) // even, and not replaced
	p.loop.Store(s)
	p.srv.loops.Go(func() { p.run(s) })
}

// run is the goroutine of a pollLoop. It ends when it was replaced or the set is closed. If the set
// fails, the connections' own goroutines read them from then on. That a pass has committed its
// appends does not make them durable: see commit.
func (p *poller) run(s *pollLoop) {
	polls.Set()
	for {
		if err := p.wait(s); err != nil {
			if !errors.Is(err, errSetClosed) {
				p.fail(err)
			}
			p.srv.pollWG.Done()
			return
		}
		p.flusher.attend()
		now := time.Now()
		for i := range s.ready {
			p.serve(s, &s.ready[i], now)
		}
		clear(s.ready)
		if !p.commit(s) {
			return
		}
		p.flusher.finish(&s.out)
	}
}

// wait sleeps until connections have something to read; an error ends the poller.
func (p *poller) wait(s *pollLoop) error {
	events, err := p.set.wait()
	if err != nil {
		return err
	}
	s.ready = p.find(events, s.ready[:0])
	return nil
}

// find appends the connections that events belong to. An event of a connection that has ended is
// dropped even if its id is in use again: the new connection's client has not hung up.
func (p *poller) find(events []setEvent, list []pollEvent) []pollEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		if c := p.conns[e.id]; c != nil && c.pollTag() == e.tag {
			list = append(list, pollEvent{c, e.ended})
		}
	}
	return list
}

// serve reads an offered connection once and handles what arrived.
func (p *poller) serve(s *pollLoop, e *pollEvent, now time.Time) {
	c := e.c
	if e.ended {
		c.span.hungUp()
	}
	c.mu.Lock()
	if !c.life.Can(connlife.Poll) {
		c.mu.Unlock()
		return // its reader reads it, or will notice
	}
	c.on(connlife.Poll)
	c.mu.Unlock()
	n, err := p.set.read(c, s.buf)
	rest := c.handleSmall(s.buf[:n], &s.batch, now)
	done := err == nil && len(rest) == 0 && n < len(s.buf) && !e.ended && c.in.handed == nil
	if !done {
		c.in.putBack(c.srv.opts.Pool, rest, err)
	}
	c.mu.Lock()
	next := connlife.Release
	switch {
	case !done || !c.life.Can(connlife.Handled):
	case c.wantedBack():
		next = connlife.Interrupt
	case c.afterPoll():
		next = connlife.Handled
	}
	c.on(next)
	if next != connlife.Handled {
		c.rcond.Signal()
	}
	c.mu.Unlock()
}

// afterPoll counts that the poller handled everything that had arrived, and detaches the connection
// when that pays. It returns false if the connection was removed from the poller's set by that.
// Caller holds mu and has the reading role.
func (c *conn) afterPoll() bool {
	c.poll.whole++
	if c.poll.whole < detachAfter || c.sock.nc == nil || c.life.Writes() {
		return true
	}
	if err := c.detach(); err != nil {
		c.poll.whole = math.MinInt // it is never detached
	}
	return c.poll.armed
}

// commit runs the batch of a loop; it returns false if the loop was replaced in the meantime. If
// the batch wrote the journal's group here, the records are durable when commit returns, as far as
// their profile demands it, and the answers that waited only for that are queued: the loop sends
// them next. Otherwise the journal's writer does the same later. An answer never depends on the
// return of commit: it is queued when the ends of its logs cover its records.
func (p *poller) commit(s *pollLoop) bool {
	if s.batch.Empty() {
		return true
	}
	n := s.phase.Add(1)
	if !p.stalls.armed.Load() && p.stalls.armed.CompareAndSwap(false, true) {
		p.stalls.timer.Reset(stallAfter)
	}
	s.batch.Run()
	return s.phase.CompareAndSwap(n, n+1)
}

// checkStall is called by the timer of stallWatch.
func (p *poller) checkStall() {
	r := &p.stalls
	s := p.loop.Load()
	ends := s.phase.Load()
	if ends%2 == 0 {
		r.armed.Store(false)
		// A commit that began before that has not set the timer.
		if s.phase.Load()%2 == 0 || !r.armed.CompareAndSwap(false, true) {
			return
		}
	} else if r.loop == s && r.phase == ends && s.phase.CompareAndSwap(ends, replaced) {
		p.flusher.unattend()
		p.startLoop()
	}
	r.loop, r.phase = s, ends
	r.timer.Reset(stallAfter)
}
