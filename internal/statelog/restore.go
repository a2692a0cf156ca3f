package statelog

import (
	"errors"
	"fmt"
	"path"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Restore replaces the log in to, which is lost or damaged, by its mirror in from. It first reads
// from like Read, and changes nothing if that finds a fault. After a crash, Restore must be
// repeated. The caller must ensure that no other process uses the directories.
func Restore(fsys vfs.FS, from, to string, f Format, check Reader) (Content, error) {
	c, err := Read(fsys, from, f, check)
	if err == nil && !c.Used {
		err = errors.New("there is no snapshot")
	}
	if err == nil {
		err = restore(fsys, to, append(c.logs, snapshotName(from, c.Generation)))
	}
	if err != nil {
		return c, fmt.Errorf("restore %s from %s: %w", to, from, err)
	}
	return c, nil
}

func restore(fsys vfs.FS, to string, sources []string) error {
	if err := vfs.MakeDir(fsys, to); err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, source := range sources {
		name := path.Base(source)
		kept[name] = true
		if err := copyFile(fsys, source, path.Join(to, name)); err != nil {
			return err
		}
	}
	if err := fsys.SyncDir(to); err != nil {
		return err
	}
	// The copy is valid only when no snapshot of a higher generation remains.
	list, err := fsys.List(to)
	if err != nil {
		return err
	}
	for _, info := range list {
		if _, suffix := parseName(info.Name); suffix == "" || kept[info.Name] {
			continue
		}
		if err := fsys.Remove(path.Join(to, info.Name)); err != nil {
			return err
		}
	}
	return fsys.SyncDir(to)
}

// copyFile replaces a file by a copy of source, which it syncs before the rename.
func copyFile(fsys vfs.FS, source, name string) error {
	content, err := vfs.ReadFile(fsys, source)
	if err == nil {
		err = vfs.WriteFile(fsys, name+suffixTmp, content, true)
	}
	if err == nil {
		err = fsys.Rename(name+suffixTmp, name)
	}
	return err
}
