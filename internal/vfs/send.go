package vfs

import "errors"

// sender is a File whose bytes the system can send without a copy.
type sender interface {
	SendTo(socket int, off int64, n int) (int, error)
	Cached(off, n int64) bool
}

// SendTo sends up to n bytes of f from off on to a socket, without a copy to this process, and
// returns how many the socket took. Fewer than n without an error means that the file ended or that
// the socket has no room for more. Errors match errors.ErrUnsupported if nothing was sent because
// the file cannot be sent so; EAGAIN if the socket has no room at all.
func SendTo(socket int, f File, off int64, n int) (int, error) {
	if s, ok := f.(sender); ok {
		return s.SendTo(socket, off, n)
	}
	return 0, errors.ErrUnsupported
}

// Cached reports whether the system has all of the bytes [off, off+n) of f in memory, so that
// SendTo need not wait for the disk. It is false if that is not known, and for a File that SendTo
// does not support.
func Cached(f File, off, n int64) bool {
	s, ok := f.(sender)
	return ok && s.Cached(off, n)
}

// CanSend reports whether SendTo and Cached know files such as f.
func CanSend(f File) bool {
	_, ok := f.(sender)
	return ok
}
