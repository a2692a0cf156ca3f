package link

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/link/frame"
)

// ErrSilent ends a connection whose peer sent nothing for Options.Silence.
var ErrSilent = errors.New("the peer is silent")

// ErrClosed ends what was closed at this end.
var ErrClosed = errors.New("link is closed")

const (
	// readBuffer is what a connection reads at a time, unless it reads the rest of a payload.
	readBuffer = 32 << 10
	// payloadStep is how much memory a payload gets before any of it has arrived. It doubles as the
	// bytes arrive.
	payloadStep = 1 << 20
	// MaxPeek is the most bytes that Peek returns.
	MaxPeek = 1 << 10
)

// Conn is a connection of one lane after its handshake. Next, Peek, Payload and Discard belong to
// one goroutine at a time, the reader. Push, Kick and Close may be called by any.
//
// The reader must not stay away for longer than 500 ms, whatever its budgets and disks do: it then
// calls Peek and Discard. Otherwise the peer, whose writes make no progress, ends the connection.
// The time in which the reader does not read counts as no silence of the peer.
type Conn struct {
	nc      net.Conn
	peer    Hello
	client  *ClientHello // of an accepted connection of its lane
	dialed  bool
	lane    Lane
	version uint8
	opts    *Options
	begun   time.Time

	// Owned by the reader.
	buf     []byte
	r, w    int // buf[r:w] was read and not used
	armed   time.Time
	head    [frame.HeaderSize]byte
	present frame.Header // its payload was not read yet, if pending
	pending bool

	sender sender

	closed    chan struct{} // closed by fail, once cause is set
	closeOnce sync.Once
	cause     atomic.Pointer[error]
}

func newConn(nc net.Conn, dialed bool, o *Options) *Conn {
	c := &Conn{nc: nc, dialed: dialed, opts: o, version: frame.MinVersion, begun: time.Now(), buf: make([]byte, readBuffer),
		closed: make(chan struct{})}
	c.sender.init(c)
	return c
}

// Peer returns what the other end stated and, if there is a secret, proved.
func (c *Conn) Peer() Hello { return c.peer }

// Dialed reports whether this end dialed: on the lane of data, whether it follows.
func (c *Conn) Dialed() bool { return c.dialed }

// Close ends the connection at once. A goroutine in Next returns an error.
func (c *Conn) Close() { _ = c.fail(ErrClosed) }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.closed }

// Err returns why the connection ended, nil while it has not.
func (c *Conn) Err() error {
	if e := c.cause.Load(); e != nil {
		return *e
	}
	return nil
}

// fail ends the connection for this reason, unless it has ended, and returns the reason that
// counts.
func (c *Conn) fail(err error) error {
	c.closeOnce.Do(func() {
		c.cause.Store(&err)
		close(c.closed)
		_ = endOf(c.nc).Close() // a failed close takes nothing back that the peer was promised
	})
	return c.Err()
}

// endOf returns what closes a connection at once.
func endOf(nc net.Conn) net.Conn {
	if t, ok := nc.(*tls.Conn); ok {
		return t.NetConn() // its own Close would wait for the peer
	}
	return nc
}

// Version returns the version of frames that both ends have agreed on.
func (c *Conn) Version() uint8 { return c.version }

// Buffered reports whether the frame that Next returns has arrived completely, so that Next, Peek,
// Payload and Discard do not wait. Pings do not count, since Next does not return them. It may be
// false for a frame that is larger than the buffer.
func (c *Conn) Buffered() bool {
	if c.pending {
		return false
	}
	for at := c.r; c.w-at >= frame.HeaderSize; {
		h, err := frame.ParseHeader(c.buf[at:c.w], c.version)
		if err != nil {
			return true
		}
		if at += frame.HeaderSize + int(h.Length); at > c.w {
			return false
		}
		if h.Kind != frame.PG {
			return true
		}
	}
	return false
}

// Next waits for the next frame and returns its header. Pings are not returned. The caller then
// calls Payload or Discard; otherwise Next discards the payload. The error ends the connection; it
// matches ErrSilent, ErrClosed, frame.ErrMalformed, frame.ErrChecksum, io.EOF or is the socket's.
func (c *Conn) Next() (frame.Header, error) {
	for {
		if err := c.Discard(); err != nil {
			return frame.Header{}, err
		}
		if err := c.fill(frame.HeaderSize); err != nil {
			return frame.Header{}, c.fail(err)
		}
		copy(c.head[:], c.buf[c.r:])
		h, err := frame.ParseHeader(c.head[:], c.version)
		if err == nil && !allowed(c.lane, h.Kind, !c.dialed) {
			err = fmt.Errorf("%w: %s frame on the lane %s, dialed here: %t", frame.ErrMalformed, h.Kind, c.lane, c.dialed)
		}
		if err != nil {
			return h, c.fail(err)
		}
		c.r += frame.HeaderSize
		c.present, c.pending = h, true
		if h.Kind != frame.PG {
			return h, nil
		}
	}
}

// Peek waits until the first n bytes of the payload have arrived, or all if it is shorter, and
// returns them. Their checksum was not verified. n is at most MaxPeek. They are valid until the
// next call of a method of the reader.
func (c *Conn) Peek(n int) ([]byte, error) {
	n = min(n, MaxPeek, c.left())
	if err := c.fill(n); err != nil {
		return nil, c.fail(err)
	}
	return c.buf[c.r : c.r+n], nil
}

// Payload reads the payload of the frame that Next returned and verifies its checksum. The caller
// owns the buffer. An error ends the connection.
func (c *Conn) Payload() (*bufpool.Buffer, error) {
	n := c.left()
	b := c.opts.Pool.Get(min(n, payloadStep))
	err := c.readFull(b.Bytes())
	for err == nil && b.Len() < n {
		have := b.Len()
		larger := c.opts.Pool.Get(min(n, 2*have))
		copy(larger.Bytes(), b.Bytes())
		b.Release()
		b = larger
		err = c.readFull(b.Bytes()[have:])
	}
	if err == nil {
		c.pending = false
		err = c.present.Check(c.head[:], b.Bytes())
	}
	if err != nil {
		b.Release()
		return nil, c.fail(err)
	}
	return b, nil
}

// Discard reads the payload of the frame that Next returned, if it was not read, and drops it
// without using memory for it. An error ends the connection.
func (c *Conn) Discard() error {
	if !c.pending {
		return nil
	}
	c.pending = false
	sum := c.present.Begin(c.head[:])
	for left := int(c.present.Length); left > 0; {
		if err := c.fill(1); err != nil {
			return c.fail(err)
		}
		p := c.buf[c.r:min(c.w, c.r+left)]
		sum = frame.Update(sum, p)
		c.r += len(p)
		left -= len(p)
	}
	if err := c.present.Verify(sum); err != nil {
		return c.fail(err)
	}
	return nil
}

// left returns the size of the payload that was not read.
func (c *Conn) left() int {
	if !c.pending {
		return 0
	}
	return int(c.present.Length)
}

// fill reads until n bytes, at most those of the buffer, are there.
func (c *Conn) fill(n int) error {
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	for c.w-c.r < n {
		if c.r+n > len(c.buf) {
			c.w = copy(c.buf, c.buf[c.r:c.w])
			c.r = 0
		}
		m, err := c.read(c.buf[c.w:])
		if err != nil {
			return err
		}
		c.w += m
	}
	return nil
}

// readFull fills p.
func (c *Conn) readFull(p []byte) error {
	n := copy(p, c.buf[c.r:c.w])
	c.r += n
	for n < len(p) {
		var m int
		var err error
		if len(p)-n < len(c.buf)/4 { // also read what follows
			if err = c.fill(1); err == nil {
				m = copy(p[n:], c.buf[c.r:c.w])
				c.r += m
			}
		} else {
			m, err = c.read(p[n:])
		}
		if err != nil {
			return err
		}
		n += m
	}
	return nil
}

// read reads some bytes, and fails if none come for Options.Silence.
func (c *Conn) read(p []byte) (int, error) {
	silence := c.opts.Silence
	began := time.Now()
	if c.armed.Sub(began) < silence*3/4 { // a deadline that is a little early costs less than one for each read
		if err := c.armRead(began.Add(silence)); err != nil {
			return 0, err
		}
	}
	for {
		n, err := c.nc.Read(p)
		switch {
		case n > 0:
			return n, nil
		case err == nil:
		case errors.Is(err, io.ErrUnexpectedEOF): // within a record of TLS; frames have their own checks
			return 0, fmt.Errorf("read from a broker: %w", io.EOF)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, fmt.Errorf("read from a broker: %w", err)
		case time.Since(began) >= silence:
			return 0, fmt.Errorf("%w: no byte for %v", ErrSilent, silence)
		default:
			if err := c.armRead(began.Add(silence)); err != nil {
				return 0, err
			}
		}
	}
}

func (c *Conn) armRead(t time.Time) error {
	c.armed = t
	return c.nc.SetReadDeadline(t)
}

// allowed reports whether a kind of frame belongs to a lane and this end of it.
func allowed(l Lane, k frame.Kind, fromDialer bool) bool {
	switch k {
	case frame.PG:
		return l != 0
	case frame.RQ, frame.MS:
		return l == Meta && fromDialer
	case frame.RS:
		return l == Meta && !fromDialer
	case frame.SB, frame.AK, frame.OF, frame.LS:
		return l == Data && fromDialer
	case frame.VD, frame.DA, frame.HW, frame.SY, frame.PR:
		return l == Data && !fromDialer
	case frame.US:
		return l == Data
	case frame.PF, frame.CL:
		return l == 0 && fromDialer
	case frame.HE, frame.RY:
		return l == 0 && !fromDialer
	case frame.NO:
		return l == 0
	}
	return false
}
