package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// SendTo calls sendfile(2).
func (f *osFile) SendTo(socket int, off int64, n int) (int, error) {
	sent := 0
	err := f.control("sendfile", func(fd int) error {
		for {
			var err error
			at := off
			if sent, err = unix.Sendfile(socket, fd, &at, n); !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // the file system cannot
		err = errors.ErrUnsupported
	}
	return max(sent, 0), err
}

// Cached calls cachestat(2), which Linux has since version 6.5.
func (f *osFile) Cached(off, n int64) bool {
	page := int64(os.Getpagesize())
	pages := (off+n-1)/page - off/page + 1
	cached := false
	err := f.control("cachestat", func(fd int) error {
		var st unix.Cachestat_t
		err := unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(off), Len: uint64(n)}, &st, 0)
		cached = int64(st.Cache) >= pages
		return err
	})
	return err == nil && cached
}
