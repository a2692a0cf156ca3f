package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Extent describes what Scan found.
type Extent struct {
	// Next is the LSN after the last valid frame of the chain.
	Next LSN
	// Above is greater than every LSN seen in any file, in the chain or not.
	Above LSN
	Files []string // names of the files of the chain
}

// Scan reads the journal from a position on, without changing it, and calls fn for every frame of
// the chain at or above its LSN, in LSN order. No log needs the frames before it in the same file:
// their logs may have been deleted and forgotten. A Frame's payload is valid during the call.
//
// The chain ends at the first invalid frame; let s be its LSN. That is the ordinary end of a
// journal whose last write was torn, unless a valid frame anywhere after it proves that s was
// synced (durableThrough ≥ s). In that case, and if the first file is missing or belongs to another
// journal, the error matches ErrDamaged.
//
// A flipped bit in the very last synced group cannot be distinguished from a torn write.
func (j *Journal) Scan(from Position, fn func(Frame) error) (Extent, error) {
	return scan(j.reader(), from, fn)
}

// ScanDir is Scan for a journal that is not open.
func ScanDir(fsys vfs.FS, dir string, id [16]byte, from Position, fn func(Frame) error) (Extent, error) {
	return scan(&reader{fs: fsys, dir: dir, id: id}, from, fn)
}

func (j *Journal) reader() *reader {
	return &reader{fs: j.opt.FS, dir: j.opt.Dir, id: j.opt.ID, broken: j.opt.Broken}
}

func scan(r *reader, from Position, fn func(Frame) error) (Extent, error) {
	ext, c := Extent{Next: from.LSN, Above: from.LSN}, chain{from: from}
	err := r.each(from.File, func() (bool, error) { return true, r.scan(&c, &ext, fn) })
	if err == nil && !c.began && from.File > 0 {
		err = c.missing(r)
	}
	return ext, err
}

// scan reads one file: its frames in the chain, and what the others prove.
func (r *reader) scan(c *chain, ext *Extent, fn func(Frame) error) error {
	takes, err := c.includes(r)
	if takes {
		ext.Files = append(ext.Files, r.Name)
		err = c.follow(r, fn)
	}
	if err != nil {
		return err
	}
	ext.Next, ext.Above = c.next, max(ext.Above, c.next, r.First)
	if !r.Valid {
		// The header may have been there once: a datasync that covered a frame of the file covered
		// the header too. Frames of an earlier use of the file have LSNs below the needed ones.
		if err := r.adoptSalt(); err != nil {
			return err
		}
		if f, _, ok, err := r.frame(dataStart); err != nil || !ok || f.LSN < c.next {
			return err
		}
	}
	return r.verifyTail(c.next, &ext.Above)
}

// Read calls fn for the frames from a position through an LSN whose owners have been notified.
// Unlike Scan it may run while the journal is being written.
func (j *Journal) Read(from Position, through LSN, fn func(Frame) error) error {
	r, c := j.reader(), chain{from: from}
	err := r.each(from.File, func() (bool, error) {
		takes, err := c.includes(r)
		if takes {
			err = c.follow(r, func(f Frame) error {
				if f.LSN > through {
					return nil
				}
				return fn(f)
			})
		}
		return c.next <= through, err
	})
	if err == nil && (!c.began || c.next <= through) {
		err = fmt.Errorf("%w: frames from LSN %d to %d cannot be read", ErrDamaged, max(c.next, from.LSN), through)
	}
	return err
}

// chain is the sequence of files that hold the frames of one history.
type chain struct {
	from  Position
	next  LSN // the LSN that must come next
	began bool
	ended bool
}

// includes reports whether the file that r has open belongs to the chain, which must begin with the
// file of c.from. A file without a header was named and never used, or a power loss removed its
// header and all its frames. Neither breaks the chain, because a file that continues with the
// expected LSN is begun only after everything before it is synced.
func (c *chain) includes(r *reader) (bool, error) {
	switch {
	case c.ended:
		return false, nil
	case c.began:
		c.ended = r.Valid && r.First != c.next
		return r.Valid && !c.ended, nil
	case r.Seq != c.from.File:
		return false, c.missing(r)
	case !r.Valid:
		return false, &Damage{Kind: NoHeader, File: r.Name, LSN: c.from.LSN,
			text: fmt.Sprintf("%s in %s has no valid header", r.Name, r.dir)}
	case r.First > c.from.LSN:
		return false, &Damage{Kind: BeginsLate, File: r.Name, LSN: c.from.LSN,
			text: fmt.Sprintf("%s in %s begins at LSN %d, but LSN %d is needed", r.Name, r.dir, r.First, c.from.LSN)}
	}
	c.began, c.next = true, r.First
	return true, nil
}

func (c *chain) missing(r *reader) error {
	name := fileName(c.from.File)
	return &Damage{Kind: MissingFile, File: name, LSN: c.from.LSN, text: fmt.Sprintf("required file %s is missing in %s", name, r.dir)}
}

// follow reads frames from the beginning of r's file while they are valid and their LSNs dense. It
// passes on those from the chain's position on.
func (c *chain) follow(r *reader, fn func(Frame) error) error {
	for {
		f, size, ok, err := r.frame(r.pos)
		if err != nil || !ok || f.LSN != c.next {
			return err
		}
		if needed := f.LSN >= c.from.LSN || r.broken.Has(BelowRedo); needed && fn != nil && f.Type != Skip {
			if err := fn(f); err != nil {
				return err
			}
		}
		c.next++
		r.pos = after(r.pos, size, &f)
	}
}

// verifyTail checks the bytes after the end of the chain: a valid frame there that knew end to be
// synced proves damage. A write begins with a frame at the start of a block; its other frames
// follow.
func (r *reader) verifyTail(end LSN, above *LSN) error {
	for at := align(r.pos, block); at < r.Size; at += block {
		for pos := at; ; {
			f, size, ok, err := r.frame(pos)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			*above = max(*above, f.LSN+1)
			if f.DurableThrough >= end && f.LSN >= end && !r.broken.Has(IgnoreDamage) {
				return &Damage{Kind: InvalidFrame, File: r.Name, Pos: r.pos, LSN: end,
					text: fmt.Sprintf("LSN %d is invalid at position %d of %s/%s, but the frame with LSN %d records it as synced",
						end, r.pos, r.dir, r.Name, f.LSN)}
			}
			if f.last {
				break
			}
			pos = after(pos, size, &f)
		}
	}
	return nil
}

// IsUntouched reports whether the file at a position holds nothing but its header, as after a clean
// stop. LSN 0 matches any.
func IsUntouched(fsys vfs.FS, dir string, id [16]byte, at Position) (bool, error) {
	r := reader{fs: fsys, dir: dir, id: id}
	if err := r.open(at.File); err != nil {
		return false, err
	}
	defer r.close()
	_, _, ok, err := r.frame(dataStart)
	return r.Valid && (r.First == at.LSN || at.LSN == 0) && !ok, err
}

// Empty reports whether no file holds a frame, not even one of an earlier use of the file. A file
// without a durable header stems from a first start that was interrupted.
func (j *Journal) Empty() (bool, error) {
	r, empty := j.reader(), true
	err := r.each(0, func() (bool, error) {
		b, err := r.win.Fill(dataStart, frameHeader)
		_, some := frameLen(b)
		empty = !some
		return empty, err
	})
	return empty, err
}

// SyncFile makes the bytes read from a file durable: after the end of the writing process they can
// be read but may still be only in the page cache.
func (j *Journal) SyncFile(name string) error {
	f, err := j.opt.FS.Open(j.space.path(name))
	if err == nil {
		err = cmp.Or(f.Datasync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("sync journal: %w", err)
	}
	return nil
}

// Exists reports whether a directory holds any journal file; it returns false for a missing
// directory.
func Exists(fsys vfs.FS, dir string) (bool, error) {
	seqs, err := sequences(fsys, dir, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(seqs) > 0, err
}

// DamageKind is the kind of a journal's damage.
type DamageKind uint8

// The kinds of damage that keep a log directory from starting.
const (
	// MissingFile: the first needed file is missing.
	MissingFile DamageKind = iota + 1
	// NoHeader: the first needed file has no valid header.
	NoHeader
	// BeginsLate: the first needed file begins above the first needed LSN.
	BeginsLate
	// Foreign: a file belongs to another journal.
	Foreign
	// InvalidFrame: a frame is invalid or missing, and a later one knew it to be synced.
	InvalidFrame
)

// Damage describes damage and its position. It matches ErrDamaged.
type Damage struct {
	Kind DamageKind
	File string // name in the journal's directory
	// Pos is where the chain of valid frames ended in File, for InvalidFrame only. LSN is the first
	// missing LSN.
	Pos int64
	LSN LSN

	text string
}

// Error implements error.
func (d *Damage) Error() string { return fmt.Sprintf("%v: %s", ErrDamaged, d.text) }

// Unwrap makes Damage match ErrDamaged.
func (d *Damage) Unwrap() error { return ErrDamaged }
