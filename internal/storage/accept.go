package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Accepted is a partition that lost its journal: it goes on from Kept, and what
// was acknowledged at or beyond that offset is lost, if there was anything.
type Accepted struct {
	Topic     string
	Partition int32
	Kept      int64
}

// AcceptJournalLoss gives a log directory whose journal is missing, damaged or
// too old an empty new one, at an operator's word: no start does that by itself.
// It returns the partitions that had records in the journal only, or may have
// had. The directory must not be in use. What is left of the old journal stays
// where it is until the next start; a place that belongs to another directory is
// refused.
//
// A crash in the middle leaves a directory that is refused as before, or one that
// is repaired.
func AcceptJournalLoss(place Place, opt Options) (lost []Accepted, err error) {
	opt.setDefaults()
	d := newDir(place, &opt)
	for _, p := range []string{d.path, d.jpath} {
		if err := vfs.MakeDir(opt.FS, p); err != nil {
			return nil, err
		}
	}
	if d.lock, err = d.takeLock(); err != nil {
		return nil, err
	}
	defer d.lock.Close() // it ends with the process in any case
	if err := readJSON(opt.FS, path.Join(d.path, identityFile), "directory", &d.ident); err != nil {
		return nil, fmt.Errorf("%s is no log directory of chronik: %w", d.path, err)
	}
	var theirs identity
	err = readJSON(opt.FS, path.Join(d.jpath, journalIdent), "journal", &theirs)
	if err == nil && theirs.Dir != d.ident.Dir {
		return nil, fmt.Errorf("%w: journal %s belongs to log directory %x; set journal.dirs to an empty place", ErrForeign, d.jpath, theirs.Dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, statefile.ErrCorrupt) {
		return nil, err
	}
	r := &recovery{d: d}
	if err := r.readCheckpoint(); err != nil && !errors.Is(err, ErrForeign) {
		return nil, err // ErrForeign: an earlier attempt ended between the files
	}
	if r.ckpt == nil {
		return nil, fmt.Errorf("%s has no checkpoint: there is nothing to go on from", d.path)
	}
	return r.ckpt.journalled(), d.newJournal(r.ckpt)
}

// newJournal begins a journal of a new identity above everything that the
// checkpoint knows of, and makes it the directory's.
func (d *Dir) newJournal(c *checkpoint) error {
	d.ident.Journal = newID()
	j, err := journal.Open(journal.Options{
		FS: d.opt.FS, Dir: d.jpath, ID: d.ident.Journal, FileSize: d.opt.JournalFileSize, MaxBytes: d.opt.JournalBytes, Sweep: func() {},
	})
	if err != nil {
		return err
	}
	at, err := j.Fresh(c.above())
	if e := j.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if err := writeJSON(d.opt.FS, path.Join(d.jpath, journalIdent), "journal", d.ident); err != nil {
		return err
	}
	if err := writeJSON(d.opt.FS, path.Join(d.path, identityFile), "directory", d.ident); err != nil {
		return err
	}
	c.seq, c.redo, c.durable, c.journal = c.seq+1, at, at.LSN-1, d.ident.Journal
	return d.writeCheckpoint(c)
}

// journalled lists the partitions whose newest records are in the journal.
func (c *checkpoint) journalled() (list []Accepted) {
	for i := range c.logs {
		if l := &c.logs[i]; l.mode == journalled && !l.deleted && l.offline == "" {
			list = append(list, Accepted{Topic: l.topic, Partition: l.id.Partition, Kept: l.rp.offset})
		}
	}
	return list
}
