package datadir

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/statefile"
)

// pathsFile is the name of the file in the data directory with the paths at which the broker has
// had log directories: a state file of kind "paths". Each line of its payload is the id of a
// directory and its last path, those of the last start first. It is a hint for messages only.
const (
	pathsFile    = "log-dirs"
	pathsKind    = "paths"
	pathsVersion = 1
	pathsLine    = "%x %q\n"
	mostPaths    = 256
)

// Paths notes where the open log directories are, and returns the last known path of each one that
// the broker has had, by id. What cannot be read or written is logged only.
func (d *Dirs) Paths(dirs []*storage.Dir) map[[16]byte]string {
	name := path.Join(d.data, pathsFile)
	before, err := statefile.Read(d.fs, name, pathsKind, pathsVersion)
	if err != nil {
		before = nil // none, or it is damaged
	}
	known, lines := map[[16]byte]string{}, bytes.Buffer{}
	add := func(id [16]byte, at string) {
		if _, has := known[id]; !has && len(known) < mostPaths {
			known[id] = at
			fmt.Fprintf(&lines, pathsLine, id, at)
		}
	}
	for _, dir := range dirs {
		add(dir.ID(), dir.Path())
	}
	for line := range strings.Lines(string(before)) {
		var id []byte
		var at string
		if _, err := fmt.Sscanf(line, pathsLine, &id, &at); err == nil && len(id) == 16 {
			add([16]byte(id), at)
		}
	}
	if !bytes.Equal(lines.Bytes(), before) {
		if err := statefile.WriteCache(d.fs, name, pathsKind, pathsVersion, lines.Bytes()); err != nil {
			d.log.Warn("the paths of the log directories could not be noted", zap.Error(err))
		}
	}
	return known
}
