//go:build linux || darwin

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// iovMax is the most pieces that one pwritev takes: IOV_MAX of Linux and macOS.
const iovMax = 1024

// osFile takes ReadAt, WriteAt, Truncate, Name and Close from os.File, which
// handles EINTR and short writes. The other calls go through raw, which keeps
// the descriptor open while they run: a Close beside them waits instead of
// letting the number be reused under them.
type osFile struct {
	*os.File
	raw syscall.RawConn

	cached   atomic.Bool // WriteVecOnce is WriteVecAt here
	noDirect atomic.Bool // and WriteDirect is WriteAt
	directMu sync.Mutex
	direct   *os.File // for WriteDirect; nil until then. Guarded by directMu
}

// Close closes the second descriptor, too.
func (f *osFile) Close() error {
	f.noDirect.Store(true)
	f.directMu.Lock()
	d := f.direct
	f.direct = nil
	f.directMu.Unlock()
	if d != nil {
		_ = d.Close() // whatever is not on the disk yet the other one knows of, too
	}
	return f.File.Close()
}

// control runs one system call on the descriptor and wraps its error.
func (f *osFile) control(op string, call func(fd int) error) error {
	var err error
	if ctl := f.raw.Control(func(fd uintptr) { err = call(int(fd)) }); ctl != nil {
		err = fs.ErrClosed // the only reason for Control to refuse a file
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: err}
	}
	return nil
}

func (f *osFile) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	if off < 0 {
		return 0, &fs.PathError{Op: "pwritev", Path: f.Name(), Err: unix.EINVAL}
	}
	n := 0
	err := f.control("pwritev", func(fd int) error {
		var err error
		n, err = writeVec(bufs, func(iov [][]byte, done int64) (int, error) {
			return unix.Pwritev(fd, iov, off+done)
		})
		return err
	})
	return n, err
}

// writeVec calls pwritev, which may write less than it is given, until all of
// bufs is written. done is what the calls before it have written.
func writeVec(bufs [][]byte, pwritev func(iov [][]byte, done int64) (int, error)) (int, error) {
	total, skip := 0, 0 // skip is how much of bufs[0] is written
	iov := make([][]byte, 0, min(len(bufs), iovMax))
	for {
		for len(bufs) > 0 && skip >= len(bufs[0]) {
			skip -= len(bufs[0])
			bufs = bufs[1:]
		}
		if len(bufs) == 0 {
			return total, nil
		}
		iov = append(append(iov[:0], bufs[0][skip:]), bufs[1:min(len(bufs), iovMax)]...)
		n, err := pwritev(iov, int64(total))
		n = max(n, 0)
		total += n
		skip += n
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return total, err
		case n == 0:
			return total, io.ErrShortWrite
		}
	}
}

// Datasync does not repeat a call that a signal interrupted: the kernel may
// have used the interrupted call to report, once and never again, that a page
// could not be written.
func (f *osFile) Datasync() error { return f.control("fdatasync", datasync) }

func (f *osFile) Allocate(off, n int64) error {
	if off < 0 || n <= 0 {
		return &fs.PathError{Op: "fallocate", Path: f.Name(), Err: unix.EINVAL}
	}
	err := f.control("fallocate", func(fd int) error {
		return retry(func() error { return allocate(fd, off, n) })
	})
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	return f.extend(off + n)
}

// extend makes the file at least size bytes long.
func (f *osFile) extend(size int64) error {
	now, err := f.Size()
	if err != nil || now >= size {
		return err
	}
	return f.Truncate(size)
}

func (f *osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
