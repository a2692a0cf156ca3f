package network

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
)

// shift is what a goroutine needs that does a poller's work: it waits, reads and
// handles what there is, ends the turn and writes the answers, over and over. The end
// of a turn may wait for a disk. Where that takes long the goroutine is relieved: another
// shift takes over the poller, and this one ends with its turn.
type shift struct {
	ready []pollEvent
	buf   []byte // what one read takes
	batch groupcommit.Batch
	pen   pen
	// ends counts when the end of a turn begins and is over: it is odd in between, and
	// relieved once another shift has taken over.
	ends atomic.Uint64
}

const relieved = 0

// reliefAfter is about how long the end of a turn may take. Twice as long may pass.
const reliefAfter = 5 * time.Millisecond

// relief watches over the end of turns, with a timer that runs only while there are
// turns and that no turn has to set.
type relief struct {
	timer *time.Timer
	armed atomic.Bool
	// Of the timer's goroutine: the shift that it last saw in the end of a turn, and in which.
	shift *shift
	ends  uint64
}

// begin starts a shift.
func (p *poller) begin() {
	s := &shift{buf: make([]byte, pollRead)}
	s.ends.Store(2) // even, and not relieved
	p.shift.Store(s)
	p.srv.shifts.Go(func() { p.run(s) })
}

// run is a shift's goroutine. It ends when it was relieved or the set is closed; were
// the set ever to fail, the connections are read by their own goroutines from then on.
func (p *poller) run(s *shift) {
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
		if !p.end(s) {
			return
		}
		p.flusher.finish(&s.pen)
	}
}

// wait sleeps until connections have something to read; an error ends the poller.
func (p *poller) wait(s *shift) error {
	events, err := p.set.wait()
	if err != nil {
		return err
	}
	s.ready = p.find(events, s.ready[:0])
	return nil
}

// find appends the connections that events are of. One that is gone has none, though its id
// is in use again: that connection's client has not hung up.
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

// serve reads an offered connection once and handles what came.
func (p *poller) serve(s *shift, e *pollEvent, now time.Time) {
	c := e.c
	if e.ended {
		c.hungUp()
	}
	c.mu.Lock()
	if c.role != offered || c.dead {
		c.mu.Unlock()
		return // its reader reads, or will find out
	}
	c.role = polling
	c.mu.Unlock()
	n, err := p.set.read(c, s.buf)
	rest := c.handleSmall(s.buf[:n], &s.batch, now)
	done := err == nil && len(rest) == 0 && n < len(s.buf) && !e.ended && c.handed == nil
	if !done {
		c.in.putBack(c.srv.opts.Pool, rest, err)
	}
	c.mu.Lock()
	if done && !c.stopped.Load() && !c.dead && !c.recalled && c.stays() {
		c.role = offered
	} else {
		c.role = reading
		c.rcond.Signal()
	}
	c.mu.Unlock()
}

// stays counts that the poller has handled all that came, and detaches the
// connection once that pays; false where it lost its place in the poller's set over that.
// Caller holds mu and has the reading role.
func (c *conn) stays() bool {
	c.polled++
	if c.polled < detachAfter || c.nc == nil || c.writing || c.out.left != nil {
		return true
	}
	if err := c.detach(); err != nil {
		c.polled = math.MinInt // it stays as it is
	}
	return c.armed
}

// end ends a shift's turn; false says that the shift was relieved meanwhile.
func (p *poller) end(s *shift) bool {
	if s.batch.Empty() {
		return true
	}
	n := s.ends.Add(1)
	if !p.relief.armed.Load() && p.relief.armed.CompareAndSwap(false, true) {
		p.relief.timer.Reset(reliefAfter)
	}
	s.batch.Run()
	return s.ends.CompareAndSwap(n, n+1)
}

// checkRelief is called by relief's timer.
func (p *poller) checkRelief() {
	r := &p.relief
	s := p.shift.Load()
	ends := s.ends.Load()
	if ends%2 == 0 {
		r.armed.Store(false)
		// A turn whose end began before that has not set the timer.
		if s.ends.Load()%2 == 0 || !r.armed.CompareAndSwap(false, true) {
			return
		}
	} else if r.shift == s && r.ends == ends && s.ends.CompareAndSwap(ends, relieved) {
		p.flusher.unattend()
		p.begin()
	}
	r.shift, r.ends = s, ends
	r.timer.Reset(reliefAfter)
}
