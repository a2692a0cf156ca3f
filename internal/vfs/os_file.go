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

// iovMax is the maximum number of buffers for one pwritev: IOV_MAX of Linux and macOS.
const iovMax = 1024

// osFile uses ReadAt, WriteAt, Truncate, Name and Close of os.File, which handles EINTR and short
// writes. The other calls go through raw, which keeps the descriptor open during the call: a
// concurrent Close waits, so the descriptor number is not reused in the meantime.
type osFile struct {
	*os.File
	raw syscall.RawConn

	cached   atomic.Bool // WriteVecUncached calls WriteVecAt
	noDirect atomic.Bool // WriteDirect calls WriteAt
	directMu sync.Mutex
	direct   *os.File // for WriteDirect; nil until then; guarded by directMu
}

// Close closes both descriptors.
func (f *osFile) Close() error {
	f.noDirect.Store(true)
	f.directMu.Lock()
	d := f.direct
	f.direct = nil
	f.directMu.Unlock()
	if d != nil {
		_ = d.Close() // a Datasync of the other descriptor also covers its writes
	}
	return f.File.Close()
}

// control runs one system call on the descriptor and wraps its error.
func (f *osFile) control(op string, call func(fd int) error) error {
	var err error
	if ctl := f.raw.Control(func(fd uintptr) { err = call(int(fd)) }); ctl != nil {
		err = fs.ErrClosed // the only reason for which Control fails for a file
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

// writeVec calls pwritev, which may write less than requested, until all of bufs is written. done
// is the number of bytes written by earlier calls.
func writeVec(bufs [][]byte, pwritev func(iov [][]byte, done int64) (int, error)) (int, error) {
	total, skip := 0, 0 // skip is the number of bytes of bufs[0] that are written
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

// Datasync does not retry an interrupted call: the kernel reports a failed write-back only once,
// and may have reported it to the interrupted call.
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

func (f *osFile) Named() (bool, error) {
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(st, named), err
}

func (f *osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
