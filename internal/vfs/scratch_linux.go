package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Scratch opens a file without a name on the file system of a directory, for measuring the disk.
// The file is removed when it is closed or the process ends. If the file system does not support
// such files, the error matches errors.ErrUnsupported.
func Scratch(dir string) (File, error) {
	f, err := openFile(dir, unix.O_TMPFILE|os.O_RDWR)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EOPNOTSUPP) { // EISDIR: the kernel does not know the flag
		return nil, &fs.PathError{Op: "open a file without a name", Path: dir, Err: errors.ErrUnsupported}
	}
	return f, err
}
