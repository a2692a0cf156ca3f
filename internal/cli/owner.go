package cli

import (
	"os"
	"syscall"
)

// Foreign returns the user that owns a file or directory, and whether this process runs as root and
// that user is another one: it could not open what root creates there. A file that cannot be read
// is not foreign: the next call that needs it gets the error.
func Foreign(name string) (uid uint32, foreign bool) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return st.Uid, os.Geteuid() == 0 && st.Uid != 0
}
