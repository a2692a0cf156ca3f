package copies

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

// Content is the content of a copy.
type Content struct {
	Used       bool // there is a copy
	Generation uint64
	Revision   int64
	Keys       []metadata.KV // in order
	Torn       int           // bytes of an incomplete write at the end of the log
	Log        string        // the path of the log
}

// Check reads a copy and changes nothing. A *Damage or ErrNewerFormat is the reason why it can't be
// read completely. If the snapshot is intact and the log is damaged, the keys
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

// Exists reports whether dir contains a copy, damaged or not. A missing directory and the remains
// of an interrupted first start do not count.
func Exists(fsys vfs.FS, dir string) (bool, error) { return statelog.Exists(fsys, dir) }
