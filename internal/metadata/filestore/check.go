package filestore

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Damage is what is wrong with a file. It matches ErrDamaged.
type Damage struct {
	File   string
	Offset int
	What   string
	Lost   bool // the file is missing
}

// Error names the file, the place and what is wrong there.
func (d *Damage) Error() string {
	if d.Lost {
		return fmt.Sprintf("%s: %s: %v", d.File, d.What, ErrDamaged)
	}
	return fmt.Sprintf("%s, offset %d: %s: %v", d.File, d.Offset, d.What, ErrDamaged)
}

// Unwrap makes it match ErrDamaged.
func (d *Damage) Unwrap() error { return ErrDamaged }

// Content is what a store's directory holds.
type Content struct {
	Used       bool // there is a store
	Generation uint64
	Revision   int64
	Keys       []metadata.KV // in order
	Torn       int           // bytes at the end of the log of a write that did not come to its end
	Log        string        // the path of the log
}

// Check reads a store's directory as Open does, and changes nothing. A *Damage, or
// ErrNewerFormat, is why Open would refuse it.
func Check(fsys vfs.FS, dir string) (Content, error) {
	var c Content
	found, err := survey(fsys, dir)
	if err != nil || !found.any {
		return c, err
	}
	c.Used, c.Generation, c.Log = true, found.newest, logName(dir, found.newest)
	id, st, err := readSnapshot(fsys, dir, found.newest)
	if err == nil {
		c.Torn, err = replay(fsys, dir, id, &st)
	}
	if err != nil {
		return c, err
	}
	c.Revision, c.Keys = st.revision, st.sorted(func(string) bool { return true })
	return c, nil
}
