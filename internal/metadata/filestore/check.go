package filestore

import (
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/vfs"
)

// ErrDamaged says that a file is not what was written and synced. Nothing was changed.
var ErrDamaged = statelog.ErrDamaged

// ErrNewerFormat says that a newer version of chronik wrote the directory.
var ErrNewerFormat = statelog.ErrNewerFormat

// Damage is what is wrong with a file. It matches ErrDamaged.
type Damage = statelog.Damage

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
// ErrNewerFormat, is why Open would refuse it. If the snapshot is whole and the log is
// damaged, the keys are those before the damage; if there are keys, the revision is theirs.
func Check(fsys vfs.FS, dir string) (Content, error) {
	st := newState()
	found, err := statelog.Read(fsys, dir, format, &st)
	c := Content{
		Used: found.Used, Generation: found.Generation, Revision: int64(found.Sequence), Torn: int(found.Torn), Log: found.Log,
	}
	if err == nil || found.Sequence > 0 { // the snapshot is whole, and the log up to the damage
		c.Keys = st.sorted(func(string) bool { return true })
	}
	return c, err
}

// Peek returns ErrNewerFormat where a newer version of chronik wrote the metadata
// in dir. It changes nothing. Anything else is Open's to find and to tell.
func Peek(fsys vfs.FS, dir string) error { return statelog.Peek(fsys, dir, format) }

// Exists reports whether there is metadata in dir, damaged or not. What a first start left that was
// interrupted is none, and a missing directory has none.
func Exists(fsys vfs.FS, dir string) (bool, error) { return statelog.Exists(fsys, dir) }
