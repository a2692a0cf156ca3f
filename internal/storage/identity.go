package storage

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"

	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Names of files in a log directory and in its journal's directory.
const (
	IdentityFile        = "chronik.dir"
	JournalIdentityFile = "chronik.journal"
	LockFile            = ".lock"
	PartitionFile       = "partition.metadata"
)

const identityVersion = 1

// Identity names a log directory and its journal. Both places store the same identity, so that
// neither is used with the counterpart from another pair.
type Identity struct {
	Dir, Journal [16]byte
}

// identityText is the payload of a file that holds an identity.
const identityText = "directory %x\njournal %x\n"

func newID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// ReadIdentity reads the identity stored in the log directory, or the one stored in its journal's
// directory if ofJournal is set. The errors are those of statefile.Read.
func ReadIdentity(fsys vfs.FS, loc Location, ofJournal bool) (id Identity, err error) {
	name, kind := loc.identity(ofJournal)
	b, err := statefile.Read(fsys, name, kind, identityVersion)
	if err != nil {
		return id, err
	}
	var dir, journal []byte
	if _, err := fmt.Sscanf(string(b), identityText, &dir, &journal); err != nil || len(dir) != 16 || len(journal) != 16 {
		return id, fmt.Errorf("%w: %s holds no identity", statefile.ErrCorrupt, name)
	}
	return Identity{[16]byte(dir), [16]byte(journal)}, nil
}

func writeIdentity(fsys vfs.FS, loc Location, id Identity, ofJournal bool) error {
	name, kind := loc.identity(ofJournal)
	return statefile.Write(fsys, name, kind, identityVersion, fmt.Appendf(nil, identityText, id.Dir, id.Journal))
}

// identity returns the name and the kind of a file that holds an identity.
func (loc Location) identity(ofJournal bool) (name, kind string) {
	if ofJournal {
		return path.Join(loc.JournalPath(), JournalIdentityFile), "journal"
	}
	return path.Join(loc.Path, IdentityFile), "directory"
}

// JournalPath returns the directory of the journal.
func (loc Location) JournalPath() string {
	if loc.Journal == "" {
		return path.Join(path.Clean(loc.Path), "journal")
	}
	return path.Clean(loc.Journal)
}

// JournalApart reports whether the journal is not in the log directory, so that a command that
// names the directory must name the journal, too.
func (loc Location) JournalApart() bool {
	return loc.JournalPath() != Location{Path: loc.Path}.JournalPath()
}

// remedy returns what to do about files of the directory that are lost: the repair and its result.
// Where other brokers have replicas, a repair would leave out what those have: the broker copies
// them into an empty directory. That would lose partitions that have their only replica here.
func (d *Dir) remedy(result string) string {
	const repair = "`chronikctl log repair --dir %[1]s --journal %[2]s%[3]s --backup %[1]s.before-repair` "
	if !d.opt.Replicated {
		return fmt.Sprintf(repair, d.path, d.jpath, "") + result
	}
	return "if this broker has the only replica of a partition, " + fmt.Sprintf(repair, d.path, d.jpath, " --last-copy") +
		"keeps what can be read of it; only if all partitions have other replicas, " + away(d.Location())
}

// away returns how a broker gets an empty directory, so that it copies its replicas.
func away(loc Location) string {
	moves := fmt.Sprintf("`mv %s %[1]s.away`", path.Clean(loc.Path))
	if at := loc.JournalPath(); path.Dir(at) != path.Clean(loc.Path) {
		moves += fmt.Sprintf(", `mkdir -p %[1]s` and `mv %[1]s %[1]s.away`", at)
	}
	return moves + " lets the broker copy its replicas from other brokers at the next start; what was moved takes space until it is " +
		"deleted, which is safe when `chronikctl cluster health` is healthy"
}

// identify reads the identity of the directory and its journal, or creates it.
func (d *Dir) identify() error {
	fsys := d.opt.FS
	own, err := ReadIdentity(fsys, d.Location(), false)
	theirs, jerr := ReadIdentity(fsys, d.Location(), true)
	d.ident = own
	switch {
	case err == nil && jerr == nil && theirs != own:
		return foreign("journal %s belongs to log directory %x, not to %s; set journal.dirs to the journal of this directory",
			d.jpath, theirs.Dir, d.path)
	case err == nil && jerr == nil:
		// The start or the repair that wrote them may have ended before its sync.
		return cmp.Or(fsys.SyncDir(d.path), fsys.SyncDir(d.jpath))
	case err == nil && errors.Is(jerr, fs.ErrNotExist):
		if has, err := statelog.Exists(fsys, path.Join(d.path, CheckpointDir)); !has && err == nil {
			return cmp.Or(fsys.SyncDir(d.path), writeIdentity(fsys, d.Location(), d.ident, true)) // the first start stopped here
		}
		return foreign("the journal of log directory %s is not in %s: records that only the journal holds would be lost; "+
			"restore the journal, or set journal.dirs to its location; if it is lost, "+
			"`chronikctl log verify --dir %[1]s --journal %[2]s` lists the records that only the journal held, and %[3]s",
			d.path, d.jpath, d.remedy("continues without them"))
	case err == nil && errors.Is(jerr, statefile.ErrCorrupt):
		return fmt.Errorf("%w: %w", journal.ErrDamaged, jerr)
	case err == nil:
		return jerr
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if jerr == nil {
		return foreign("journal %s belongs to log directory %x, but %s is new or has lost its %s; "+
			"if that file is lost, %s; otherwise set journal.dirs to another directory",
			d.jpath, theirs.Dir, d.path, IdentityFile, d.remedy("restores it"))
	}
	if !errors.Is(jerr, fs.ErrNotExist) {
		return jerr
	}
	if used, err := journal.Exists(fsys, d.jpath); err != nil || used {
		return errors.Join(err, foreign("%s holds journal files but no %s; restore that file, or set journal.dirs to an empty directory",
			d.jpath, JournalIdentityFile))
	}
	d.ident = Identity{Dir: newID(), Journal: newID()}
	if err := writeIdentity(fsys, d.Location(), d.ident, false); err != nil {
		return err
	}
	return writeIdentity(fsys, d.Location(), d.ident, true)
}

// refuseForeignDir refuses a directory of another program before anything is written to it: Kafka
// no longer starts if its directory holds a journal.
func (d *Dir) refuseForeignDir() error {
	for _, ours := range []string{path.Join(d.path, IdentityFile), path.Join(d.path, CheckpointDir),
		path.Join(d.jpath, JournalIdentityFile)} {
		if _, err := d.opt.FS.Stat(ours); !errors.Is(err, fs.ErrNotExist) {
			return nil // ours, or unreadable: the code that reads it reports the error
		}
	}
	if _, err := d.opt.FS.Stat(d.path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return d.refuseForeignFiles()
}

// refuseForeignFiles refuses a directory that holds partitions but no checkpoint.
func (d *Dir) refuseForeignFiles() error {
	infos, err := d.opt.FS.List(d.path)
	if err != nil {
		return fmt.Errorf("log directory: %w", err)
	}
	for _, in := range infos {
		holds, err := false, error(nil)
		if in.Dir {
			holds, err = HoldsPartition(d.opt.FS, path.Join(d.path, in.Name))
		}
		if err != nil {
			return fmt.Errorf("log directory: %w", err)
		}
		if in.Name == "meta.properties" || holds {
			return foreign("%s holds %s but no checkpoint: it was written by another program, or its checkpoint is lost; "+
				"if the checkpoint is lost, %s; otherwise use an empty directory",
				d.path, in.Name, d.remedy("restores it"))
		}
	}
	return nil
}

// StoppedCleanly reports whether a clean stop wrote the checkpoint and the journal has not been
// written to since, as far as files show.
func StoppedCleanly(fsys vfs.FS, loc Location, s *checkpoint.State) (bool, error) {
	if s == nil || !s.Clean {
		return false, nil
	}
	clean, err := journal.IsUntouched(fsys, loc.JournalPath(), s.Journal, s.Redo)
	return clean && err == nil, err
}

// Used reports whether a directory has been used as a log directory. An error means that this is
// unknown: the system fails to read the directory, or denies it.
func Used(fsys vfs.FS, loc Location) (bool, error) {
	_, err := fsys.Stat(path.Join(loc.Path, IdentityFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}

// Peek returns an error that names the file if a newer version of chronik wrote the log directory
// or its journal: statefile.ErrNewer, statelog.ErrNewerFormat or journal.ErrNewer. It changes
// nothing, so that a start that such a version must make instead changes nothing in other
// directories either.
func Peek(fsys vfs.FS, loc Location) error {
	for _, ofJournal := range []bool{false, true} {
		// Open finds and reports any other error.
		if _, err := ReadIdentity(fsys, loc, ofJournal); errors.Is(err, statefile.ErrNewer) {
			return err
		}
	}
	if err := checkpoint.Peek(fsys, path.Join(loc.Path, CheckpointDir)); err != nil {
		return err
	}
	return journal.Peek(fsys, loc.JournalPath())
}
