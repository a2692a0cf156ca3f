package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// ReadFile returns the content of a file. If it is missing, the error matches fs.ErrNotExist.
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

// WriteFile creates a file with the given content, replacing an existing file of that name. If
// durable is set, the content is on disk when WriteFile returns; the name is durable after a sync
// of the directory.
func WriteFile(fsys FS, name string, content []byte, durable bool) error {
	f, err := fsys.Create(name)
	if errors.Is(err, fs.ErrExist) {
		if err = fsys.Remove(name); err == nil {
			f, err = fsys.Create(name)
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.WriteAt(content, 0)
	if err == nil && durable {
		err = f.Datasync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
