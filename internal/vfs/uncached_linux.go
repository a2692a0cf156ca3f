package vfs

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// WriteVecUncached uses RWF_DONTCACHE: a buffered write whose pages are written back at once and
// then dropped. A bulk load then reuses the same few pages and does not evict pages that others
// read.
func (f *osFile) WriteVecUncached(bufs [][]byte, off int64) (int, error) {
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
			f.cached.Store(true) // the file system does not support the flag
			return unix.Pwritev(fd, iov, off+done)
		})
		return err
	})
	return n, err
}

// dropsBehind reports whether the kernel supports RWF_DONTCACHE well. The flag came with Linux
// 6.14; 6.16 is the first version without the races between dropping and dirtying a page, and the
// first in which ext4 supports it.
var dropsBehind = sync.OnceValue(func() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	return atLeast(unix.ByteSliceToString(u.Release[:]), 6, 16)
})

// atLeast reports whether a kernel's release, such as 6.18.44-generic, is at least a version.
func atLeast(release string, major, minor int) bool {
	parts := strings.FieldsFunc(release, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) < 2 {
		return false
	}
	x, errX := strconv.Atoi(parts[0])
	y, errY := strconv.Atoi(parts[1])
	return errX == nil && errY == nil && (x > major || x == major && y >= minor)
}
