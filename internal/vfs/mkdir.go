package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"
)

// MakeDir creates a directory and its missing parents durably: it syncs every directory that got a
// new entry. If the deepest existing directory is empty, it also syncs those above it: the process
// that created it may have been killed before the sync.
func MakeDir(fsys FS, name string) error {
	var missing []string
	there := path.Clean(name)
	for ; there != "." && there != "/"; there = path.Dir(there) {
		if _, err := fsys.Stat(there); err == nil {
			break
		}
		missing = append(missing, there)
	}
	infos, err := fsys.List(there)
	if err := fsys.MkdirAll(name); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	for _, p := range missing {
		if err := fsys.SyncDir(path.Dir(p)); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if err == nil && len(infos) == 0 {
		return syncAbove(fsys, there)
	}
	return nil
}

// syncAbove syncs the directories above name, as far up as permissions allow: other users may own
// the upper ones, and special file systems sync no directory.
func syncAbove(fsys FS, name string) error {
	for p := name; p != "." && p != "/"; p = path.Dir(p) {
		err := fsys.SyncDir(path.Dir(p))
		switch {
		case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EROFS):
			return nil
		case err != nil:
			return fmt.Errorf("make directory: %w", err)
		}
	}
	return nil
}
