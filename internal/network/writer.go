package network

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/network/connlife"
)

const (
	// writeChunk is the maximum of one write; see Options.WriteTimeout.
	writeChunk = 512 << 10
	// Several answers are copied together if they have at most copyLimit bytes in all, or copyEach
	// on average: that is cheaper than one piece each in a vectored write.
	copyLimit = 8 << 10
	copyEach  = 512
	// takeRequests bounds how many answers are taken for one write.
	takeRequests = 256
)

// output is the state of a write. It is owned by the writing role.
type output struct {
	deadline time.Time // write deadline of the socket
	others   traffic
	taken    int64 // answers that were taken for writing; guarded by conn.mu while nothing is written
	proven   bool  // the connection is not new (Request.Holder)
	// The present call that writes: since when (unix ns; 0 before the first), and its bytes.
	since, bytes atomic.Int64
	iov          [][]byte
	one          [1][]byte
	bufs         net.Buffers

	// What the flusher could not write at once. It left the writing role to the writer goroutine,
	// with a copy of the unwritten bytes; the answers themselves were recycled. Guarded by conn.mu.
	left    []byte
	job     answers
	unsent  []sending
	aborted bool
}

// expiry wakes the writer when the expiry of the oldest request may be due. conn.mu guards it.
type expiry struct {
	timer *time.Timer
	at    time.Time // when timer fires; zero if it is not armed
}

// answers is a chain of answered requests that are written together.
type answers struct {
	first   *Request
	n       int
	bytes   int
	encoded int // of these bytes, those encoded by Respond
	raw     int // and those in memory that RespondRaw passed
}

// writeLoop is the connection's writer: it writes answers that the reader does not write, calls the
// expiry of the oldest request, and closes the connection.
func (c *conn) writeLoop() {
	c.listener.writes.Set()
	c.mu.Lock()
	for c.life.Alive() {
		switch {
		case c.life.Writer() == connlife.Left:
			c.writeLeft()
		case c.life.Reader() != connlife.Busy && c.flush():
		case c.expireOldest():
		case c.queue.n == 0 && c.life.Can(connlife.Drained):
			c.on(connlife.Drained)
			c.mu.Unlock()
			c.span.over()
			c.lingerAndClose()
			c.mu.Lock()
		default:
			c.wcond.Wait()
		}
	}
	if c.life.Writer() == connlife.Left {
		c.writeLeft()
	}
	for c.life.Reader() != connlife.Ended || c.life.Writes() {
		c.wcond.Wait()
	}
	c.abandon()
}

// abandon ends the writer of a dead connection. It drops the answers that are ready. Unanswered
// requests become orphans, which recycle themselves when they are answered. Caller holds mu, which
// it releases.
func (c *conn) abandon() {
	if c.expiry.timer != nil {
		c.expiry.timer.Stop()
	}
	c.srv.producers.markPresent(c.queue.away)
	c.queue.away = 0
	list := c.queue.drop()
	c.count()
	c.srv.orphans.add(c.queue.unready)
	var dropped []*Request
	for r := list; r != nil; {
		next := r.next
		r.next = nil
		if r.ready {
			dropped = append(dropped, r)
		} else {
			r.expireAlone()
		}
		r = next
	}
	reason, answered := c.life.reason, c.queue.unready == 0
	if answered {
		c.on(connlife.WriterEnds)
	} else {
		c.on(connlife.Orphans)
	}
	c.mu.Unlock()
	for _, r := range dropped {
		r.recycle(c.srv)
	}
	c.srv.connectionClosed(c, reason, answered)
}

// flush writes the answers at the head of the queue until none is ready, and reports whether there
// was one. It does nothing while another goroutine writes. Caller holds mu, which is released
// during the writes.
func (c *conn) flush() bool {
	worked := false
	for c.mayWrite() {
		worked = true
		if c.attachLocked() != nil {
			break
		}
		job := c.take(writeChunk)
		c.mu.Unlock()
		err := c.write(job)
		if err == nil {
			job.sent(c.srv)
		}
		aborted := job.recycle(c.srv)
		c.mu.Lock()
		c.written(job, aborted, err)
	}
	c.flushed(worked)
	return worked
}

func (c *conn) mayWrite() bool {
	return c.queue.oldest != nil && c.queue.oldest.ready && c.life.Can(connlife.Take)
}

// written ends the writing role after a write whose answers were recycled. Caller holds mu.
func (c *conn) written(job answers, aborted bool, err error) {
	c.on(connlife.Written)
	c.queue.wrote(job)
	c.count()
	switch {
	case err != nil && isTimeout(err):
		c.srv.limited.log(c, zap.InfoLevel, "client does not read its answers", err)
		c.kill(ClosedSlowReader)
	case err != nil && c.reportFile(err):
		c.kill(ClosedError)
	case err != nil:
		c.kill(ClosedByClient)
	case aborted:
		c.kill(ClosedError)
	}
	if c.life.Reader() == connlife.Waiting {
		c.rcond.Signal()
	}
}

// flushed is called after a write, by any goroutine. Caller holds mu.
func (c *conn) flushed(worked bool) {
	if worked && (!c.life.Alive() || c.life.Reader() == connlife.Ended) {
		c.wcond.Signal()
	} else if worked && c.queue.oldest != nil {
		c.watchExpiry()
	}
}

// take takes answers of at most limit bytes, see queue.take, and the writing role. Caller holds mu.
func (c *conn) take(limit int) answers {
	job := c.queue.take(limit)
	c.on(connlife.Take)
	c.out.taken += int64(job.n)
	c.out.since.Store(0)
	c.out.proven = c.proves()
	return job
}

// sent notifies the observer of answers that were written.
func (job answers) sent(s *Server) {
	if job.first == nil {
		return
	}
	now := job.first.Now()
	for r := job.first; r != nil; r = r.next {
		if !r.aborted {
			s.opts.Observer.Sent(r.Key, now.Sub(r.readied))
		}
	}
}

// recycle drops the answers and reports whether one of them closes the connection.
func (job answers) recycle(s *Server) (aborted bool) {
	for r := job.first; r != nil; {
		next := r.next
		aborted = aborted || r.aborted
		r.recycle(s)
		r = next
	}
	return aborted
}

// write writes answers. Caller has the writing role.
func (c *conn) write(job answers) error {
	first := job.first
	if job.bytes > nearBuffer {
		c.shareProcessors()
	}
	switch {
	case job.bytes == 0:
		return nil
	case job.hasFiles():
		return c.writeEach(job)
	case first.next == nil && len(first.parts) == 0:
		return c.writeOne(first.head)
	case job.bytes <= max(copyLimit, job.n*copyEach):
		buf := c.srv.opts.Pool.Get(job.bytes)
		defer buf.Release()
		return c.writeOne(job.appendTo(buf.Bytes()[:0]))
	}
	iov := c.out.iov[:0]
	for r := first; r != nil; r = r.next {
		if len(r.head) > 0 {
			iov = append(iov, r.head)
		}
		iov = append(iov, r.parts...)
	}
	return c.writePieces(iov)
}

// writePieces is writeAll for a slice that may be used for the next write.
func (c *conn) writePieces(iov [][]byte) error {
	err := c.writeAll(iov)
	clear(iov)
	if c.out.iov = iov[:0]; cap(iov) > takeRequests {
		c.out.iov = nil
	}
	return err
}

// appendTo appends the bytes of all answers to dst.
func (job answers) appendTo(dst []byte) []byte {
	for r := job.first; r != nil; r = r.next {
		dst = append(dst, r.head...)
		for _, part := range r.parts {
			dst = append(dst, part...)
		}
	}
	return dst
}

func (c *conn) writeOne(p []byte) error {
	c.out.one[0] = p
	err := c.writeAll(c.out.one[:])
	c.out.one[0] = nil
	return err
}

// chunk returns the most that one call writes: little if handlers wait for memory that answers
// hold, so that it shows whether the client reads, and to a new connection.
func (c *conn) chunk() int {
	if c.srv.outgoing.waiting.Load() > 0 || !c.out.proven {
		return lagBytes
	}
	return writeChunk
}

// stuck reports whether the present call has written for longer than lagTime and a second for
// every lagBytes.
func (o *output) stuck(now time.Time) bool {
	since := o.since.Load()
	return since != 0 && now.Sub(time.Unix(0, since)) > lagTime+time.Duration(o.bytes.Load())*time.Second/lagBytes
}

// writeAll writes all pieces, at most a chunk at a time. It consumes iov.
func (c *conn) writeAll(iov [][]byte) error {
	if c.listener.TLS != nil && (len(iov) > 1 || len(iov) == 1 && len(iov[0]) > tlsRecord) {
		return c.writeRecords(iov)
	}
	for len(iov) > 0 {
		n, size, chunk := 0, 0, c.chunk()
		for n < len(iov) && size+len(iov[n]) <= chunk {
			size += len(iov[n])
			n++
		}
		if n == 0 {
			size = chunk
		}
		err := c.armWrite(size)
		if err != nil {
			return err
		}
		switch n {
		case 0: // a piece larger than the chunk
			_, err = c.sock.nc.Write(iov[0][:chunk])
			iov[0] = iov[0][chunk:]
		case 1:
			_, err = c.sock.nc.Write(iov[0])
			iov = iov[1:]
		default:
			c.out.bufs = iov[:n:n]
			_, err = c.out.bufs.WriteTo(c.sock.nc)
			c.out.bufs = nil
			iov = iov[n:]
		}
		if err != nil {
			return fmt.Errorf("write an answer to %s: %w", c.peer, err)
		}
	}
	return nil
}

// armWrite makes sure that the next write, of n bytes, has at least half the timeout. It seldom
// sets a deadline, because it leaves one that is late enough.
func (c *conn) armWrite(n int) error {
	limit := c.srv.opts.WriteTimeout
	now := time.Now()
	c.out.bytes.Store(int64(n))
	c.out.since.Store(now.UnixNano())
	if c.out.deadline.Sub(now) >= limit/2 {
		return nil
	}
	c.out.deadline = now.Add(limit)
	return c.sock.nc.SetWriteDeadline(c.out.deadline)
}

// expireOldest calls the expiry of the oldest request if it is due, otherwise it arms the timer; it
// reports whether it called. Caller holds mu, which is released during the call.
func (c *conn) expireOldest() bool {
	r := c.queue.oldest
	if !c.expiryUnwatched() {
		return false
	}
	now := time.Now()
	if wait := r.expireAt.Sub(now); wait > 0 {
		c.expiry.at = r.expireAt
		if c.expiry.timer == nil {
			c.expiry.timer = time.AfterFunc(wait, c.expiryFired)
		} else {
			c.expiry.timer.Reset(wait)
		}
		return false
	}
	expire := r.expire
	r.expire = nil
	c.mu.Unlock()
	expire()
	c.mu.Lock()
	return true
}

// expiryUnwatched reports whether the oldest request has an expiry before the timer fires. Caller
// holds mu.
func (c *conn) expiryUnwatched() bool {
	r := c.queue.oldest
	return r != nil && !r.ready && r.expire != nil && (c.expiry.at.IsZero() || r.expireAt.Before(c.expiry.at))
}

// watchExpiry wakes the writer if it must check the expiry of the oldest request. Mostly the timer
// is armed for an earlier time and the check happens then. Caller holds mu.
func (c *conn) watchExpiry() {
	if c.expiryUnwatched() {
		c.wcond.Signal()
	}
}

func (c *conn) expiryFired() {
	c.mu.Lock()
	c.expiry.at = time.Time{}
	c.wcond.Signal()
	c.mu.Unlock()
}

// lingerAndClose ends a connection whose answers are all written. Closing a socket with unread
// requests resets it, and the reset may overtake the last answers. So the client receives the end
// of the stream first and has some time to close its own side.
//
// A stop resets the connections on which no client was served. Clients take the end of the stream
// before their first answer for a port with TLS or SASL, and give up; see Request.Reset. There is
// no answer that the reset could overtake, except those that introduce.
func (c *conn) lingerAndClose() {
	nc := below(c.sock.nc)
	if c.endsUnserved() {
		closeWithReset(nc)
		return
	}
	defer nc.Close()
	if t, ok := c.sock.nc.(*tls.Conn); ok {
		// Tells the client that no more will come; it fails before the handshake's end. It would
		// wait 5 s for a client that does not read.
		late := time.AfterFunc(c.srv.opts.Linger, func() { _ = nc.SetWriteDeadline(time.Unix(1, 0)) })
		_ = t.CloseWrite()
		late.Stop()
	}
	half, ok := nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || nc.SetReadDeadline(time.Now().Add(c.srv.opts.Linger)) != nil {
		return
	}
	buf := c.srv.opts.Pool.Get(readBig)
	defer buf.Release()
	for left := 4 << 20; left > 0; {
		n, err := nc.Read(buf.Bytes())
		if err != nil {
			return // the client also closed, or its time is over
		}
		left -= n
	}
}

func (c *conn) endsUnserved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life.reason == ClosedShutdown && !c.life.served
}
