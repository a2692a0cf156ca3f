package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/vfs"
)

// QuarantinedFrom returns the log whose frames a quarantine file in a log directory holds by its
// name. It returns false for that of a log that was unknown: what a truncation has undone may be
// among its frames.
func QuarantinedFrom(name string) (ID, bool) { return framesOf(name) }

// IsDirectoryOf reports whether name is that of a directory of a log, whether it is in use or not.
func IsDirectoryOf(name, topic string, id ID) bool {
	return name == (&checkpoint.Log{ID: id, Topic: topic}).String() || strings.HasPrefix(name, stem(id)+"-")
}

// CheckProducers returns an error if the producer state of a log in a checkpoint cannot be decoded.
func CheckProducers(l *checkpoint.Log) error {
	var s producers.State
	if _, err := s.Decode(l.Producers); err != nil {
		return fmt.Errorf("producer state in the checkpoint: %w", err)
	}
	return nil
}

// ReadState reads the checkpoint of a log directory. If there is none, the error matches
// fs.ErrNotExist; other errors match statelog.ErrDamaged or ErrNewerFormat as those of
// statelog.Read.
func ReadState(fsys vfs.FS, dir string) (*checkpoint.State, error) {
	return readState(fsys, path.Join(dir, CheckpointDir))
}

// ReadCopy is ReadState for the copy of the checkpoint. The copy may be one checkpoint older or
// newer; no action that only the newer one allows has been taken yet.
func ReadCopy(fsys vfs.FS, dir string) (*checkpoint.State, error) {
	return readState(fsys, path.Join(dir, CheckpointMirror))
}

func readState(fsys vfs.FS, dir string) (*checkpoint.State, error) {
	s, err := checkpoint.Read(fsys, dir)
	if err == nil && s == nil {
		err = fmt.Errorf("read checkpoint %s: %w", dir, fs.ErrNotExist)
	}
	return s, err
}

// RepairDir is a log directory that is locked for a repair. No broker uses it.
type RepairDir struct{ d *Dir }

// OpenForRepair locks a directory for a repair. The error matches ErrLocked if a broker uses it.
func OpenForRepair(loc Location, opt Options) (*RepairDir, error) {
	opt.setDefaults()
	d := newDir(loc, &opt)
	var err error
	if d.lock, err = d.takeLock(); err != nil {
		return nil, err
	}
	return &RepairDir{d}, nil
}

// Close unlocks the directory.
func (b *RepairDir) Close() error { return errors.Join(b.d.closeCheckpoint(), b.d.lock.Close()) }

// WriteIdentity writes the identity into the directory, or into that of its journal.
func (b *RepairDir) WriteIdentity(id Identity, ofJournal bool) error {
	if ofJournal {
		if err := vfs.MakeDir(b.d.opt.FS, b.d.jpath); err != nil {
			return err
		}
	}
	return writeIdentity(b.d.opt.FS, b.d.Location(), id, ofJournal)
}

// Commit makes a state the directory's checkpoint, with the next sequence. It replaces both copies;
// the first one must be readable (checkpoint.Restore).
func (b *RepairDir) Commit(s *checkpoint.State) error {
	c := *s
	c.Seq++
	if err := b.d.replaceCheckpoint(&c); err != nil {
		return err
	}
	s.Seq = c.Seq
	return nil
}

// replaceCheckpoint makes a state the checkpoint of a directory that is not in use. It removes
// nothing: until the new state is durable, the old one may be the only one.
func (d *Dir) replaceCheckpoint(c *checkpoint.State) error {
	if d.store == nil {
		if _, err := d.openCheckpoint(); err != nil {
			return err
		}
	}
	c.Clean = false // the next start counts as a start after a crash
	return d.writeCheckpoint(c)
}

// CommitFresh is Commit with an empty journal whose LSNs start at minLSN or later, so that no older
// frame counts any longer. If renew is set, the journal gets a new identity, so that the broker
// refuses to start if the old journal is put back.
func (b *RepairDir) CommitFresh(s *checkpoint.State, minLSN journal.LSN, renew bool) error {
	c := *s
	b.d.ident = Identity{Dir: s.Dir, Journal: s.Journal}
	c.Durable = max(c.Durable, minLSN-1)
	if renew {
		return b.d.newJournal(&c)
	}
	at, err := b.d.freshFile(c.Above())
	if err != nil {
		return err
	}
	return b.d.beginAt(&c, at)
}

// newJournal begins a journal with a new identity and with LSNs above all that the checkpoint
// names, and makes it the directory's journal.
func (d *Dir) newJournal(c *checkpoint.State) error {
	if err := vfs.MakeDir(d.opt.FS, d.jpath); err != nil {
		return err
	}
	d.ident.Journal = newID()
	at, err := d.freshFile(c.Above())
	if err != nil {
		return err
	}
	for _, ofJournal := range []bool{true, false} {
		if err := writeIdentity(d.opt.FS, d.Location(), d.ident, ofJournal); err != nil {
			return err
		}
	}
	return d.beginAt(c, at)
}

// freshFile begins a file in a journal that is not in use.
func (d *Dir) freshFile(above journal.LSN) (at journal.Position, err error) {
	j, err := journal.Open(d.journalOptions())
	if err != nil {
		return at, err
	}
	at, err = j.Fresh(above)
	return at, cmp.Or(err, j.Close())
}

// beginAt writes a checkpoint that needs no journal file before the one at the position.
func (d *Dir) beginAt(c *checkpoint.State, at journal.Position) error {
	c.Seq, c.Redo, c.Durable, c.Journal = c.Seq+1, at, at.LSN-1, d.ident.Journal
	return d.replaceCheckpoint(c)
}

// WritePartitionFile writes the topic id into a partition directory, and creates the directory if
// it is missing.
func (b *RepairDir) WritePartitionFile(l *checkpoint.Log) error {
	dir := path.Join(b.d.path, l.String())
	if err := vfs.MakeDir(b.d.opt.FS, dir); err != nil {
		return err
	}
	return writePartitionMeta(b.d.opt.FS, dir, l.ID)
}

// WriteMoved records in a partition directory in which log directory the log was made before, so
// that the broker does not take it for a copy.
func (b *RepairDir) WriteMoved(l *checkpoint.Log, from [16]byte) error {
	return b.d.writeMove(l.String(), from, l)
}

// NewQuarantine returns a Quarantine whose file names are not in use.
func (b *RepairDir) NewQuarantine(s *checkpoint.State) (*Quarantine, error) {
	infos, err := b.d.opt.FS.List(b.d.path)
	if err != nil {
		return nil, fmt.Errorf("quarantine journal frames: %w", err)
	}
	taken := map[string]bool{}
	for _, in := range infos {
		taken[in.Name] = true
	}
	seq := s.Seq
	for slices.ContainsFunc(s.Logs, func(l checkpoint.Log) bool { return taken[framesName(stem(l.ID), seq)] }) {
		seq++
	}
	return &Quarantine{d: b.d, seq: seq, files: map[string]*quarantineFile{}}, nil
}
