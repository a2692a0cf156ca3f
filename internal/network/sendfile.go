package network

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// File is a range of a file that is sent to a client.
type File interface {
	// Size returns the number of bytes.
	Size() int
	// SendTo sends up to n bytes, from position off on, to a socket that does not block, and returns
	// how many it took. Errors match EAGAIN if it has no room, and errors.ErrUnsupported if the
	// bytes must be read instead.
	SendTo(socket int, off, n int) (int, error)
	io.ReaderAt
}

// FileBytes are bytes of a file in an answer.
type FileBytes struct {
	Before int // how many parts of the answer come before them
	File   File
}

// SendsFiles reports whether RespondFiles may be called: the system sends the bytes of files on a
// connection without TLS.
func (r *Request) SendsFiles() bool { return !r.conn.sealed && runtime.GOOS == "linux" }

// fileStep bounds one call of File.SendTo. A kernel without preemption sends that much before
// another thread gets the processor.
const fileStep = 256 << 10

// hasFiles reports whether bytes of files are among the answers.
func (job answers) hasFiles() bool {
	for r := job.first; r != nil; r = r.next {
		if len(r.files) > 0 {
			return true
		}
	}
	return false
}

// writeFiles writes an answer with files.
func (c *conn) writeFiles(r *Request) error {
	iov, at := append(c.out.iov[:0], r.head), 0
	for _, f := range r.files {
		iov = append(iov, r.parts[at:f.Before]...)
		if err := c.writeAll(iov); err != nil {
			return err
		}
		clear(iov)
		iov, at = iov[:0], f.Before
		if err := c.sendFile(f.File); err != nil {
			return fmt.Errorf("write an answer to %s: %w", c.peer, err)
		}
	}
	iov = append(iov, r.parts[at:]...)
	err := c.writeAll(iov)
	clear(iov)
	c.out.iov = iov[:0]
	return err
}

// sendFile sends all bytes of a file.
func (c *conn) sendFile(f File) error {
	raw, err := c.nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	for off, size := 0, f.Size(); off < size; {
		if err := c.armWrite(); err != nil {
			return err
		}
		n := 0
		var fault error
		err = raw.Write(func(fd uintptr) bool {
			n, fault = f.SendTo(int(fd), off, min(fileStep, size-off))
			return !errors.Is(fault, unix.EAGAIN)
		})
		switch {
		case err != nil:
			return err
		case errors.Is(fault, errors.ErrUnsupported):
			return c.copyFile(f, off)
		case fault != nil:
			return fault
		}
		off += n
	}
	return nil
}

// copyFile sends the bytes of a file from position off on through memory.
func (c *conn) copyFile(f File, off int) error {
	buf := c.srv.opts.Pool.Get(fileStep)
	defer buf.Release()
	for size := f.Size(); off < size; {
		p := buf.Bytes()[:min(fileStep, size-off)]
		if _, err := f.ReadAt(p, int64(off)); err != nil {
			return err
		}
		if err := c.writeOne(p); err != nil {
			return err
		}
		off += len(p)
	}
	return nil
}
