package limits

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncName is the system call that datasync makes.
const syncName = "fdatasync"

// datasync is what a broker calls before it acknowledges.
func datasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
