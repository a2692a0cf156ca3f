package vfs

import (
	"errors"
	"fmt"
	"io"
)

// ReadFile returns what a file holds. A missing one matches fs.ErrNotExist.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	n, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	p := make([]byte, n)
	if n == 0 {
		return p, nil
	}
	if got, err := f.ReadAt(p, 0); err != nil && (!errors.Is(err, io.EOF) || int64(got) < n) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return p, nil
}
