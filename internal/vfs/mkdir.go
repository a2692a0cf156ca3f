package vfs

import (
	"fmt"
	"path"
)

// MakeDir makes a directory and its missing parents so that a loss of power
// doesn't take them back: every directory that got a new entry is synced.
func MakeDir(fsys FS, name string) error {
	var missing []string
	for p := path.Clean(name); p != "." && p != "/"; p = path.Dir(p) {
		if _, err := fsys.Stat(p); err == nil {
			break
		}
		missing = append(missing, p)
	}
	if err := fsys.MkdirAll(name); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	for _, p := range missing {
		if err := fsys.SyncDir(path.Dir(p)); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	return nil
}
