package filestore

import (
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/vfs"
)

// ErrDamaged reports that a file does not have its synced content. Nothing was changed.
var ErrDamaged = statelog.ErrDamaged

// ErrNewerFormat reports that a newer version of chronik wrote the directory.
var ErrNewerFormat = statelog.ErrNewerFormat

// Damage describes the damage of a file. It matches ErrDamaged.
type Damage = statelog.Damage

// Content is the content of a store's directory.
type Content struct {
	Used       bool // there is a store
	Generation uint64
	Revision   int64
	Keys       []metadata.KV // in order
	Torn       int           // bytes of an incomplete write at the end of the log
	Log        string        // the path of the log
}

// Check reads a store's directory as Open does, and changes nothing. A *Damage or ErrNewerFormat is
// the reason why Open would refuse it. If the snapshot is intact and the log is damaged, the keys
// are those before the damage. If there are keys, the revision is theirs.
func Check(fsys vfs.FS, dir string) (Content, error) {
	state := kv.NewState()
	found, err := statelog.Read(fsys, dir, format, reader{state})
	c := Content{
		Used: found.Used, Generation: found.Generation, Revision: int64(found.Sequence), Torn: int(found.Torn), Log: found.Log,
	}
	if err == nil || found.Sequence > 0 { // the snapshot is intact, and the log up to the damage
		c.Keys = state.Range("")
	}
	return c, err
}

// Peek returns ErrNewerFormat if a newer version of chronik wrote the metadata in dir. It changes
// nothing and leaves all other checks to Open.
func Peek(fsys vfs.FS, dir string) error { return statelog.Peek(fsys, dir, format) }

// Exists reports whether dir contains metadata, damaged or not. A missing directory and the remains
// of an interrupted first start do not count.
func Exists(fsys vfs.FS, dir string) (bool, error) { return statelog.Exists(fsys, dir) }
