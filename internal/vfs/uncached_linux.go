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

// ReadUncached uses RWF_DONTCACHE. Where the kernel does not support that well, it drops the pages
// after the read if cachestat(2) says that none was in the cache before.
func (f *osFile) ReadUncached(p []byte, off int64) (int, error) {
	if len(p) == 0 || off < 0 {
		return f.ReadAt(p, off)
	}
	if dropsBehind() && !f.cached.Load() {
		n := 0
		err := f.control("preadv2", func(fd int) (err error) {
			n, err = unix.Preadv2(fd, [][]byte{p}, off, unix.RWF_DONTCACHE)
			return err
		})
		if err == nil && n == len(p) {
			return n, nil
		}
		return f.ReadAt(p, off) // the end of the file, an interrupted call, or a file system without the flag
	}
	var in unix.Cachestat_t
	drop := f.control("cachestat", func(fd int) error {
		return unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(off), Len: uint64(len(p))}, &in, 0)
	}) == nil && in.Cache == 0
	n, err := f.ReadAt(p, off)
	if drop {
		_ = f.control("fadvise", func(fd int) error { return unix.Fadvise(fd, off, int64(len(p)), unix.FADV_DONTNEED) }) // a hint
	}
	return n, err
}
