package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// SendTo calls sendfile(2).
func (f *osFile) SendTo(socket int, off int64, n int) (sent int, err error) {
	full := false
	err = f.control("sendfile", func(fd int) (err error) {
		for {
			at := off
			sent, err = unix.Sendfile(socket, fd, &at, n)
			if full = errors.Is(err, unix.EAGAIN); full {
				return nil
			}
			if !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
	switch {
	case full:
		return 0, unix.EAGAIN // often, so it is not wrapped
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS): // not for this file system
		return 0, errors.ErrUnsupported
	case err != nil:
		return 0, err
	}
	return sent, nil
}

// Cached calls cachestat(2), which exists since Linux 6.5.
func (f *osFile) Cached(off, n int64) bool {
	page := int64(os.Getpagesize())
	pages := (off+n-1)/page - off/page + 1
	var in unix.Cachestat_t
	err := f.control("cachestat", func(fd int) error {
		return unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(off), Len: uint64(n)}, &in, 0)
	})
	return err == nil && int64(in.Cache) >= pages
}
