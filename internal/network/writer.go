package network

import (
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"
)

const (
	// writeChunk is how much is written before the slow reader's clock is
	// looked at again.
	writeChunk = 512 << 10
	// copyLimit bytes in all, or copyEach on average, is up to where several
	// answers are copied together: cheaper than a piece each in a vectored write.
	copyLimit = 8 << 10
	copyEach  = 512
	// takeRequests bounds how many answers are taken for one write.
	takeRequests = 256
)

// output is what a write needs. It belongs to whoever has the writing role.
type output struct {
	deadline time.Time // write deadline of the socket
	iov      [][]byte
	one      [1][]byte
	bufs     net.Buffers
}

// writeLoop is the connection's writer: it writes answers that the reader is not
// there to write, calls the expiry of the oldest request, and closes.
func (c *conn) writeLoop() {
	c.mu.Lock()
	for !c.dead {
		switch {
		case !c.busy && c.flush():
		case c.expireOldest():
		case c.readDone && c.queued == 0 && !c.writing:
			c.dead = true // gracefully: nothing is left to write
			c.mu.Unlock()
			c.cancel()
			c.lingerAndClose()
			c.mu.Lock()
		default:
			c.wcond.Wait()
		}
	}
	for !c.readDone || c.writing {
		c.wcond.Wait()
	}
	c.abandon()
}

// abandon ends the writer of a dead connection. It drops the answers that are
// ready; the others become orphans, which recycle themselves when they are
// answered. Caller holds mu, which it releases.
func (c *conn) abandon() {
	if c.expiry != nil {
		c.expiry.Stop()
	}
	c.srv.census.back(c.away)
	c.away = 0
	list := c.oldest
	c.oldest, c.newest = nil, nil
	c.abandoned = true
	c.srv.orphans.add(c.unready)
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
	reason := c.reason
	c.mu.Unlock()
	for _, r := range dropped {
		r.recycle(c.srv)
	}
	c.srv.gone(c, reason)
}

// flush writes the answers at the head of the queue until none is ready, and
// says whether there was one. It does nothing while somebody else writes. Caller
// holds mu, which is released during the writes.
func (c *conn) flush() bool {
	worked := false
	for !c.writing && !c.dead && c.oldest != nil && c.oldest.ready {
		worked = true
		first, n, bytes := c.take()
		c.writing = true
		c.mu.Unlock()
		aborted, err := c.write(first, n, bytes)
		c.mu.Lock()
		c.writing = false
		c.queued -= n
		c.unwritten -= bytes
		switch {
		case err != nil && isTimeout(err):
			c.srv.noise.log(c, zap.InfoLevel, "client does not read its answers", err)
			c.kill(ClosedSlowReader)
		case err != nil:
			c.kill(ClosedByClient)
		case aborted:
			c.kill(ClosedError)
		}
		if c.rwaiting {
			c.rcond.Signal()
		}
	}
	if worked && (c.dead || c.readDone) {
		c.wcond.Signal()
	} else if worked && c.oldest != nil {
		c.watchExpiry()
	}
	return worked
}

// take removes the ready requests at the head of the queue. Caller holds mu.
func (c *conn) take() (first *Request, n, bytes int) {
	first = c.oldest
	var last *Request
	for r := first; r != nil && r.ready && n < takeRequests && (n == 0 || bytes < writeChunk); r = r.next {
		n++
		bytes += r.outSize
		last = r
		if r.aborted {
			break
		}
	}
	c.oldest = last.next
	if c.oldest == nil {
		c.newest = nil
	}
	last.next = nil
	return first, n, bytes
}

// write writes and recycles a chain of n answered requests. Caller has the writing
// role.
func (c *conn) write(first *Request, n, bytes int) (aborted bool, err error) {
	switch {
	case bytes == 0:
	case first.next == nil && len(first.parts) == 0:
		c.out.one[0] = first.head
		err = c.writeAll(c.out.one[:])
		c.out.one[0] = nil
	case bytes <= max(copyLimit, n*copyEach):
		err = c.writeCopied(first, bytes)
	default:
		iov := c.out.iov[:0]
		for r := first; r != nil; r = r.next {
			if len(r.head) > 0 {
				iov = append(iov, r.head)
			}
			iov = append(iov, r.parts...)
		}
		err = c.writeAll(iov)
		clear(iov)
		if c.out.iov = iov[:0]; cap(iov) > takeRequests {
			c.out.iov = nil
		}
	}
	for r := first; r != nil; {
		next := r.next
		aborted = aborted || r.aborted
		r.recycle(c.srv)
		r = next
	}
	return aborted, err
}

func (c *conn) writeCopied(first *Request, bytes int) error {
	buf := c.srv.opts.Pool.Get(bytes)
	defer buf.Release()
	p := buf.Bytes()[:0]
	for r := first; r != nil; r = r.next {
		p = append(p, r.head...)
		for _, part := range r.parts {
			p = append(p, part...)
		}
	}
	c.out.one[0] = p
	err := c.writeAll(c.out.one[:])
	c.out.one[0] = nil
	return err
}

// writeAll writes all pieces, writeChunk bytes at a time at most. iov is used up.
func (c *conn) writeAll(iov [][]byte) error {
	for len(iov) > 0 {
		if err := c.armWrite(); err != nil {
			return err
		}
		n, size := 0, 0
		for n < len(iov) && size+len(iov[n]) <= writeChunk {
			size += len(iov[n])
			n++
		}
		var err error
		switch n {
		case 0: // a piece larger than the chunk
			_, err = c.nc.Write(iov[0][:writeChunk])
			iov[0] = iov[0][writeChunk:]
		case 1:
			_, err = c.nc.Write(iov[0])
			iov = iov[1:]
		default:
			c.out.bufs = iov[:n:n]
			_, err = c.out.bufs.WriteTo(c.nc)
			c.out.bufs = nil
			iov = iov[n:]
		}
		if err != nil {
			return fmt.Errorf("write an answer to %s: %w", c.peer, err)
		}
	}
	return nil
}

// armWrite sees to it that the next write has at least half the timeout. It
// seldom sets a deadline: one that is far enough is left alone.
func (c *conn) armWrite() error {
	limit := c.srv.opts.WriteTimeout
	now := time.Now()
	if c.out.deadline.Sub(now) >= limit/2 {
		return nil
	}
	c.out.deadline = now.Add(limit)
	return c.nc.SetWriteDeadline(c.out.deadline)
}

// expireOldest calls the expiry of the oldest request if it is due, or arms the
// timer for it; it says whether it called. Caller holds mu, which is released
// during the call.
func (c *conn) expireOldest() bool {
	r := c.oldest
	if !c.expiryUnwatched() {
		return false
	}
	now := time.Now()
	if wait := r.expireAt.Sub(now); wait > 0 {
		c.expiresAt = r.expireAt
		if c.expiry == nil {
			c.expiry = time.AfterFunc(wait, c.expiryFired)
		} else {
			c.expiry.Reset(wait)
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

// expiryUnwatched says whether the oldest request has an expiry that comes
// before the timer. Caller holds mu.
func (c *conn) expiryUnwatched() bool {
	r := c.oldest
	return r != nil && !r.ready && r.expire != nil && (c.expiresAt.IsZero() || r.expireAt.Before(c.expiresAt))
}

// watchExpiry wakes the writer where it has to look after the oldest request's
// expiry. Mostly the timer is armed for an earlier one and will look itself.
// Caller holds mu.
func (c *conn) watchExpiry() {
	if c.expiryUnwatched() {
		c.wcond.Signal()
	}
}

func (c *conn) expiryFired() {
	c.mu.Lock()
	c.expiresAt = time.Time{}
	c.wcond.Signal()
	c.mu.Unlock()
}

// lingerAndClose ends a connection whose answers are all written. A socket that
// is closed with unread requests in it is reset, and the reset may overtake the
// last answers; so the client gets the end of the stream first and a moment to
// close its own side.
func (c *conn) lingerAndClose() {
	defer c.nc.Close()
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.nc.SetReadDeadline(time.Now().Add(c.srv.opts.Linger)) != nil {
		return
	}
	buf := c.srv.opts.Pool.Get(readBig)
	defer buf.Release()
	for left := 4 << 20; left > 0; {
		n, err := c.nc.Read(buf.Bytes())
		if err != nil {
			return // the client closed too, or had its moment
		}
		left -= n
	}
}
