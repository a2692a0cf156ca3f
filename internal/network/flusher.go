package network

import (
	"bytes"
	"sync"
	"time"
)

// flusher writes the small answers of a poller's connections, one after the other, so
// that many answers that come together cost one goroutine's wake-up. It never
// waits for a client: what a socket does not take at once is left to the
// connection's writer goroutine.
type flusher struct {
	mu   sync.Mutex
	list []*conn // with answers to write; each is there once
	wake chan struct{}

	out rawWriter // of run
	buf []byte    // of run: answers that are copied together
}

// add has a connection's answers written. It may be called with conn.mu held.
func (f *flusher) add(c *conn) {
	f.mu.Lock()
	f.list = append(f.list, c)
	first := len(f.list) == 1
	f.mu.Unlock()
	if first {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// run is the flusher's goroutine, until wake is closed.
func (f *flusher) run() {
	var list []*conn
	for range f.wake {
		f.mu.Lock()
		list, f.list = f.list, list[:0]
		f.mu.Unlock()
		for _, c := range list {
			f.flush(c)
		}
		clear(list)
	}
}

// flush writes a connection's answers once, as far as that needs no waiting. Where
// more are ready its turn comes again after the others'.
func (f *flusher) flush(c *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushing = false
	if c.busy || !c.mayWrite() {
		return
	}
	if c.oldest.outSize > copyLimit {
		c.wcond.Signal()
		return
	}
	job := c.take(copyLimit)
	c.mu.Unlock()
	left, err := f.write(c, job)
	var unsent []sending
	if len(left) > 0 {
		unsent = job.unsent()
	} else if err == nil {
		job.sent(c.srv)
	}
	aborted := job.recycle(c.srv)
	c.mu.Lock()
	if len(left) > 0 && !c.dead { // the writer of a dead one looks no more
		c.out.job, c.out.left = answers{n: job.n, bytes: job.bytes}, left
		c.out.aborted, c.out.unsent = aborted, unsent
		c.wcond.Signal()
		return
	}
	c.written(job, aborted, err)
	c.flushed(true)
	if !c.busy && c.mayWrite() {
		c.flushing = true
		f.add(c)
	}
}

// sending is what is remembered of an answer of which a part is not sent yet.
type sending struct {
	key     int16
	readied time.Time
}

// unsent remembers answers that will be recycled before they are sent.
func (job answers) unsent() (list []sending) {
	for r := job.first; r != nil; r = r.next {
		if !r.aborted {
			list = append(list, sending{r.Key, r.readied})
		}
	}
	return list
}

// write writes answers and returns a copy of what the socket did not take.
func (f *flusher) write(c *conn, job answers) (left []byte, err error) {
	if job.bytes == 0 {
		return nil, nil
	}
	p := job.first.head
	if job.first.next != nil || len(job.first.parts) > 0 {
		f.buf = job.appendTo(f.buf[:0])
		p = f.buf
	}
	n, err := f.out.write(c.raw, p)
	if n == len(p) || err != nil {
		return nil, err
	}
	return bytes.Clone(p[n:]), nil
}

// writeLeft writes what the flusher could not. Caller is the writer goroutine and holds mu,
// which is released during the write.
func (c *conn) writeLeft() {
	left, unsent := c.out.left, c.out.unsent
	c.out.left, c.out.unsent = nil, nil
	c.mu.Unlock()
	err := c.writeOne(left)
	for now, i := time.Now(), 0; err == nil && i < len(unsent); i++ {
		c.srv.opts.Observer.Sent(unsent[i].key, now.Sub(unsent[i].readied))
	}
	c.mu.Lock()
	c.written(c.out.job, c.out.aborted, err)
	c.flushed(true)
}
