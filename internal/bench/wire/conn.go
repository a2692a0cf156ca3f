// Package wire is a minimal raw client of the Kafka protocol: connections,
// prebuilt Produce and Fetch requests, and a reading of their answers that
// allocates nothing.
//
// It promises to cost as little as possible for each request, so that a load
// generator beside the broker is not the limit: one write and one read system call
// where one request is in flight. It promises to be strict: an answer that is cut
// short, has another shape, or answers another request is an error. bench/load calls
// it. It must not know what is measured, and it neither retries nor finds leaders.
package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// MaxFrame is the largest answer that a connection reads.
const MaxFrame = 1 << 30

// firstBuffer is what a connection reads into until an answer is larger.
const firstBuffer = 16 << 10

// ErrFrame is an answer that cannot be one: a length below zero or above MaxFrame.
var ErrFrame = errors.New("answer: impossible length")

// Conn is a connection to a broker. One goroutine may send while another
// receives; Exchange is both.
type Conn struct {
	tcp *net.TCPConn
	raw syscall.RawConn

	// in[r:w] was read and not yet taken by Next.
	in   []byte
	r, w int

	// What step does in its turn on the socket; see Exchange.
	out  []byte
	wait bool
	err  error
	turn func(fd uintptr) bool
}

// Dial connects to a broker at host:port.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("connect to %s: got a %T", addr, c), c.Close())
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s: %w", addr, err), tcp.Close())
	}
	conn := &Conn{tcp: tcp, raw: raw, in: make([]byte, firstBuffer)}
	conn.turn = conn.step
	return conn, nil
}

// Close ends the connection; calls that wait on it return an error.
func (c *Conn) Close() error { return c.tcp.Close() }

// SetDeadline makes reads and writes fail after t.
func (c *Conn) SetDeadline(t time.Time) error { return c.tcp.SetDeadline(t) }

// Send writes frames.
func (c *Conn) Send(frames []byte) error {
	_, err := c.tcp.Write(frames)
	return err
}

// Exchange writes frames and reads until Next has at least one answer. idle says
// that nothing was in flight before: then no answer can be there yet, and the
// connection waits for one without asking for it in vain.
//
// The write is made inside the read's turn on the socket. A turn begins by
// forgetting that the socket was ready, so an answer that arrives after the write
// wakes the wait that follows, however quick it was.
func (c *Conn) Exchange(frames []byte, idle bool) error {
	if !idle {
		if len(frames) > 0 {
			if err := c.Send(frames); err != nil {
				return err
			}
		}
		return c.Receive()
	}
	c.r, c.w = 0, 0
	c.out, c.wait = frames, true
	if err := c.read(); err != nil {
		return err
	}
	if len(c.out) > 0 { // the socket took only a part
		rest := c.out
		c.out = nil
		if err := c.Send(rest); err != nil {
			return err
		}
	}
	return c.Receive()
}

// Receive reads until Next has at least one answer.
func (c *Conn) Receive() error {
	for {
		need, err := c.missing()
		if err != nil || need == 0 {
			return err
		}
		c.room(need)
		if err := c.read(); err != nil {
			return err
		}
	}
}

// missing is the number of bytes that the first answer lacks, at least as far as
// is known.
func (c *Conn) missing() (int, error) {
	have := c.w - c.r
	if have < 4 {
		return 4 - have, nil
	}
	size := int(int32(binary.BigEndian.Uint32(c.in[c.r:])))
	if size < 4 || size > MaxFrame {
		return 0, fmt.Errorf("%w: %d bytes", ErrFrame, size)
	}
	return max(4+size-have, 0), nil
}

// room makes place for need more bytes behind what was read.
func (c *Conn) room(need int) {
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	if len(c.in)-c.w >= need {
		return
	}
	if have := c.w - c.r; len(c.in)-have >= need {
		copy(c.in, c.in[c.r:c.w])
		c.r, c.w = 0, have
		return
	}
	grown := make([]byte, c.w-c.r+need)
	c.w = copy(grown, c.in[c.r:c.w])
	c.in, c.r = grown, 0
}

// Next takes the next complete answer, without its length; it is valid until the
// next call that reads. false means that none is there.
func (c *Conn) Next() ([]byte, bool) {
	have := c.w - c.r
	if have < 4 {
		return nil, false
	}
	size := int(int32(binary.BigEndian.Uint32(c.in[c.r:])))
	if size < 4 || have < 4+size {
		return nil, false
	}
	frame := c.in[c.r+4 : c.r+4+size]
	c.r += 4 + size
	return frame, true
}
