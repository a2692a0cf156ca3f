package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Peek returns ErrNewerFormat where a newer version of chronik wrote the metadata
// in dir. It changes nothing. Anything else is Open's to find and to tell.
func Peek(fsys vfs.FS, dir string) error {
	list, _ := fsys.List(dir)
	for _, info := range list {
		name, kinds := path.Join(dir, info.Name), map[string]byte{"snapshot": kindSnapshot, "log": kindLog}
		_, kind := parseName(info.Name)
		if kinds[kind] == 0 {
			continue
		}
		p, err := vfs.ReadFile(fsys, name)
		if err != nil {
			continue
		}
		if _, err := parseHeader(p, kinds[kind]); errors.Is(err, ErrNewerFormat) {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Exists says whether there is any metadata in dir; a missing directory has none.
func Exists(fsys vfs.FS, dir string) (bool, error) {
	list, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, info := range list {
		if _, kind := parseName(info.Name); kind == "snapshot" || kind == "log" {
			return true, nil
		}
	}
	return false, err
}
