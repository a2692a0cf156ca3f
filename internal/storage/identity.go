package storage

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"

	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Names of files in a log directory and its journal's.
const (
	IdentityFile        = "chronik.dir"
	JournalIdentityFile = "chronik.journal"
	CleanFile           = "clean"
	LockFile            = ".lock"
	PartitionFile       = "partition.metadata"
)

const (
	identityVersion = 1
	deleteSuffix    = "-delete"
)

// Identity is who a log directory and its journal are. Both places hold the
// same, so that neither is used with another's other half.
type Identity struct {
	Dir     hexID `json:"directory"`
	Journal hexID `json:"journal"`
}

type hexID [16]byte

// MarshalText is encoding.TextMarshaler.
func (h hexID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText is encoding.TextUnmarshaler.
func (h *hexID) UnmarshalText(b []byte) error {
	if len(b) != 32 {
		return fmt.Errorf("an id has 32 hex digits, not %d", len(b))
	}
	_, err := hex.Decode(h[:], b)
	return err
}

func newID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

func readJSON(fsys vfs.FS, name, kind string, v any) error {
	b, err := statefile.Read(fsys, name, kind, identityVersion)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %s: %w", statefile.ErrCorrupt, name, err)
	}
	return nil
}

func writeJSON(fsys vfs.FS, name, kind string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	return statefile.Write(fsys, name, kind, identityVersion, b)
}

// identify reads or makes the identity of a directory and its journal place.
// found says whether the directory has been used before.
func (d *Dir) identify() (found bool, err error) {
	fsys := d.opt.FS
	own, other := path.Join(d.path, IdentityFile), path.Join(d.jpath, JournalIdentityFile)
	var theirs Identity
	err = readJSON(fsys, own, "directory", &d.ident)
	jerr := readJSON(fsys, other, "journal", &theirs)
	switch {
	case err == nil && jerr == nil && theirs != d.ident:
		return true, foreign("journal %s belongs to log directory %x, not to %s; set journal.dirs to the place that belongs to it",
			d.jpath, theirs.Dir, d.path)
	case err == nil && jerr == nil:
		return true, nil
	case err == nil && errors.Is(jerr, fs.ErrNotExist):
		if !d.hasCheckpoint() {
			return false, writeJSON(fsys, other, "journal", d.ident) // the first start ended here
		}
		return true, foreign("log directory %s was used with a journal that is not in %s: records in it would be lost; put it back, or set journal.dirs to where it is; if it is gone for good, chronikctl log verify says what was only in it, and chronikctl log repair goes on without it",
			d.path, d.jpath)
	case err == nil && errors.Is(jerr, statefile.ErrCorrupt):
		return true, fmt.Errorf("%w: %w", journal.ErrDamaged, jerr)
	case err == nil:
		return true, jerr
	case !errors.Is(err, fs.ErrNotExist):
		return true, err
	}
	if jerr == nil {
		return true, foreign("journal %s belongs to log directory %x, but %s is new, or has lost its %s; put that file back, as chronikctl log repair does, or give the directory another journal with journal.dirs", d.jpath, theirs.Dir, d.path, IdentityFile)
	}
	if !errors.Is(jerr, fs.ErrNotExist) {
		return true, jerr
	}
	if used, err := journal.Exists(fsys, d.jpath); err != nil || used {
		return true, errors.Join(err, foreign("%s holds journal files and no %s; put that file back, or set journal.dirs to an empty place", d.jpath, JournalIdentityFile))
	}
	d.ident = Identity{Dir: newID(), Journal: newID()}
	if err := writeJSON(fsys, own, "directory", d.ident); err != nil {
		return false, err
	}
	return false, writeJSON(fsys, other, "journal", d.ident)
}

// untouched refuses a directory of another program before anything is written to it:
// Kafka does not start any more where its directory holds a journal.
func (d *Dir) untouched() error {
	for _, ours := range []string{path.Join(d.path, IdentityFile), path.Join(d.path, CheckpointDir), path.Join(d.jpath, JournalIdentityFile)} {
		if _, err := d.opt.FS.Stat(ours); !errors.Is(err, fs.ErrNotExist) {
			return nil // ours, or unreadable: what reads it says more
		}
	}
	if _, err := d.opt.FS.Stat(d.path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return d.strangers()
}

// strangers refuses a directory that holds logs and has no checkpoint.
func (d *Dir) strangers() error {
	infos, err := d.opt.FS.List(d.path)
	if err != nil {
		return fmt.Errorf("log directory: %w", err)
	}
	for _, in := range infos {
		_, err := d.opt.FS.Stat(path.Join(d.path, in.Name, PartitionFile))
		if in.Name == "meta.properties" || in.Dir && err == nil {
			return foreign("%s holds %s but no checkpoint: it was written by another program, or its checkpoint is lost; put the checkpoint back, as chronikctl log repair does, or use an empty directory",
				d.path, in.Name)
		}
	}
	return nil
}

// cleanMark says that a stop left nothing to recover.
type cleanMark struct {
	Checkpoint uint64 `json:"checkpoint"`
	File       uint64 `json:"file"`
	LSN        uint64 `json:"lsn"`
}

// MarkedClean reports whether a directory has the mark of a clean stop that fits its
// checkpoint, as far as files tell, and whether it has one at all.
func MarkedClean(fsys vfs.FS, place Place, s *checkpoint.State) (clean, marked bool, err error) {
	var m cleanMark
	err = readJSON(fsys, path.Join(place.Path, CleanFile), "clean", &m)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil || s == nil || m != (cleanMark{s.Seq, s.Redo.File, uint64(s.Redo.LSN)}) {
		return false, true, err
	}
	clean, err = journal.IsUntouched(fsys, place.JournalPath(), s.Journal, s.Redo)
	return clean, true, err
}

// takeCleanMark reports whether the last stop was clean, and removes the mark: it
// speaks of the past only.
func (d *Dir) takeCleanMark(c *checkpoint.State) (bool, error) {
	clean, marked, markErr := MarkedClean(d.opt.FS, d.place(), c)
	if !marked {
		return false, nil
	}
	err := d.opt.FS.Remove(path.Join(d.path, CleanFile))
	if err == nil {
		err = d.opt.FS.SyncDir(d.path)
	}
	if err != nil {
		return false, fmt.Errorf("remove clean mark: %w", err)
	}
	return clean && markErr == nil, nil // reading the journal reports what is wrong
}

func (d *Dir) writeCleanMark(at journal.Position) error {
	return writeJSON(d.opt.FS, path.Join(d.path, CleanFile), "clean", cleanMark{d.last.Seq, at.File, uint64(at.LSN)})
}

// deletedName is what the directory of a log is renamed to before its files go.
func deletedName(dirName string, id ID) string {
	return dirName + "." + hex.EncodeToString(id.Topic[:]) + deleteSuffix
}

// IsDeletedName reports whether a start removes a partition directory of this name, which the
// checkpoint does not know.
func IsDeletedName(name string) bool { return strings.HasSuffix(name, deleteSuffix) }

// Used says whether a directory has been used as a log directory.
func Used(fsys vfs.FS, place Place) bool {
	_, err := fsys.Stat(path.Join(place.Path, IdentityFile))
	return err == nil
}

// Peek returns statefile.ErrNewer where a newer version of chronik made a log
// directory or its journal. It changes nothing.
func Peek(fsys vfs.FS, place Place) error {
	for _, ofJournal := range []bool{false, true} {
		// Anything else is OpenDir's to find and to tell.
		if _, err := ReadIdentity(fsys, place, ofJournal); errors.Is(err, statefile.ErrNewer) {
			return err
		}
	}
	return nil
}
