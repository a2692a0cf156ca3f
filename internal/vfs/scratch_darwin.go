package vfs

import (
	"errors"
	"io/fs"
)

// Scratch is not supported on macOS: a file has a name there until it is removed,
// and a crash in between would leave it.
func Scratch(dir string) (File, error) {
	return nil, &fs.PathError{Op: "open a file without a name", Path: dir, Err: errors.ErrUnsupported}
}
