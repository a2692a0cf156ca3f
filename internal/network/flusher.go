package network

import (
	"bytes"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/network/connlife"
)

// flusher writes the small answers of a poller's connections one after the other, so that many
// answers cost one goroutine wake-up, or none: the poller itself writes answers that are ready when
// it has run its commits. It never waits for a client: it leaves what a socket does not take at
// once to the connection's writer goroutine.
type flusher struct {
	mu       sync.Mutex
	list     []*conn // with answers to write; each connection is listed once
	attended bool    // the poller will write to the listed connections
	ended    bool
	wake     chan struct{} // capacity 1: list or ended has changed; never closed
}

// writeBuffers is the memory that a goroutine needs to write answers.
type writeBuffers struct {
	out  rawWriter
	buf  []byte  // answers that are copied together
	list []*conn // connections of the present pass
}

// add schedules the writing of a connection's answers. It may be called with conn.mu held.
func (f *flusher) add(c *conn) {
	f.mu.Lock()
	f.list = append(f.list, c)
	first := len(f.list) == 1 && !f.attended
	f.mu.Unlock()
	if first {
		f.poke()
	}
}

func (f *flusher) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// attend announces that the caller will soon call finish, so that the flusher's goroutine need not
// wake.
func (f *flusher) attend() {
	f.mu.Lock()
	f.attended = true
	f.mu.Unlock()
}

// finish writes the answers that are ready; the goroutine writes later ones.
func (f *flusher) finish(p *writeBuffers) {
	f.flushAll(p)
	f.unattend()
}

// unattend withdraws attend: the goroutine writes the answers.
func (f *flusher) unattend() {
	f.mu.Lock()
	f.attended = false
	more := len(f.list) > 0
	f.mu.Unlock()
	if more {
		f.poke()
	}
}

// end stops the goroutine.
func (f *flusher) end() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.poke()
}

// run is the flusher's goroutine.
func (f *flusher) run() {
	label.Goroutine("network flush", "")
	var p writeBuffers
	for range f.wake {
		f.flushAll(&p)
		f.mu.Lock()
		ended := f.ended
		f.mu.Unlock()
		if ended {
			return
		}
	}
}

// flushAll writes once to every connection on the list.
func (f *flusher) flushAll(p *writeBuffers) {
	f.mu.Lock()
	p.list, f.list = f.list, p.list[:0]
	f.mu.Unlock()
	for _, c := range p.list {
		f.flush(c, p)
	}
	clear(p.list)
}

// flush writes a connection's answers once, as far as the socket takes them. If more are ready, the
// connection is listed again, after the others.
func (f *flusher) flush(c *conn, p *writeBuffers) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on(connlife.Unlist)
	if c.life.Reader() == connlife.Busy || !c.mayWrite() {
		return
	}
	if !c.queue.oldest.small() {
		c.wcond.Signal()
		return
	}
	job := c.take(copyLimit)
	c.mu.Unlock()
	left, err := p.write(c, job)
	var unsent []sending
	if len(left) > 0 {
		unsent = job.unsent()
	} else if err == nil {
		job.sent(c.srv)
	}
	aborted := job.recycle(c.srv)
	c.mu.Lock()
	if len(left) > 0 && c.life.Can(connlife.Leave) {
		c.on(connlife.Leave)
		c.out.job, c.out.left = answers{n: job.n, bytes: job.bytes, encoded: job.encoded}, left
		c.out.aborted, c.out.unsent = aborted, unsent
		c.wcond.Signal()
		return
	}
	c.written(job, aborted, err)
	c.flushed(true)
	if c.mayWrite() && c.life.Can(connlife.List) {
		c.on(connlife.List)
		f.add(c)
	}
}

// sending is what must be remembered of an answer that is not completely sent.
type sending struct {
	key     int16
	readied time.Time
}

// unsent copies what must be remembered of answers that are recycled before they are sent.
func (job answers) unsent() (list []sending) {
	for r := job.first; r != nil; r = r.next {
		if !r.aborted {
			list = append(list, sending{r.Key, r.readied})
		}
	}
	return list
}

// write writes answers and returns a copy of what the socket did not take.
func (p *writeBuffers) write(c *conn, job answers) (left []byte, err error) {
	if job.bytes == 0 {
		return nil, nil
	}
	b := job.first.head
	if job.first.next != nil || len(job.first.parts) > 0 {
		p.buf = job.appendTo(p.buf[:0])
		b = p.buf
	}
	n, err := p.out.write(c, b)
	if n == len(b) || err != nil {
		return nil, err
	}
	return bytes.Clone(b[n:]), nil
}

// writeLeft writes what the flusher could not. Caller is the writer goroutine and holds mu, which
// is released during the write.
func (c *conn) writeLeft() {
	c.on(connlife.Resume)
	left, unsent := c.out.left, c.out.unsent
	c.out.left, c.out.unsent = nil, nil
	err := c.attachLocked()
	c.mu.Unlock()
	if err == nil {
		err = c.writeOne(left)
	}
	for now, i := time.Now(), 0; err == nil && i < len(unsent); i++ {
		c.srv.opts.Observer.Sent(unsent[i].key, now.Sub(unsent[i].readied))
	}
	c.mu.Lock()
	c.written(c.out.job, c.out.aborted, err)
	c.flushed(true)
}
