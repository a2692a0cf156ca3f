package vfs

import (
	"fmt"
	"path"
)

// MakeDir makes a directory and its missing parents so that a loss of power
// doesn't take them back: every directory that got a new entry is synced. So are those
// above one that is there and empty: who made it may have been killed before the sync.
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
		syncAbove(fsys, there)
	}
	return nil
}

// syncAbove syncs the directories above one, as far up as that may be done: one that
// others made may be of theirs only.
func syncAbove(fsys FS, name string) {
	for p := name; p != "." && p != "/"; p = path.Dir(p) {
		if fsys.SyncDir(path.Dir(p)) != nil {
			return
		}
	}
}
