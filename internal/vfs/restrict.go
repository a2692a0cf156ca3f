package vfs

import (
	"errors"
	"io/fs"
	"path"
)

// restricter is a file system that knows which users may read a file.
type restricter interface {
	restrict(name string) (changed bool, err error)
}

// Restrict takes the rights of other users to a directory and to the files in it away, and reports
// whether it changed any. A missing directory is no error. A file system without users, such as one
// in memory, changes nothing.
func Restrict(fsys FS, dir string) (changed bool, err error) {
	infos, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	names := []string{dir}
	for _, in := range infos {
		if !in.Dir {
			names = append(names, path.Join(dir, in.Name))
		}
	}
	for _, name := range names {
		one, err := RestrictFile(fsys, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return changed, err
		}
		changed = changed || one
	}
	return changed, nil
}

// RestrictFile is Restrict for one file or directory, which must exist.
func RestrictFile(fsys FS, name string) (changed bool, err error) {
	if r, ok := fsys.(restricter); ok {
		return r.restrict(name)
	}
	return false, nil
}
