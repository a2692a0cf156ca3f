package statelog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Reader receives the records of a log. A record is valid until the method returns. An error marks
// the record as damaged.
type Reader interface {
	// Load receives the next record of the snapshot.
	Load(record []byte) error
	// Apply receives the next record of the log and its number.
	Apply(sequence uint64, record []byte) error
}

// Content describes the content of a directory.
type Content struct {
	Used       bool // the directory holds a log
	Generation uint64
	Sequence   uint64 // number of the last record
	Torn       int64  // bytes of an incomplete write at the end of the newest log
	Log        string // path of the newest log

	log  [16]byte
	last uint64   // the highest generation of any file
	logs []string // in order

	end    int64 // of the frames in Log, if Torn is not 0
	closed bool  // Log ends with the clean-stop frame
}

// Read reads a directory, or its mirror, like Open: it returns *Damage or ErrNewerFormat where Open
// would. It changes nothing. The largest frame bounds its memory.
func Read(fsys vfs.FS, dir string, f Format, to Reader) (Content, error) {
	found, err := survey(fsys, dir, &f)
	c := Content{last: found.last}
	if err != nil || !found.used {
		return c, err
	}
	c.Used, c.Generation = true, found.newest
	if err := c.readSnapshot(fsys, dir, &f, to); err != nil {
		return c, err
	}
	for _, g := range append([]uint64{found.newest}, found.later...) {
		if err := c.readLog(fsys, dir, g, &f, to); err != nil {
			return c, err
		}
	}
	return c, nil
}

// readSnapshot reads the snapshot. Every fault in it is damage, because it was synced before it was
// renamed.
func (c *Content) readSnapshot(fsys vfs.FS, dir string, f *Format, to Reader) error {
	r, err := openReader(fsys, snapshotName(dir, c.Generation), f, kindSnapshot)
	if err != nil {
		return err
	}
	defer r.close()
	if r.id.generation != c.Generation {
		return r.damage(32, "file of another generation")
	}
	c.log = r.id.log
	for loaded := uint64(0); ; {
		at := r.off
		fr, ok, err := r.next()
		switch {
		case err != nil:
			return err
		case !ok:
			return r.damage(at, "no valid frame")
		case fr.kind == frameEnd:
			n, size := binary.Uvarint(fr.payload)
			if size <= 0 || size != len(fr.payload) || n != loaded || r.off != r.in.Size {
				return r.damage(at, "the end frame does not match the records before it")
			}
			c.Sequence = fr.sequence
			return nil
		case fr.kind != frameState:
			return r.damage(at, fmt.Sprintf("unknown frame of kind %d", fr.kind))
		}
		err = eachRecord(fr.payload, func(record []byte) error { loaded++; return to.Load(record) })
		if err != nil {
			return r.damage(at, err.Error())
		}
	}
}

// readLog reads the log of a generation up to its end or to a torn write. A log of a later
// generation than the snapshot's must continue the logs before it: otherwise its own snapshot is
// lost.
func (c *Content) readLog(fsys vfs.FS, dir string, generation uint64, f *Format, to Reader) error {
	before, torn := c.Log, c.Torn
	c.Log, c.Torn = logName(dir, generation), 0
	c.logs = append(c.logs, c.Log)
	r, err := openReader(fsys, c.Log, f, kindLog)
	if err != nil {
		return err
	}
	defer r.close()
	switch {
	case r.id != (identity{c.log, generation}):
		return r.damage(16, "file of another log or generation")
	case generation > c.Generation && r.flags&flagContinues == 0:
		return f.lostSnapshot(dir, generation)
	case torn > 0:
		what := fmt.Sprintf("%d bytes at its end are no valid frame, and %s continues it", torn, c.Log)
		return &Damage{Name: f.Name, File: before, Offset: int(c.end), What: what}
	case c.closed:
		return r.damage(headerSize, "data after the clean-stop frame of "+before)
	}
	return c.readFrames(r, to)
}

func (c *Content) readFrames(r *reader, to Reader) error {
	for r.off < r.in.Size {
		at := r.off
		fr, ok, err := r.next()
		if err != nil {
			return err
		}
		if !ok {
			next, err := r.find(at + 1)
			if err == nil && next >= 0 {
				err = r.damage(at, fmt.Sprintf("no valid frame, but one at offset %d", next))
			}
			c.Torn, c.end = r.in.Size-at, at
			return err
		}
		if err := c.apply(fr, to); err != nil {
			return r.damage(at, err.Error())
		}
		if c.closed = fr.kind == frameClosed; c.closed && r.off < r.in.Size {
			return r.damage(at, "data after the clean-stop frame")
		}
	}
	return nil
}

// apply passes on the records of a log frame.
func (c *Content) apply(fr frame, to Reader) error {
	switch {
	case fr.kind == frameClosed && len(fr.payload) == 0:
	case fr.kind == frameRecords:
		err := eachRecord(fr.payload, func(record []byte) error {
			c.Sequence++
			return to.Apply(c.Sequence, record)
		})
		if err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown frame of kind %d", fr.kind)
	}
	if fr.sequence != c.Sequence {
		return fmt.Errorf("the frame header names record %d as the last one, its payload ends with record %d", fr.sequence, c.Sequence)
	}
	return nil
}

// eachRecord calls do for every record of a payload.
func eachRecord(p []byte, do func(record []byte) error) error {
	for len(p) > 0 {
		record, rest, err := nextRecord(p)
		if err == nil {
			err = do(record)
		}
		if err != nil {
			return err
		}
		p = rest
	}
	return nil
}

// ErrDamaged marks a file whose content is not what was synced. Nothing was changed.
var ErrDamaged = errors.New("state log is damaged")

// ErrNewerFormat marks files of a format version that this program does not know.
var ErrNewerFormat = errors.New("state log has a newer format")

// ErrTooLarge marks records that do not fit in one frame. Nothing was written.
var ErrTooLarge = errors.New("records are too large for a state log")

// Damage describes the fault of a file. It matches ErrDamaged.
type Damage struct {
	Name   string // of the state
	File   string
	Offset int
	What   string
	Lost   bool // the file is missing
}

// Error returns the file, the offset and the fault.
func (d *Damage) Error() string {
	if d.Lost {
		return fmt.Sprintf("%s: %s: %s is damaged", d.File, d.What, d.Name)
	}
	return fmt.Sprintf("%s, offset %d: %s: %s is damaged", d.File, d.Offset, d.What, d.Name)
}

// Unwrap makes Damage match ErrDamaged.
func (d *Damage) Unwrap() error { return ErrDamaged }

// newerFormat matches ErrNewerFormat. Versions below the first released one are also unknown.
type newerFormat struct {
	format Format
	found  uint16
}

func (e *newerFormat) Error() string {
	who := "a newer version of chronik"
	if e.found < e.format.Version {
		who = "an unreleased version of chronik"
	}
	return fmt.Sprintf("format version %d, this version of chronik supports %d: %s wrote %s", e.found, e.format.Version, who, e.format.Name)
}

func (e *newerFormat) Unwrap() error { return ErrNewerFormat }
