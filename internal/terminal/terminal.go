// Package terminal says whether a person looks at a stream.
//
// It asks the kernel for the settings that only a terminal has: a device like
// /dev/null is none. Whoever writes for people or for programs calls it; it
// knows nothing of what is written.
package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// Is says whether a stream is a terminal. What is no file is none.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok || f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), readTermios)
	return err == nil
}
