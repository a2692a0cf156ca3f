package network

import (
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/network/connlife"
)

const (
	// readSmall is the size of the read buffer of a connection that sends one request at a time.
	// Thousands of idle connections have no other buffer.
	readSmall = 1 << 10
	// readBig is the size of the buffer of a connection that filled the small one, because it
	// pipelines. The connection returns it after readIdle without a byte. When Options.ReadBytes
	// are used up, it keeps the small one, which only costs more reads.
	readBig  = 32 << 10
	readIdle = time.Second
)

// input is a connection's read buffer, and what the reading role knows of the requests in it.
type input struct {
	small [readSmall]byte
	big   *bufpool.Buffer
	bytes *bufpool.Budget // charged with big
	buf   []byte          // small or big
	r, w  int             // buf[r:w] was read and not used

	armed time.Time // the socket's read deadline; zero if none is set
	last  time.Time // when the last whole request arrived, or the last check found one in flight
	since time.Time // when waiting for the rest of the present request began; zero between requests

	pollable bool     // the last request was one that a poller could have handled
	err      error    // the error of the poller's read
	handed   *Request // handed over by the poller, see HandOver
}

func (in *input) init(budget *bufpool.Budget) {
	in.bytes, in.buf = budget, in.small[:]
	in.last = time.Now()
}

func (in *input) unread() []byte { return in.buf[in.r:in.w] }

func (in *input) skip(n int) {
	if in.r += n; in.r == in.w {
		in.r, in.w = 0, 0
	}
}

// take moves as many bytes as possible to p.
func (in *input) take(p []byte) int {
	n := copy(p, in.unread())
	in.skip(n)
	return n
}

// makeSpace makes space for n bytes in all, which must fit into the buffer.
func (in *input) makeSpace(n int) {
	if in.r > 0 && in.r+n > len(in.buf) {
		in.w = copy(in.buf, in.unread())
		in.r = 0
	}
}

// grow changes to a buffer of n bytes unless the present one is as large. If the budget has no
// memory for it, grow does so only if must is set.
func (in *input) grow(pool *bufpool.Pool, n int, must bool) {
	switch {
	case len(in.buf) >= n:
		return
	case must:
		in.bytes.Share(int64(n), int64(n))
	case !in.bytes.TryAcquire(int64(n)):
		return
	}
	big := pool.Get(n)
	in.w = copy(big.Bytes(), in.unread())
	in.r, in.buf = 0, big.Bytes()
	in.drop()
	in.big = big
}

// drop releases the big buffer.
func (in *input) drop() {
	if in.big != nil {
		in.bytes.Release(int64(in.big.Len()))
		in.big.Release()
		in.big = nil
	}
}

// putBack makes bytes that the poller read the next ones of the reader, whose buffer is empty.
func (in *input) putBack(pool *bufpool.Pool, p []byte, err error) {
	if len(p) >= len(in.buf) {
		in.grow(pool, max(len(p), readBig), true)
	}
	in.w = copy(in.buf, p)
	in.err = err
}

// shrink releases the big buffer if it is empty.
func (in *input) shrink() {
	if in.big != nil && in.r == in.w {
		in.r, in.w, in.buf = 0, 0, in.small[:]
		in.drop()
	}
}

func (in *input) close() {
	in.r, in.w = 0, 0
	in.shrink()
}

// fill reads until n bytes, which must fit into the buffer, are there.
func (c *conn) fill(n int) error {
	in := &c.in
	for in.w-in.r < n {
		in.makeSpace(n)
		m, err := c.read(in.buf[in.w:])
		if err != nil {
			return err
		}
		if in.w += m; in.w == len(in.buf) && !c.login.pending {
			in.grow(c.srv.opts.Pool, readBig, false)
		}
	}
	return nil
}

// read reads some bytes. Before it blocks it writes the answers that are ready. It may return no
// bytes and no error; the buffer may have changed then.
func (c *conn) read(p []byte) (int, error) {
	c.beforeBlocking()
	if c.in.w > c.in.r && c.in.since.IsZero() {
		c.in.since = time.Now()
	}
	if err := c.armRead(); err != nil {
		return 0, err
	}
	n, err := c.readSocket(p)
	c.arrival.got.Add(int64(n))
	switch {
	case n > 0 || err == nil:
		return n, nil // the next read returns the error again
	case !isTimeout(err):
		return 0, err
	}
	c.in.armed = time.Time{}
	return 0, c.timedOut(time.Now())
}

// armRead sets the socket's read deadline to the time of the next check. It leaves an earlier
// deadline alone, since checking too early is cheaper: a busy connection sets at most one deadline
// a second. Whether reading must end is checked after the deadline is set, because stopReading and
// interruptRead set theirs after they record the reason.
func (c *conn) armRead() error {
	in := &c.in
	if in.armed.IsZero() || c.nextCheck().Before(in.armed) {
		in.armed = c.nextCheck()
		if err := c.sock.nc.SetReadDeadline(in.armed); err != nil {
			return err
		}
	}
	if c.arrival.lagging.Load() && !in.since.IsZero() {
		return errLagging
	}
	if c.is(connlife.Draining) {
		return errStopped
	}
	return nil
}

func (c *conn) nextCheck() time.Time {
	in := &c.in
	switch {
	case c.over != "":
		return c.opened.Add(linkWait)
	case !c.login.deadline.IsZero():
		return c.login.deadline
	case !in.since.IsZero():
		return in.since.Add(c.srv.opts.FrameTimeout)
	case in.big != nil:
		return in.last.Add(readIdle)
	}
	return in.last.Add(c.srv.opts.Idle)
}

// timedOut is called when a read reached its deadline, which may be an old one.
func (c *conn) timedOut(now time.Time) error {
	in, o := &c.in, &c.srv.opts
	switch {
	case c.is(connlife.Draining):
		return errStopped
	case c.over != "":
		if now.Sub(c.opened) >= linkWait {
			return errOver
		}
	case !in.since.IsZero() && c.arrival.lagging.Load():
		return errLagging
	case !c.login.deadline.IsZero():
		if !now.Before(c.login.deadline) {
			return errLateLogin
		}
	case !in.since.IsZero():
		if now.Sub(in.since) >= o.FrameTimeout {
			return errSlowSender
		}
	case in.big != nil && now.Sub(in.last) < readIdle:
	case in.big != nil:
		in.shrink()
	default:
		in.last = c.lastBusy(in.last, now)
		if now.Sub(in.last) >= o.Idle {
			return errIdle
		}
	}
	return nil
}
