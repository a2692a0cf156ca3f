package datadir

import (
	"errors"

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
		errors.Is(err, storage.ErrForeign)
}
