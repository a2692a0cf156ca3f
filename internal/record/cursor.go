package record

import (
	"errors"
	"io"
	"sync"
)

// errInflated: the data continues beyond the limit of its reader.
var errInflated = errors.New("inflated data exceeds the limit")

// teeError is an error of the cursor's tee, not of the data.
type teeError struct{ error }

func (e teeError) Unwrap() error { return e.error }

const (
	windowSize = 32 << 10
	// windowKept is the largest window that is returned to the pool: one batch with a large record
	// must not make every later batch use as much memory.
	windowKept = 1 << 20
)

// cursor reads the records of a batch from front to back. For an uncompressed batch it has all
// bytes in memory. For a compressed batch it has a window, which it refills and enlarges only if
// take needs more bytes at once.
//
// A method that cannot continue returns false; err is then the reason, or nil if the data ended.
type cursor struct {
	buf  []byte // the window; all of the data if src is nil
	pos  int    // next byte in buf
	base int64  // bytes of the data before buf[0]

	src   io.Reader // fills the window; nil: buf holds all of the data
	limit int64     // bytes that may still be read from src
	tee   io.Writer // receives every byte read from src; may be nil
	err   error
}

// at returns the number of bytes before the cursor.
func (c *cursor) at() int64 { return c.base + int64(c.pos) }

// left returns an upper bound of the number of bytes after the cursor.
func (c *cursor) left() int64 {
	if c.src == nil {
		return int64(len(c.buf) - c.pos)
	}
	return c.limit - c.at()
}

// more reads at least one more byte into the window.
func (c *cursor) more() bool {
	if c.src == nil || c.err != nil {
		return false
	}
	kept := c.buf[c.pos:]
	if len(kept) == cap(c.buf) {
		grown := make([]byte, len(kept), 2*cap(c.buf))
		copy(grown, kept)
		c.buf = grown
	} else {
		c.buf = c.buf[:copy(c.buf[:cap(c.buf)], kept)]
	}
	c.base += int64(c.pos)
	c.pos = 0

	have := len(c.buf)
	n, err := readSome(c.src, c.buf[have:cap(c.buf)])
	c.buf = c.buf[:have+n]
	if c.base+int64(len(c.buf)) > c.limit {
		c.err = errInflated
		return false
	}
	if n == 0 {
		if err != io.EOF { //nolint:errorlint // a wrapped EOF is a stream that broke off, not its end
			c.err = err
		}
		return false
	}
	if c.tee != nil {
		if _, err := c.tee.Write(c.buf[have:]); err != nil {
			c.err = teeError{err}
			return false
		}
	}
	return true
}

// readSome reads until it has a byte or an error. It ignores an error that comes with bytes; the
// next call gets that error again.
func readSome(r io.Reader, p []byte) (int, error) {
	for range 100 {
		n, err := r.Read(p)
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// next returns one byte.
func (c *cursor) next() (byte, bool) {
	if c.pos == len(c.buf) && !c.more() {
		return 0, false
	}
	v := c.buf[c.pos]
	c.pos++
	return v, true
}

// varint returns a zigzag number of at most bits bits, 32 or 64. Like every Kafka reader it allows
// encodings longer than necessary. It rejects encodings that need more bits, and then returns long.
func (c *cursor) varint(bits uint) (v int64, long, ok bool) {
	if c.pos < len(c.buf) && c.buf[c.pos] < 0x80 {
		u := c.buf[c.pos]
		c.pos++
		return int64(u>>1) ^ -int64(u&1), false, true
	}
	var u uint64
	for shift := uint(0); ; shift += 7 {
		b, ok := c.next()
		if !ok {
			return 0, false, false
		}
		if shift+7 > bits && uint64(b)>>(bits-shift) != 0 {
			return 0, true, false
		}
		u |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return int64(u>>1) ^ -int64(u&1), false, true
		}
	}
}

// skip skips n bytes.
func (c *cursor) skip(n int64) bool {
	for {
		here := int64(len(c.buf) - c.pos)
		if n <= here {
			c.pos += int(n)
			return true
		}
		n -= here
		c.pos = len(c.buf)
		if !c.more() {
			return false
		}
	}
}

// need reads until the next n bytes are in the window.
func (c *cursor) need(n int) bool {
	for len(c.buf)-c.pos < n {
		if !c.more() {
			return false
		}
	}
	return true
}

// take returns the next n bytes and skips them. They are valid until the window is refilled.
func (c *cursor) take(n int) ([]byte, bool) {
	if !c.need(n) {
		return nil, false
	}
	p := c.buf[c.pos : c.pos+n : c.pos+n]
	c.pos += n
	return p, true
}

// ended reports whether no data follows. If it returns false, the caller must check err: nil means
// that bytes are left.
func (c *cursor) ended() bool {
	if c.pos < len(c.buf) {
		return false
	}
	return !c.more() && c.err == nil
}

// windows holds spare windows.
var windows = sync.Pool{New: func() any { w := make([]byte, 0, windowSize); return &w }}

func getWindow() *[]byte { return windows.Get().(*[]byte) }

func putWindow(w *[]byte, last []byte) {
	if cap(last) > windowKept {
		return
	}
	*w = last[:0]
	windows.Put(w)
}
