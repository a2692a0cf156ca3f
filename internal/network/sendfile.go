package network

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"

	"go.uber.org/zap"
)

// File is a range of a file in an answer.
type File interface {
	// Size returns the number of bytes.
	Size() int
	// SendTo sends up to n bytes, from position off on, to a socket that does not block. It returns
	// how many bytes the socket took. The error is EAGAIN if it has no room, and matches
	// errors.ErrUnsupported if the bytes must be read instead.
	SendTo(socket int, off, n int) (int, error)
	io.ReaderAt
}

// FileBytes are the bytes of a file in an answer.
type FileBytes struct {
	Before int // how many parts of the answer come before them
	File   File
}

// SendsFiles reports whether the answer may have files: the system sends their bytes without a copy
// on a connection without TLS.
func (r *Request) SendsFiles() bool { return r.conn.listener.TLS == nil && runtime.GOOS == "linux" }

// fileStep is the most that one call of File.SendTo sends, in bytes. A kernel without preemption
// does that before another thread gets the processor.
const fileStep = 256 << 10

// fileError is the error of an answer whose bytes could not be read.
type fileError struct{ error }

// Unwrap returns the cause.
func (e fileError) Unwrap() error { return e.error }

// hasFiles reports whether an answer has files.
func (job answers) hasFiles() bool {
	for r := job.first; r != nil; r = r.next {
		if len(r.files) > 0 {
			return true
		}
	}
	return false
}

// writeEach writes one answer after the other. Caller has the writing role.
func (c *conn) writeEach(job answers) error {
	for r := job.first; r != nil; r = r.next {
		if err := c.writeWithFiles(r); err != nil {
			return err
		}
	}
	return nil
}

// writeWithFiles writes an answer with files.
func (c *conn) writeWithFiles(r *Request) error {
	iov, at := c.out.iov[:0], 0
	iov = append(iov, r.head)
	for i := 0; i <= len(r.files); i++ {
		end := len(r.parts)
		if i < len(r.files) {
			end = r.files[i].Before
		}
		iov = append(iov, r.parts[at:end]...)
		at = end
		if err := c.writePieces(iov); err != nil {
			return err
		}
		iov = c.out.iov[:0]
		if i == len(r.files) {
			break
		}
		if err := c.sendFile(r.files[i].File); err != nil {
			return fmt.Errorf("write an answer to %s: %w", c.peer, err)
		}
	}
	return nil
}

// sendFile sends all bytes of a file.
func (c *conn) sendFile(f File) error {
	socket, ok := c.sock.nc.(syscall.Conn)
	if !ok {
		return c.copyFile(f, 0)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	armed := 0 // up to this position, the write deadline applies; see Options.WriteTimeout
	for off, size := 0, f.Size(); off < size; {
		if off == armed {
			armed = min(off+writeChunk, size)
			if err := c.armWrite(armed - off); err != nil {
				return err
			}
		}
		n := 0
		var fault error
		err = raw.Write(func(fd uintptr) bool {
			n, fault = f.SendTo(int(fd), off, min(fileStep, armed-off))
			return !errors.Is(fault, syscall.EAGAIN)
		})
		switch {
		case err != nil:
			return err
		case errors.Is(fault, errors.ErrUnsupported):
			return c.copyFile(f, off)
		case ofSocket(fault):
			return fault
		case fault != nil:
			return fileError{fault}
		case n <= 0:
			return fileError{io.ErrUnexpectedEOF}
		}
		off += n
	}
	return nil
}

// ofSocket reports whether an error of SendTo concerns the connection, not the file. The last three
// are those of a peer that no longer answers, if the network said why.
func ofSocket(err error) bool {
	for _, of := range []error{syscall.EPIPE, syscall.ECONNRESET, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// copyFile sends the bytes of a file from position off on through memory.
func (c *conn) copyFile(f File, off int) error {
	buf := c.srv.opts.Pool.Get(fileStep)
	defer buf.Release()
	for size := f.Size(); off < size; {
		p := buf.Bytes()[:min(fileStep, size-off)]
		if _, err := f.ReadAt(p, int64(off)); err != nil {
			return fileError{err}
		}
		if err := c.writeOne(p); err != nil {
			return err
		}
		off += len(p)
	}
	return nil
}

// reportFile logs that an answer could not be sent because of its file, and reports whether that
// was the reason.
func (c *conn) reportFile(err error) bool {
	var of fileError
	if !errors.As(err, &of) {
		return false
	}
	c.srv.limited.log(c, zap.WarnLevel, "closing a connection: the records of an answer can't be read any more", err)
	return true
}
