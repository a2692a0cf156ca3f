//go:build unix

package wire

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// read runs step on the socket.
func (c *Conn) read() error {
	if c.raw == nil {
		return c.readOnce()
	}
	c.err = nil
	if err := c.raw.Read(c.turn); err != nil {
		return err
	}
	return c.err
}

// step is called with the socket's descriptor until it returns true; false waits until the socket
// is readable.
func (c *Conn) step(fd uintptr) bool {
	if c.wait {
		c.wait = false
		return !c.write(int(fd))
	}
	for {
		n, err := syscall.Read(int(fd), c.in[c.w:])
		switch {
		case n > 0:
			c.w += n
			return true
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			c.err = fmt.Errorf("read: %w", err)
			return true
		default:
			c.err = fmt.Errorf("read: %w", io.ErrUnexpectedEOF)
			return true
		}
	}
}

// write writes c.out and reports whether all of it is written.
func (c *Conn) write(fd int) bool {
	for {
		n, err := syscall.Write(fd, c.out)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			c.err = fmt.Errorf("write: %w", err)
			return false
		}
		c.out = c.out[n:]
		return len(c.out) == 0
	}
}
