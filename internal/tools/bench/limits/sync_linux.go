package limits

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncName is the system call of datasync.
const syncName = "fdatasync"

// datasync is the call that a broker makes before it acknowledges.
func datasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
