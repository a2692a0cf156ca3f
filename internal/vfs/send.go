package vfs

import "errors"

// sender is a File whose bytes the system can send without a copy.
type sender interface {
	SendTo(socket int, off int64, n int) (int, error)
	Cached(off, n int64) bool
}

// CanSend reports whether SendTo may be called for f.
func CanSend(f File) bool {
	_, ok := f.(sender)
	return ok
}

// SendTo sends up to n bytes of f, from off on, to a socket, without a copy in this process. It
// returns how many bytes the socket took: none without an error at the end of the file. It blocks
// while the disk is read, and returns EAGAIN, not wrapped, if a socket that does not block has no
// room. If the error matches errors.ErrUnsupported, nothing was sent, and the bytes must be read
// instead.
func SendTo(socket int, f File, off int64, n int) (int, error) {
	if s, ok := f.(sender); ok {
		return s.SendTo(socket, off, n)
	}
	return 0, errors.ErrUnsupported
}

// Cached reports whether the system has all bytes [off, off+n) of f, n > 0, in memory at present.
// It is false if the system cannot say so.
func Cached(f File, off, n int64) bool {
	s, ok := f.(sender)
	return ok && s.Cached(off, n)
}
