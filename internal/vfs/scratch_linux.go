package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Scratch opens a file without a name on the file system of a directory, for who
// measures the disk: nothing finds it there, and it is gone when it is closed or
// the process ends. A file system that has no such files answers with an error
// that matches errors.ErrUnsupported.
func Scratch(dir string) (File, error) {
	f, err := openFile(dir, unix.O_TMPFILE|os.O_RDWR)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EOPNOTSUPP) { // the first of a kernel that does not know the flag
		return nil, &fs.PathError{Op: "open a file without a name", Path: dir, Err: errors.ErrUnsupported}
	}
	return f, err
}
