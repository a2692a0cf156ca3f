// Package terminal reports whether a stream is a terminal and whether its other end is
// still open, and makes a terminal pass single keys.
//
// It asks the kernel for the settings that only a terminal has: a device like
// /dev/null is none. Whoever writes for people or for programs calls it; it
// knows nothing of what is written.
package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal says whether a stream is a terminal. What is no file is none.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok || f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), readTermios)
	return err == nil
}

// ReaderClosed says whether nobody is left to read what is written to a stream: the other
// end of a pipe is closed. Who waits with nothing to write would not learn it. A
// file, and what is none, is never gone.
func ReaderClosed(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok || f == nil {
		return false
	}
	ask := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(ask, 0)
	return err == nil && n > 0 && ask[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}
