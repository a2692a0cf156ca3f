package link

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/link/frame"
)

// Source provides what a connection sends.
type Source interface {
	// Fill adds frames to v until nothing is pending or v is full. It runs on the goroutine that
	// has the writing role, which may be a caller of Push, and never on two at a time. It must not
	// block and must not call Push or Kick.
	Fill(v *Vector)
}

// pushWrites bounds how many writes one Push does before it leaves the rest to the connection's
// goroutine.
const pushWrites = 4

// tlsRecord is the largest plain text of a TLS record in bytes (RFC 8446, 5.1).
const tlsRecord = 16 << 10

// sender is the writing half of a Conn. The package comment describes the writing role.
type sender struct {
	conn  *Conn
	began time.Time
	raw   rawWriter
	last  atomic.Int64 // when something was last written, after began

	// Owned by the writing role.
	vec      Vector
	part     int    // of vec, the next one to write
	off      int    // in it
	gathered []byte // for record

	wake chan struct{} // capacity 1: the writing role was handed to the connection's goroutine

	mu     sync.Mutex
	source Source
	taken  bool // a goroutine has the writing role
	more   bool // Push or Kick was called meanwhile
	handed bool // the role belongs to the connection's goroutine
	ended  bool // that goroutine has ended, or the connection failed
}

func (s *sender) init(c *Conn) {
	s.conn, s.began, s.wake = c, time.Now(), make(chan struct{}, 1)
	s.raw.init(c.nc)
}

// Start sets what the connection sends, and asks for it. It is called once.
func (c *Conn) Start(source Source) {
	c.sender.mu.Lock()
	c.sender.source = source
	c.sender.mu.Unlock()
	c.Kick()
}

// Push writes what the Source has, as far as the socket takes it at once; the connection's own
// goroutine writes the rest. It does not wait for the peer, and it does nothing but note the call
// if another goroutine is writing. If the connection is not a plain socket, Push is Kick.
func (c *Conn) Push() {
	s := &c.sender
	if !s.take() {
		return
	}
	if !s.raw.able() {
		s.handOver()
		return
	}
	for range pushWrites {
		if s.fill(); s.vec.empty() {
			if s.release() {
				return
			}
			continue
		}
		more := s.vec.Full()
		done, err := s.tryWrite()
		switch {
		case err != nil:
			s.broken(err)
			return
		case !done:
			s.handOver()
			return
		}
		if !more && s.release() {
			return
		}
	}
	s.handOver()
}

// Kick makes the connection's own goroutine write what the Source has. It does not block.
func (c *Conn) Kick() {
	if c.sender.take() {
		c.sender.handOver()
	}
}

// take takes the writing role, or notes that there is more to write.
func (s *sender) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.source == nil {
		return false
	}
	if s.taken {
		s.more = true
		return false
	}
	s.taken, s.more = true, false
	return true
}

// release ends the writing role; it returns false, and the role stays, if there is more to write.
func (s *sender) release() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more && !s.ended {
		s.more = false
		return false
	}
	s.taken = false
	return true
}

// handOver passes the writing role to the connection's goroutine.
func (s *sender) handOver() {
	s.mu.Lock()
	s.handed = true
	ended := s.ended
	s.mu.Unlock()
	if ended {
		s.vec.reset()
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// broken ends the connection because of a failed write. Caller has the writing role and keeps it.
func (s *sender) broken(err error) {
	s.vec.reset()
	_ = s.conn.fail(err) // the reader returns it
}

// fill asks the Source for frames. Caller has the writing role.
func (s *sender) fill() {
	s.vec.version = s.conn.version
	s.vec.reset()
	s.part, s.off = 0, 0
	s.source.Fill(&s.vec)
}

// tryWrite writes as much as the socket takes, and reports whether that was all.
func (s *sender) tryWrite() (done bool, err error) {
	for s.part < len(s.vec.parts) {
		n, err := s.raw.try(s.vec.parts[s.part:], s.off)
		if err != nil {
			return false, fmt.Errorf("write to a broker: %w", err)
		}
		if n == 0 {
			return false, nil
		}
		s.advance(n)
	}
	s.vec.reset()
	return true, nil
}

// advance notes that n more bytes are written.
func (s *sender) advance(n int) {
	s.last.Store(int64(time.Since(s.began)))
	for n > 0 {
		left := len(s.vec.parts[s.part]) - s.off
		if n < left {
			s.off += n
			return
		}
		n -= left
		s.part, s.off = s.part+1, 0
	}
}

// write writes the whole Vector; it waits for the peer, but not longer than Options.Silence for
// every single byte.
func (s *sender) write() error {
	for s.part < len(s.vec.parts) {
		if err := s.conn.nc.SetWriteDeadline(time.Now().Add(s.conn.opts.Silence)); err != nil {
			return err
		}
		var n int
		var err error
		if s.raw.able() {
			n, err = s.raw.wait(s.vec.parts[s.part:], s.off)
		} else {
			n, err = s.conn.nc.Write(s.record())
		}
		s.advance(n)
		if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return fmt.Errorf("write to a broker: %w", err)
		}
	}
	s.vec.reset()
	return nil
}

// record returns the next bytes to write, at most those of a record of TLS: each write makes at
// least one, so small pieces are gathered. A write that was cut short ends a connection of TLS, so
// each gets a deadline of its own. The bytes are valid until the next call.
func (s *sender) record() []byte {
	first := s.vec.parts[s.part][s.off:]
	if len(first) >= tlsRecord || s.part+1 == len(s.vec.parts) {
		return first[:min(len(first), tlsRecord)]
	}
	s.gathered = append(s.gathered[:0], first...)
	for _, p := range s.vec.parts[s.part+1:] {
		s.gathered = append(s.gathered, p[:min(len(p), tlsRecord-len(s.gathered))]...)
		if len(s.gathered) == tlsRecord {
			break
		}
	}
	return s.gathered
}

// run is the connection's goroutine: it writes what Push left and sends pings, until the connection
// ends.
func (s *sender) run() {
	label.Goroutine("link write", "")
	ping := time.NewTimer(s.conn.opts.Ping)
	defer ping.Stop()
	for {
		select {
		case <-s.wake:
			s.writeAll()
		case <-ping.C:
			silent := time.Since(s.began) - time.Duration(s.last.Load())
			if silent >= s.conn.opts.Ping {
				silent = 0
				s.ping()
			}
			ping.Reset(s.conn.opts.Ping - silent)
		case <-s.conn.closed:
			s.end()
			return
		}
	}
}

// writeAll writes until nothing is pending. The goroutine has the writing role.
func (s *sender) writeAll() {
	s.mu.Lock()
	if !s.handed {
		s.mu.Unlock()
		return
	}
	s.handed = false
	s.mu.Unlock()
	for {
		if err := s.write(); err != nil { // first what a Push left
			s.broken(err)
			return
		}
		s.fill()
		if s.vec.empty() && s.release() {
			return
		}
	}
}

// ping sends a ping, unless another goroutine is writing.
func (s *sender) ping() {
	s.mu.Lock()
	if s.taken {
		s.mu.Unlock()
		return
	}
	s.taken = true
	s.mu.Unlock()
	s.vec.reset()
	s.part, s.off = 0, 0
	s.vec.version = s.conn.version
	s.vec.End(frame.PG, 0, s.vec.Begin(0), nil)
	if err := s.write(); err != nil {
		s.broken(err)
		return
	}
	if !s.release() {
		s.handOver()
	}
}

// end is the goroutine's last step: it releases what was handed to it.
func (s *sender) end() {
	s.mu.Lock()
	s.ended = true
	mine := s.handed || !s.taken
	s.mu.Unlock()
	if mine {
		s.vec.reset()
	}
}
