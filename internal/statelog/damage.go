package statelog

import (
	"errors"
	"fmt"
)

// ErrDamaged marks a file that is not what was written and synced. Nothing was changed.
var ErrDamaged = errors.New("state log is damaged")

// ErrNewerFormat marks files of a format version that this program does not know.
var ErrNewerFormat = errors.New("state log has a newer format")

// ErrTooLarge marks records that do not fit into one frame. Nothing was written.
var ErrTooLarge = errors.New("records are too large for a state log")

// Damage describes what is wrong with a file. It matches ErrDamaged.
type Damage struct {
	Name   string // of the state
	File   string
	Offset int
	What   string
	Lost   bool // the file is missing
}

// Error names the file, the place and what is wrong there.
func (d *Damage) Error() string {
	if d.Lost {
		return fmt.Sprintf("%s: %s: %s is damaged", d.File, d.What, d.Name)
	}
	return fmt.Sprintf("%s, offset %d: %s: %s is damaged", d.File, d.Offset, d.What, d.Name)
}

// Unwrap makes it match ErrDamaged.
func (d *Damage) Unwrap() error { return ErrDamaged }

// newerFormat matches ErrNewerFormat.
type newerFormat struct {
	format Format
	found  uint16
}

func (e *newerFormat) Error() string {
	return fmt.Sprintf("format version %d, this version of chronik knows %d: %s was written by a newer version of chronik",
		e.found, e.format.Version, e.format.Name)
}

func (e *newerFormat) Unwrap() error { return ErrNewerFormat }
