package simtcp

import (
	"cmp"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipe is one direction of a connection. Its lock comes before that of Net for those who read and
// write; Net wakes it with a channel and without its lock.
type pipe struct {
	net      *Net
	from, to *Host
	way      [2]string // the host that dialed, and the one that it dialed

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when something has changed
	random  *rand.Rand
	queue   []segment
	size    int       // bytes in queue
	last    time.Time // when the newest byte arrives
	ended   bool      // the writer has closed it
	left    bool      // the reader has closed it
	reset   bool      // the other end is gone, and this one knows
	cut     bool      // something in between has closed it
	abrupt  bool      // Close resets it
	silent  bool      // the other end is gone, and this one does not know
	read    time.Time // deadline of reads; zero means none
	write   time.Time
}

type segment struct {
	at    time.Time
	bytes []byte
}

func newPipe(n *Net, from, to *Host, random *rand.Rand) *pipe {
	return &pipe{net: n, from: from, to: to, random: random, changed: make(chan struct{})}
}

// update changes the pipe and wakes those who wait.
func (p *pipe) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *pipe) wake()  { p.update(func() {}) }
func (p *pipe) sever() { p.update(func() { p.reset = true }) }

// finish ends the direction at its writer. Caller holds mu.
func (p *pipe) finish() {
	p.ended = true
	if at := time.Now().Add(p.net.delays(p.random)); at.After(p.last) {
		p.last = at
	}
}

// arrives reports whether packets of this direction arrive.
func (p *pipe) arrives() bool {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	return p.net.reaches(p.from.ip, p.to.ip)
}

// wait waits for a change, or until a time if it is not zero.
func wait(changed <-chan struct{}, until time.Time) {
	if until.IsZero() {
		<-changed
		return
	}
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	}
}

// earlier returns the earlier of two times, of which zero means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (p *pipe) receive(b []byte) (int, error) {
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		arrives := p.arrives()
		p.mu.Lock()
		now := time.Now()
		var next time.Time
		switch {
		case p.left:
			p.mu.Unlock()
			return 0, net.ErrClosed
		case !p.read.IsZero() && !now.Before(p.read):
			p.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case p.reset:
			p.mu.Unlock()
			return 0, syscall.ECONNRESET
		case len(b) == 0:
			p.mu.Unlock()
			return 0, nil
		case !arrives, p.silent && len(p.queue) == 0: // nothing comes
		case len(p.queue) > 0 && !now.Before(p.queue[0].at):
			n := p.take(b, now)
			p.mu.Unlock()
			p.wake() // a writer may continue
			return n, nil
		case len(p.queue) > 0:
			next = p.queue[0].at
		case p.ended && !now.Before(p.last):
			p.mu.Unlock()
			return 0, io.EOF
		case p.ended:
			next = p.last
		}
		next = earlier(next, p.read)
		p.mu.Unlock()
		wait(changed, next)
	}
}

// take moves what has arrived to b. Caller holds mu.
func (p *pipe) take(b []byte, now time.Time) (n int) {
	for len(p.queue) > 0 && n < len(b) && !now.Before(p.queue[0].at) {
		s := &p.queue[0]
		m := copy(b[n:], s.bytes)
		n += m
		if s.bytes = s.bytes[m:]; len(s.bytes) == 0 {
			p.queue = p.queue[1:]
		}
	}
	p.size -= n
	return n
}

func (p *pipe) send(b []byte) (sent int, err error) {
	for {
		p.mu.Lock()
		now := time.Now()
		switch {
		case p.cut:
			err = syscall.EPIPE
		case p.ended:
			err = net.ErrClosed
		case p.reset:
			err = syscall.ECONNRESET
		case p.left && !p.silent:
			err = syscall.EPIPE
		case !p.write.IsZero() && !now.Before(p.write):
			err = os.ErrDeadlineExceeded
		}
		if err != nil || len(b) == 0 {
			p.mu.Unlock()
			return sent, err
		}
		changed, until := p.changed, p.write
		n := min(len(b), window-p.size)
		if n > 0 {
			at := now.Add(p.net.delays(p.random))
			if at.Before(p.last) {
				at = p.last
			}
			p.last = at
			p.queue = append(p.queue, segment{at, append([]byte(nil), b[:n]...)})
			p.size += n
			b, sent = b[n:], sent+n
		}
		p.mu.Unlock()
		if n > 0 {
			p.wake()
			continue
		}
		wait(changed, until)
	}
}

// conn is one end of a connection. It implements net.Conn.
type conn struct {
	in, out       *pipe
	local, remote *net.TCPAddr
}

func (c *conn) failed(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // it is ours
		return err
	}
	if _, ok := err.(syscall.Errno); ok { //nolint:errorlint // it is ours
		err = os.NewSyscallError(op, err)
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.in.receive(b)
	return n, c.failed("read", err)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.out.send(b)
	return n, c.failed("write", err)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	again := false
	c.out.update(func() {
		if again = c.out.ended; !again {
			c.out.finish()
		}
		c.out.reset = c.out.reset || c.out.abrupt
	})
	c.in.update(func() { c.in.left = true })
	if again {
		return c.failed("close", net.ErrClosed)
	}
	n := c.in.net
	n.mu.Lock()
	defer n.mu.Unlock()
	c.in.mu.Lock()
	done := c.in.ended
	c.in.mu.Unlock()
	if done {
		delete(n.open, c.in)
		delete(n.open, c.out)
	}
	return nil
}

// SetLinger is like that of a net.TCPConn: with 0, Close resets the connection.
func (c *conn) SetLinger(seconds int) error {
	c.out.update(func() { c.out.abrupt = seconds == 0 })
	return nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(at time.Time) error {
	return cmp.Or(c.SetReadDeadline(at), c.SetWriteDeadline(at))
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(at time.Time) error {
	var err error
	c.in.update(func() {
		if c.in.left {
			err = c.failed("set", net.ErrClosed)
		}
		c.in.read = at
	})
	return err
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(at time.Time) error {
	var err error
	c.out.update(func() {
		if c.out.ended {
			err = c.failed("set", net.ErrClosed)
		}
		c.out.write = at
	})
	return err
}
