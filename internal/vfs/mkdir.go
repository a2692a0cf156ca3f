package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"
)

// MakeDir creates a directory and its missing parents durably: it syncs every directory that got a
// new entry. If there is any, or if the directory is empty, it also syncs those above: a call for a
// sibling may have made them and not synced them yet, or the process that did may have been killed.
func MakeDir(fsys FS, name string) error {
	var missing []string
	sure := true // those that are missing are, and are not only hidden by an error
	there := path.Clean(name)
	for ; there != "." && there != "/"; there = path.Dir(there) {
		_, err := fsys.Stat(there)
		if err == nil {
			break
		}
		missing, sure = append(missing, there), sure && errors.Is(err, fs.ErrNotExist)
	}
	infos, _ := fsys.List(there) // one that cannot be listed may be empty
	if err := fsys.MkdirAll(name); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	for _, p := range missing {
		if err := fsys.SyncDir(path.Dir(p)); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if len(missing) > 0 || len(infos) == 0 || !sure {
		if err := syncAbove(fsys, there); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	return nil
}

// syncAbove syncs the directories above name, as far up as that is possible: other users may own
// the upper ones, and a file system that is only read may not have the call. Its only error is that
// of a disk: what the directory was to say may be lost then.
func syncAbove(fsys FS, name string) error {
	for p := name; p != "." && p != "/"; p = path.Dir(p) {
		if err := fsys.SyncDir(path.Dir(p)); err != nil {
			if errors.Is(err, syscall.EIO) || Full(err) {
				return err
			}
			return nil
		}
	}
	return nil
}
