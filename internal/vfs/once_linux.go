package vfs

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// WriteVecOnce uses RWF_DONTCACHE: a buffered write whose pages are written back
// at once and then given up, so that a bulk load goes through the same few pages
// again and again and doesn't push out what others read.
func (f *osFile) WriteVecOnce(bufs [][]byte, off int64) (int, error) {
	if !dropsBehind() || f.cached.Load() {
		return f.WriteVecAt(bufs, off)
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "pwritev2", Path: f.Name(), Err: unix.EINVAL}
	}
	n := 0
	err := f.control("pwritev2", func(fd int) error {
		var err error
		n, err = writeVec(bufs, func(iov [][]byte, done int64) (int, error) {
			n, err := unix.Pwritev2(fd, iov, off+done, unix.RWF_DONTCACHE)
			if !errors.Is(err, unix.EOPNOTSUPP) {
				return n, err
			}
			f.cached.Store(true) // the file system doesn't know how
			return unix.Pwritev(fd, iov, off+done)
		})
		return err
	})
	return n, err
}

// dropsBehind says whether the kernel is one whose RWF_DONTCACHE is used. The
// flag came with Linux 6.14; 6.16 is the first with its races between dropping
// and dirtying a page mended, and the first in which ext4 knows it.
var dropsBehind = sync.OnceValue(func() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	return atLeast(unix.ByteSliceToString(u.Release[:]), 6, 16)
})

// atLeast compares a kernel's release, such as 6.18.44-generic, with a version.
func atLeast(release string, major, minor int) bool {
	parts := strings.FieldsFunc(release, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) < 2 {
		return false
	}
	x, errX := strconv.Atoi(parts[0])
	y, errY := strconv.Atoi(parts[1])
	return errX == nil && errY == nil && (x > major || x == major && y >= minor)
}
