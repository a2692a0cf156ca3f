package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"

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
// had; without really that is all it does. A journal of which nothing is missing is
// not given up: the error then matches ErrJournalWhole. The directory must not be
// in use. What is left of the old journal stays
// where it is until the next start; a place that belongs to another directory is
// refused.
//
// A crash in the middle leaves a directory that is refused as before, or one that
// is repaired.
func AcceptJournalLoss(place Place, opt Options, really bool) (lost []Accepted, err error) {
	opt.setDefaults()
	d := newDir(place, &opt)
	if !Used(opt.FS, place) {
		return nil, foreign("it is no log directory of chronik, there is no %s in it; name the one whose journal is lost with data.dir (--data-dir) or log.dirs", IdentityFile)
	}
	if d.lock, err = d.takeLock(); err != nil {
		return nil, err
	}
	defer d.lock.Close() // it ends with the process in any case
	if err := readJSON(opt.FS, path.Join(d.path, IdentityFile), "directory", &d.ident); err != nil {
		return nil, err
	}
	var theirs Identity
	err = readJSON(opt.FS, path.Join(d.jpath, JournalIdentityFile), "journal", &theirs)
	if err == nil && theirs.Dir != d.ident.Dir {
		return nil, foreign("journal %s belongs to log directory %x; set journal.dirs to the place whose journal is lost, or to an empty one", d.jpath, theirs.Dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, statefile.ErrCorrupt) {
		return nil, err
	}
	r := &recovery{d: d}
	defer func() {
		if e := d.closeCheckpoint(); err == nil {
			err = e
		}
	}()
	if err := r.readCheckpoint(); err != nil && !errors.Is(err, ErrForeign) {
		return nil, err // ErrForeign: an earlier attempt ended between the files
	}
	if r.ckpt == nil {
		return nil, foreign("%s has no checkpoint, so that there is nothing to go on from; put the checkpoint back, as chronikctl log repair does, or use an empty directory", d.path)
	}
	if theirs == d.ident && r.ckpt.Journal == d.ident.Journal && d.whole(r.ckpt) {
		return nil, fmt.Errorf("%w: nothing that was acknowledged is missing in %s; start the broker", ErrJournalWhole, d.jpath)
	}
	if lost = partitions(r.ckpt); !really {
		return lost, nil
	}
	return lost, d.newJournal(r.ckpt)
}

// whole says whether a start would find everything in the journal that it needs.
func (d *Dir) whole(c *checkpoint.State) bool {
	j, err := journal.Open(d.journalOptions())
	if err != nil {
		return false
	}
	ext, err := j.Scan(c.Redo, func(journal.Frame) error { return nil })
	return errors.Join(err, j.Close()) == nil && ext.Next > c.Durable
}

// newJournal begins a journal of a new identity above everything that the
// checkpoint knows of, and makes it the directory's.
func (d *Dir) newJournal(c *checkpoint.State) error {
	if err := vfs.MakeDir(d.opt.FS, d.jpath); err != nil {
		return err
	}
	d.ident.Journal = newID()
	at, err := d.freshFile(c.Above())
	if err != nil {
		return err
	}
	if err := writeJSON(d.opt.FS, path.Join(d.jpath, JournalIdentityFile), "journal", d.ident); err != nil {
		return err
	}
	if err := writeJSON(d.opt.FS, path.Join(d.path, IdentityFile), "directory", d.ident); err != nil {
		return err
	}
	return d.beginAt(c, at)
}

// freshFile begins a file in a journal that nobody uses.
func (d *Dir) freshFile(above journal.LSN) (at journal.Position, err error) {
	j, err := journal.Open(d.journalOptions())
	if err != nil {
		return at, err
	}
	at, err = j.Fresh(above)
	if e := j.Close(); err == nil {
		err = e
	}
	return at, err
}

// beginAt writes a checkpoint that needs nothing of the journal before a file.
func (d *Dir) beginAt(c *checkpoint.State, at journal.Position) error {
	c.Seq, c.Redo, c.Durable, c.Journal = c.Seq+1, at, at.LSN-1, d.ident.Journal
	return d.replaceCheckpoint(c)
}

// partitions lists the logs of a checkpoint: the newest records of each are in the journal.
func partitions(c *checkpoint.State) (list []Accepted) {
	for i := range c.Logs {
		if l := &c.Logs[i]; !l.Deleted && l.Offline == "" {
			list = append(list, Accepted{Topic: l.Topic, Partition: l.ID.Partition, Kept: l.Offset})
		}
	}
	return list
}
