package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Error explains why the data directory cannot be used. The metadata of a broker of a cluster are
// copied from the others, and no repair makes them: a backup would have forgotten votes.
func (d *Dirs) Error(err error) error {
	if d.linked && errors.Is(err, statelog.ErrDamaged) {
		dir := d.Metadata()
		return remedied(d.data, err, health.Rejoin(dir, vfs.FreeName(d.fs, dir)))
	}
	return d.ErrorOf(d.data, err)
}

// ErrorOf is Error for a directory in the place of the data directory.
func (*Dirs) ErrorOf(dir string, err error) error {
	return remedied(dir, err, dataRemedy(config.KeyDataDir, []string{"--dir", dir}, err))
}

// remedied is the error of a directory with what to do about it, "" if err says it.
func remedied(dir string, err error, text string) error {
	if text != "" {
		text = "; " + text
	}
	return exit.With(exit.Data, fmt.Errorf("directory %s: %w%s", dir, err, text))
}

// dataRemedy returns what to do about a directory that cannot be used, or "" if err says it.
func dataRemedy(setting string, flags []string, err error) string {
	setting = config.Named(setting)
	remedy := "choose another with " + setting
	verify := health.Command(append([]string{"chronikctl", "log", "verify"}, flags...)...)
	preview := health.Command(append([]string{"chronikctl", "log", "repair", "--dry-run"}, flags...)...)
	switch {
	case errors.Is(err, storage.ErrForeign), errors.Is(err, statefile.ErrNewer), errors.Is(err, journal.ErrNewer):
		return "" // their texts include the remedy
	case errors.Is(err, journal.ErrDamaged):
		return "restore the journal; if it is lost, " + verify + " lists the damage and " + preview + " shows what a repair saves"
	case errors.Is(err, statefile.ErrCorrupt), errors.Is(err, statelog.ErrDamaged):
		return verify + " lists the damage and " + preview +
			" shows what a repair does; if it cannot repair everything, restore the whole directory from a backup"
	case errors.Is(err, statelog.ErrNewerFormat), errors.Is(err, metadata.ErrNewerVersion):
		return "start the version that wrote it, or " + remedy
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return exit.MoreFiles
	case errors.Is(err, syscall.EIO):
		return "the disk failed to read or write: `journalctl -k -n 50` shows what the kernel reports about it; copy the directory before you do anything else"
	case errors.Is(err, vfs.ErrLocked):
		remedy = "stop it, or give this broker a directory of its own with " + setting
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		remedy = "make it writable for this user, or " + remedy
	case vfs.Full(err):
		remedy = "free space on its file system, or " + remedy
	}
	return remedy
}

// Errors explains why log directories could not be opened.
func (d *Dirs) Errors(err error) error { return dirErrors(d.data, d.set, err) }

func dirErrors(data string, set map[string]string, err error) error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range all.Unwrap() {
			errs = append(errs, dirErrors(data, set, e))
		}
		return errors.Join(errs...)
	}
	d := (*storage.DirError)(nil)
	if !errors.As(err, &d) {
		return exit.With(exit.Data, err)
	}
	return remedied(d.Path, d.Err, dirRemedy(data, set, d))
}

// Remedy returns what to do about a log directory that could not be opened. It does not name the
// data directory, which the running broker has locked.
func (d *Dirs) Remedy(e *storage.DirError) string {
	return cmp.Or(dirRemedy("", d.set, e), "repair it")
}

// dirRemedy is dataRemedy for a log directory. A repair refuses where other brokers may have the
// records. If it has the metadata in data, it names the partitions that no other broker has: these
// would be lost with the directory.
func dirRemedy(data string, set map[string]string, d *storage.DirError) string {
	setting, flags := placeOf(set, d)
	if d.Replicated && data != "" {
		flags = withMetadata(data, d, flags)
	}
	text := dataRemedy(setting, flags, d.Err)
	if d.Replicated && (errors.Is(d.Err, journal.ErrDamaged) || errors.Is(d.Err, statefile.ErrCorrupt)) {
		last := append([]string{"chronikctl", "log", "repair"}, flags...)
		last = append(last, "--last-copy", "--backup", path.Clean(d.Path)+".before-repair")
		text += "; where it refuses because other brokers have the records, and this broker has the only replica of a partition, " +
			health.Command(last...) + " keeps what can be read of it; only if all partitions have other replicas, " + d.Away()
	}
	return text
}

// withMetadata returns the flags that name a log directory together with the data directory.
func withMetadata(data string, d *storage.DirError, flags []string) []string {
	switch {
	case path.Clean(d.Path) == path.Join(data, resolve.LogsDir):
		return append([]string{"--dir", data}, flags[2:]...)
	case d.Location().JournalApart(): // one journal for each log directory in data would have to be named, too
		return flags
	}
	return append([]string{"--dir", data}, flags...)
}

// placeOf returns the setting that an error of a log directory is about, and the flags that name
// the directory to chronikctl log.
func placeOf(set map[string]string, d *storage.DirError) (setting string, flags []string) {
	setting = config.KeyDataDir
	if set["log.dirs"] != "" {
		setting = "log.dirs"
	}
	if p := (*fs.PathError)(nil); set["journal.dirs"] != "" && errors.As(d.Err, &p) && resolve.Within(path.Clean(p.Path), d.Journal) {
		setting = "journal.dirs"
	}
	flags = []string{"--dir", d.Path}
	if d.Location().JournalApart() {
		flags = append(flags, "--journal", d.Journal)
	}
	return setting, flags
}
