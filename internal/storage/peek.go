package storage

import (
	"errors"
	"path"

	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Used says whether a directory has been used as a log directory.
func Used(fsys vfs.FS, place Place) bool {
	_, err := fsys.Stat(path.Join(place.Path, identityFile))
	return err == nil
}

// Peek returns statefile.ErrNewer where a newer version of chronik made a log
// directory or its journal. It changes nothing.
func Peek(fsys vfs.FS, place Place) error {
	d := Dir{path: path.Clean(place.Path), jpath: path.Clean(place.Journal)}
	if place.Journal == "" {
		d.jpath = path.Join(d.path, "journal")
	}
	var id identity
	for name, kind := range map[string]string{path.Join(d.path, identityFile): "directory", path.Join(d.jpath, journalIdent): "journal"} {
		// Anything else is OpenDir's to find and to tell.
		if err := readJSON(fsys, name, kind, &id); errors.Is(err, statefile.ErrNewer) {
			return err
		}
	}
	return nil
}
