package vfs

import (
	"errors"
	"io/fs"
)

// Scratch is not supported on macOS: files there have names until they are removed, and a crash in
// between would leave one behind.
func Scratch(dir string) (File, error) {
	return nil, &fs.PathError{Op: "open a file without a name", Path: dir, Err: errors.ErrUnsupported}
}
