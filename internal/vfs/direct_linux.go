package vfs

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// WriteDirect uses O_DIRECT, through a separate descriptor, because all I/O through a descriptor
// with that flag must be aligned.
func (f *osFile) WriteDirect(p []byte, off int64) (int, error) {
	d := f.openDirect()
	if d == nil {
		return f.WriteAt(p, off)
	}
	n, err := d.WriteAt(p, off)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) { // larger blocks, or not supported by the file system
		f.noDirect.Store(true)
		return f.WriteAt(p, off)
	}
	return n, err
}

// openDirect returns the file opened for direct writes, nil if that is not possible. It reopens the
// file through /proc, so that a rename does not matter.
func (f *osFile) openDirect() *os.File {
	if f.noDirect.Load() {
		return nil
	}
	f.directMu.Lock()
	defer f.directMu.Unlock()
	if f.direct == nil && !f.noDirect.Load() {
		var d *os.File
		err := f.control("open", func(fd int) (err error) {
			d, err = os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDWR|unix.O_DIRECT, 0)
			return err
		})
		if err != nil {
			f.noDirect.Store(true)
			return nil
		}
		f.direct = d
	}
	return f.direct
}
