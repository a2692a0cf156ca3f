package datadir

import (
	"errors"

	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/vfs"
)

// InUse reports whether a directory could not be used because another broker uses it.
func InUse(err error) bool { return errors.Is(err, vfs.ErrLocked) || errors.Is(err, storage.ErrLocked) }

// Newer reports whether a newer version of chronik wrote what this one cannot read.
func Newer(err error) bool {
	return errors.Is(err, statefile.ErrNewer) || errors.Is(err, statelog.ErrNewerFormat) ||
		errors.Is(err, metadata.ErrNewerVersion) || errors.Is(err, journal.ErrNewer)
}

// Damaged reports whether files are damaged or missing, so that starting could lose records.
func Damaged(err error) bool {
	return errors.Is(err, statefile.ErrCorrupt) || errors.Is(err, statelog.ErrDamaged) || errors.Is(err, journal.ErrDamaged) ||
		errors.Is(err, storage.ErrForeign) || errors.Is(err, errNoMetadata)
}

// errNoMetadata means that logs are there, and their metadata is not.
var errNoMetadata = errors.New("has no metadata of them")

// Classify is Error for an error of a start that says nothing of a directory or an exit code,
// although a directory is the cause. It returns others as they are.
func (d *Dirs) Classify(err error) error {
	if exit.CodeOf(err) == exit.Failed && (InUse(err) || Newer(err) || Damaged(err)) {
		return d.Error(err)
	}
	return err
}
