package statelog

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/chronik-io/chronik/internal/vfs"
)

const (
	suffixSnapshot = ".snapshot"
	suffixLog      = ".log"
	suffixTmp      = ".tmp"
)

func snapshotName(dir string, generation uint64) string {
	return path.Join(dir, fmt.Sprintf("%016x", generation)+suffixSnapshot)
}

func logName(dir string, generation uint64) string {
	return path.Join(dir, fmt.Sprintf("%016x", generation)+suffixLog)
}

// parseName splits a file's name. The suffix is empty for a file that does not belong to a log; a
// temporary file has suffixTmp.
func parseName(name string) (generation uint64, suffix string) {
	if len(name) < 16 {
		return 0, ""
	}
	if _, err := fmt.Sscanf(name[:16], "%016x", &generation); err != nil || fmt.Sprintf("%016x", generation) != name[:16] {
		return 0, ""
	}
	switch s := name[16:]; s {
	case suffixSnapshot, suffixLog:
		return generation, s
	case suffixSnapshot + suffixTmp, suffixLog + suffixTmp:
		return generation, suffixTmp
	}
	return 0, ""
}

// inventory describes a directory by its file names.
type inventory struct {
	used   bool     // there is a snapshot
	newest uint64   // generation of the newest snapshot
	later  []uint64 // generations of later logs with records, in order
	last   uint64   // the highest generation of any file
}

// survey finds the current generation. A later log without records belongs to a generation that
// never became current. One with records continues the log before it, or its snapshot is lost.
func survey(fsys vfs.FS, dir string, f *Format) (inventory, error) {
	var inv inventory
	list, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return inv, nil
	}
	if err != nil {
		return inv, err
	}
	for _, info := range list {
		g, suffix := parseName(info.Name)
		inv.last = max(inv.last, g)
		if suffix == suffixSnapshot {
			inv.used, inv.newest = true, max(inv.newest, g)
		}
	}
	for _, info := range list {
		g, suffix := parseName(info.Name)
		switch {
		case suffix != suffixLog || info.Size <= headerSize:
		case !inv.used:
			return inv, f.lostSnapshot(dir, g)
		case g > inv.newest:
			inv.later = append(inv.later, g)
		}
	}
	slices.Sort(inv.later)
	return inv, nil
}

func (f *Format) lostSnapshot(dir string, generation uint64) error {
	what := fmt.Sprintf("the file is missing, and %s has records", logName(dir, generation))
	return &Damage{Name: f.Name, File: snapshotName(dir, generation), What: what, Lost: true}
}

// Exists reports whether dir has files of a generation that was current, damaged or not: a
// snapshot, or a log with records. It returns false for a missing directory.
func Exists(fsys vfs.FS, dir string) (bool, error) {
	list, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, info := range list {
		if _, suffix := parseName(info.Name); suffix == suffixSnapshot || suffix == suffixLog && info.Size > headerSize {
			return true, nil
		}
	}
	return false, err
}

// Peek returns ErrNewerFormat if a newer version of chronik wrote one of the files in dir. It
// changes nothing. It ignores all other faults, which Open reports.
func Peek(fsys vfs.FS, dir string, f Format) error {
	list, _ := fsys.List(dir)
	kinds := map[string]byte{suffixSnapshot: kindSnapshot, suffixLog: kindLog}
	for _, info := range list {
		_, suffix := parseName(info.Name)
		if kinds[suffix] == 0 {
			continue
		}
		r, err := openReader(fsys, path.Join(dir, info.Name), &f, kinds[suffix])
		if errors.Is(err, ErrNewerFormat) {
			return err
		}
		if err == nil {
			r.close()
		}
	}
	return nil
}
