package network

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
)

// pollLoop is what a goroutine needs that does a poller's work: it waits, reads and
// handles what there is, ends the turn and writes the answers, over and over. The end
// of a turn may wait for a disk. Where that takes long the goroutine is relieved: another
// shift takes over the poller, and this one ends with its turn.
type pollLoop struct {
	ready []pollEvent
	buf   []byte // what one read takes
	batch groupcommit.Batch
	out   writeBuffers
	// ends counts when the end of a turn begins and is over: it is odd in between, and
	// relieved once another shift has taken over.
	phase atomic.Uint64
}

const replaced = 0

// stallAfter is about how long the end of a turn may take. Twice as long may pass.
const stallAfter = 5 * time.Millisecond

// stallWatch watches over the end of turns, with a timer that runs only while there are
// turns and that no turn has to set.
type stallWatch struct {
	timer *time.Timer
	armed atomic.Bool
	// Of the timer's goroutine: the shift that it last saw in the end of a turn, and in which.
	loop  *pollLoop
	phase uint64
}

// startLoop starts a shift.
func (p *poller) startLoop() {
	s := &pollLoop{buf: make([]byte, pollRead)}
	s.phase.Store(2) // even, and not relieved
	p.loop.Store(s)
	p.srv.loops.Go(func() { p.run(s) })
}

// run is a shift's goroutine. It ends when it was relieved or the set is closed; were
// the set ever to fail, the connections are read by their own goroutines from then on.
func (p *poller) run(s *pollLoop) {
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
func (p *poller) serve(s *pollLoop, e *pollEvent, now time.Time) {
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
	if done && !c.stopped.Load() && !c.dead && !c.recalled && c.afterPoll() {
		c.role = offered
	} else {
		c.role = reading
		c.rcond.Signal()
	}
	c.mu.Unlock()
}

// afterPoll counts that the poller has handled all that came, and detaches the
// connection once that pays; false where it lost its place in the poller's set over that.
// Caller holds mu and has the reading role.
func (c *conn) afterPoll() bool {
	c.polled++
	if c.polled < detachAfter || c.nc == nil || c.writing || c.out.left != nil {
		return true
	}
	if err := c.detach(); err != nil {
		c.polled = math.MinInt // it stays as it is
	}
	return c.armed
}

// commit ends a shift's turn; false says that the shift was relieved meanwhile.
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

// checkStall is called by relief's timer.
func (p *poller) checkStall() {
	r := &p.stalls
	s := p.loop.Load()
	ends := s.phase.Load()
	if ends%2 == 0 {
		r.armed.Store(false)
		// A turn whose end began before that has not set the timer.
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
